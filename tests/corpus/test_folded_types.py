"""Types that count as one when tokens are compared folded: those alike but for case and the blanks around them."""

import pytest
from tokenizers import AddedToken, Tokenizer, decoders, models

from ff_memories.corpus.dictionary import Dictionary
from ff_memories.corpus.tokenizer import Tokenizer as Types
from ff_memories.corpus.tokenizer import folded

TEXTS = ["The", "{}The", "the", "{}the", "THE", "then", "{}", "{}{}", "x", "{}X", ",", "{},", "{}a", "tHe"]
CLASSES = [{"The", "{}The", "the", "{}the", "THE", "tHe"}, {"x", "{}X"}, {",", "{},"}]
BYTES = ["Ã", "ã", "ĠÃ", "Â", "â", "Ã©", "Ãī", "ĠÃ©"]  # C3, E3, blank C3, C2, E2, é, É, blank é
FALLBACK = ["<0xC3>", "<0xc3>", "Ġthe"]  # no byte's mark, and a letter that is no blank here


def of(vocabulary, decoder, vocab=None, special=()):
    made = Tokenizer(models.BPE({text: i for i, text in enumerate(vocabulary)}, []))
    made.decoder = decoder
    made.add_special_tokens(list(special))
    made.add_tokens([AddedToken(" Then", normalized=False)])
    return Types.of(made.to_str(), "tokenizer.json", vocab)


def classes(types, vocabulary):
    """Return the types that share their class with others."""
    found = {}
    for name, number in zip(vocabulary, types.folded().tolist(), strict=False):
        found.setdefault(number, set()).add(name)
    assert all(vocabulary[number] in names for number, names in found.items())
    return [names for names in found.values() if len(names) > 1]


@pytest.mark.parametrize("mark, decoder, more, also", [
    ("Ġ", decoders.ByteLevel(), BYTES, [{"Ã©", "Ãī", "ĠÃ©"}]),
    ("▁", decoders.Metaspace(), FALLBACK, []),
    ("▁", decoders.Sequence([decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(),
                             decoders.Strip(" ", 1, 0)]), FALLBACK[::2], []),
    ("▁", None, [], []), ("Ġ", None, [], []),
])  # fmt: skip
def test_case_and_blanks_count_for_nothing(mark, decoder, more, also):
    write = lambda text: text.format(*[mark] * text.count("{}"))
    named = [write(text) for text in TEXTS] + more
    fast = of(named, decoder)
    every = [*named, " Then"]
    expected = [{write(text) for text in one} for one in CLASSES] + also + [{"then", " Then"}]
    if FALLBACK[1] in more:  # both are text where no decoder takes them for bytes
        expected.append({"<0xC3>", "<0xc3>"})
    assert sorted(map(sorted, classes(fast, every))) == sorted(map(sorted, expected))
    assert fast.folded().tolist()[:5] == [0] * 5


def test_special_tokens_and_types_without_a_name_stay_by_themselves():
    types = of(["<s>x", "[cat]", "Ġ[cat]", "cat"], decoders.ByteLevel(), 12, ["[CAT]", "CAT"])
    assert types.fast.token_to_id("[CAT]") == 4
    assert types.folded().tolist() == [0, 1, 1, 3, 4, 5, 6, 7, 8, 9, 10, 11]


def test_a_dictionary_has_none():
    assert folded(Dictionary(["The", "the"])) is None
