"""Words of a corpus whose tokens are pieces: where tokenizers of every kind say they begin, and those of prefixes."""

import numpy as np
import pytest
from safetensors.numpy import save_file
from tokenizers import Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers

from ff_memories.base.errors import UserError
from ff_memories.corpus import store
from ff_memories.corpus.segment import line
from ff_memories.corpus.store import Corpus, Words
from ff_memories.corpus.text import sentences
from ff_memories.corpus.tokenizer import Tokenizer as Types

TEXT = ["the cat sees the other cat at 7.30 , again", "don't call Anna at 1234567 or 12", "naïve fish eat naïve birds"]
ODD = ["日 本語 cat", "a\u2581b \u2581 \u2581the cat", "½ ﬁsh ´x 🦉🦉 owl", "Ġcat Ġ the", "x", "12 3456 a1b2",
       "a\u200bb e\u0301 z\u0301"]  # fmt: skip
DIGITS = r"[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"  # of Llama 3


def learned(made, trainer, size, **more):
    """Learn a tokenizer's types from the text."""
    made.train_from_iterator(TEXT * 9, trainer(vocab_size=size, show_progress=False, **more))
    return made


def byte_level(trim=False, split=(), regex=True, size=290):
    made = Tokenizer(models.BPE())
    made.pre_tokenizer = pre_tokenizers.Sequence([*split, pre_tokenizers.ByteLevel(False, use_regex=regex)])
    made.post_processor, made.decoder = processors.ByteLevel(trim_offsets=trim), decoders.ByteLevel()
    return learned(made, trainers.BpeTrainer, size, initial_alphabet=pre_tokenizers.ByteLevel.alphabet())


def sentence_piece(form=None, prepends=False, unigram=False):
    made = Tokenizer(models.Unigram() if unigram else models.BPE(unk_token="<unk>", fuse_unk=True))
    if prepends:  # as Llama 2, which has no pre-tokenizer
        made.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
    else:
        made.pre_tokenizer = pre_tokenizers.Metaspace()
        if form is not None:
            made.normalizer = form
    made.decoder, special = decoders.Metaspace(), {"special_tokens": ["<unk>"]}
    if unigram:
        return learned(made, trainers.UnigramTrainer, 60, unk_token="<unk>", **special)
    return learned(made, trainers.BpeTrainer, 45 if prepends else 70, **special)


LLAMA_3 = {"split": [pre_tokenizers.Split(Regex(DIGITS), "isolated")], "regex": False}
KINDS = {
    "byte-level": byte_level, "byte-level, trimmed": lambda: byte_level(trim=True),
    "byte-level, digits apart": lambda: byte_level(**LLAMA_3),
    "across blanks": lambda: byte_level(regex=False, size=420),
    "behind words": lambda: byte_level(split=[pre_tokenizers.Split(" ", "merged_with_previous")], regex=False),
    "metaspace": sentence_piece, "metaspace, normalised": lambda: sentence_piece(normalizers.NFKC()),
    "prepended": lambda: sentence_piece(prepends=True), "unigram": lambda: sentence_piece(unigram=True),
}  # fmt: skip


def begins_of(made, words):
    """Say of each token whether it has a character of a word that no token before it has, one by one."""
    text, seen, out = " ".join(words), -1, []
    for start, end in made.encode(text, add_special_tokens=False).offsets:
        held = [text[:place].count(" ") for place in range(start, end) if text[place] != " "]
        held = held or [text[: start + 1].count(" ")]  # a blank alone goes with the word behind it
        out.append(held[0] > seen)
        seen = max(seen, *held)
    return out


@pytest.mark.parametrize("kind", KINDS)
def test_a_word_begins_where_a_blank_stands_before_it_in_the_text(kind):
    made = KINDS[kind]()
    pieces = 0
    for text in [*TEXT, *ODD, *(" ".join(ODD[i:]) for i in range(4))]:
        words = text.split()
        ids, begins = Types(made).encode_words(words)
        assert ids == Types(made).encode(words)
        assert begins == begins_of(made, words)
        assert sum(begins) == len(words) or kind in ("across blanks", "prepended")
        pieces += len(begins) - sum(begins)
    assert pieces


def corpus_of(tmp_path, texts, max_tokens=60, **options):
    (tmp_path / "text").write_text("\n".join(texts) + "\n", encoding="utf-8")
    types = Types(byte_level())
    split = sentences([tmp_path / "text"], types, line, max_tokens, **options)
    store.write(split, split, tmp_path / "corpus.safetensors")
    return store.read(tmp_path / "corpus.safetensors"), types


def test_a_corpus_says_of_each_token_whether_it_begins_a_word(tmp_path):
    found, types = corpus_of(tmp_path, [*TEXT, *ODD])
    for number, text in enumerate([*TEXT, *ODD] * 2):
        here = slice(found.offsets[number], found.offsets[number + 1])
        assert found.begins[here].tolist() == types.encode_words(text.split())[1]


def test_a_sentence_in_pieces_keeps_its_words(tmp_path):
    found, _ = corpus_of(tmp_path, TEXT, max_tokens=12, too_long="split")
    assert len(found) > 6 and found.lengths.max() <= 12
    assert found.begins.sum() == 2 * sum(len(text.split()) for text in TEXT)


@pytest.mark.parametrize("wrong", [[True], [False, True, True]])
def test_a_corpus_with_marks_that_do_not_fit_is_refused(tmp_path, wrong):
    arrays = {"tokens": np.arange(3, dtype=np.int32), "offsets": np.array([0, 1, 3]), "begins": np.array(wrong)}
    save_file(arrays, tmp_path / "corpus.safetensors", metadata={"train": "1"})
    with pytest.raises(UserError, match="cannot be read as a corpus"):
        store.read(tmp_path / "corpus.safetensors")


def test_words_of_prefixes_are_counted_and_cut_where_the_prefix_ends():
    begins = [True, False, True, True, False, False, True, True, False]
    words = Words(Corpus(np.arange(9, dtype=np.int32), np.array([0, 3, 7, 9]), 3, np.array(begins)))
    rows = [(s, p) for s, n in enumerate((3, 4, 2)) for p in range(n + 1)]
    sentence, position = (np.array(column) for column in zip(*rows, strict=True))
    assert words.count(sentence, position).tolist() == [0, 1, 1, 2, 0, 1, 1, 1, 2, 0, 1, 1]
    whole = [(s, p, w + 1) for (s, p), n in zip(rows, words.count(sentence, position), strict=True) for w in range(n)]
    first, many = words.span(*(np.array(column) for column in zip(*whole, strict=True)))
    expected = [(1, 1), (1, 2), (1, 2), (3, 1), (1, 1), (1, 2), (1, 3), (1, 3), (4, 1), (1, 1), (1, 2)]
    assert list(zip(first.tolist(), many.tolist(), strict=True)) == expected
    assert words.count(np.zeros(0, np.int64), np.zeros(0, np.int64)).shape == (0,)
