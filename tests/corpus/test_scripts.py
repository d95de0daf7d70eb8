"""Sentences of texts in many scripts: where they end, and how words longer than a model's window are cut."""

from types import SimpleNamespace
from typing import Any

import pytest
from tokenizers import Tokenizer, decoders, models, pre_tokenizers

from ff_memories import tables
from ff_memories.base.errors import UserError
from ff_memories.config.sections import CorpusSection
from ff_memories.corpus.segment import line, raw_rule
from ff_memories.corpus.text import of_sentences, sentences
from ff_memories.corpus.tokenizer import Tokenizer as Types
from ff_memories.steps import corpus

SENTENCES = {  # `|` stands between sentences
    "Chinese": "今天很冷。|我们回家吧！|你饿了吗？|他说：“好的。”|然后关上了门，没有回头。",
    "Chinese quotations": "他关上了门。|“走吧。”|她走了。|“你去吗？”|她问。",
    "Chinese with Latin marks": "今天很冷.|我们回家吧!|圆周率是3.14吗?|是的",
    "Japanese": "猫が鳴いた。|「おいで。」と母が言った。|雨だ！|本当ですか？|「はい。」|「いいえ。」",
    "Thai": "ฝนตกหนักมาก เราอยู่บ้านทั้งวัน",
    "Hindi": "आज बहुत ठंड है।| हम घर चलें?| वह बोला, ठीक है।|फिर सब चले गए।",
    "Arabic": "ذهب الولد إلى السوق.| هل اشترى خبزا؟| نعم!| ثم عاد إلى البيت.",
    "Korean": "오늘은 춥다.| 집에 갈까?| 그는 IT 회사에 다닌다.| 값은 3.5 원이다.",
    "Hebrew": "היום קר מאוד.| נלך הביתה?| כן!| אחר כך ישנו.",
    "Armenian": "Այսօր ցուրտ է։| Գնանք տուն։",
    "Georgian": "დღეს ცივა.| წავიდეთ სახლში?| კი.",
    "Burmese": "ယနေ့၊ အေးသည်။| အိမ်ပြန်ကြစို့။| နေကောင်းလား။",
    "Tibetan": "བོད་ཡིག་ཡིན།| ང་འགྲོ།| ཁྱོད་འགྲོ་གམ།",
    "German quotations": "Er kam.| »Nein.«| Ende.| »Ja!«| »Gut.«",
    "French": "M. Dupont partit.| « Non. »| Elle rit.| « Oui ! » dit-elle.| Vraiment ?| Oui.",
    "German": "Heute ist es kalt.| Dr. Weiß bleibt zu Hause.| „Kommst du?“| Über Nacht fiel Schnee.",
    "Spanish": "Hace frío.| ¿Vamos a casa?| ¡Claro!| Él sonrió.",
    "Russian": "А. С. Пушкин жил в г. Москве, т. е. далеко.| Сегодня холодно.| Пойдём домой?| Да!",
    "lower-case English": "it was cold today.| we went home, i.e. we ran.| \"why?\"| nobody at acme inc. knew.",
    "English": "It was cold.| We went home (at approx. 5 p.m.).| \"Why?\"| No. 7 was e.g. lower. and so on.",
    "English with Chinese": "He said 你好。| Then he left for the town.| She came.",
    "English about Chinese": "The sign read 今天很冷。我们回家 and nobody could say why. it was odd.| We left.",
}  # fmt: skip
ALPHABET = {char: n for n, char in enumerate(sorted(pre_tokenizers.ByteLevel.alphabet()))}
BYTES = Types(Tokenizer(models.BPE(vocab=ALPHABET, merges=[])))
BYTES.fast.pre_tokenizer, BYTES.fast.decoder = pre_tokenizers.ByteLevel(add_prefix_space=False), decoders.ByteLevel()


def read(path, content, most=10_000, segmenter=raw_rule, **options):
    """Return the sentences' texts by their ids and by their places in the file, and all counts."""
    path.write_text(content, encoding="utf-8")
    split = sentences([path], BYTES, segmenter, most, **options)
    ids = [split.tokens[a:b] for a, b in zip(split.offsets, split.offsets[1:], strict=False)]
    assert max(map(len, ids)) <= most
    rows = split.frame("train", 0)
    placed = of_sentences(rows, BYTES)
    return [BYTES.fast.decode(list(part)) for part in ids], list(placed.values()), split


@pytest.mark.parametrize("script", SENTENCES)
def test_sentences_end_where_a_reader_of_the_script_ends_them(tmp_path, script):
    expected = [part.strip() for part in SENTENCES[script].split("|")]
    by_ids, by_places, _ = read(tmp_path / "my.txt", SENTENCES[script].replace("|", "") + "\n")
    assert by_ids == by_places == expected


def test_a_line_is_one_sentence_in_any_script_where_it_shall_be(tmp_path):
    text = SENTENCES["Chinese"].replace("|", "")
    assert read(tmp_path / "my.txt", f"{text}\n{text}", segmenter=line)[1] == [text, text]


LONG = {
    "Chinese": "河" * 100,
    "Thai": "ฝนตกหนักมากเราอยู่บ้านทั้งวันและกินข้าวต้ม" * 9,
    "combined": "e\u0301" * 100 + "👩\u200d👩\u200d👧" * 9,
    "between words": f"two words {'ACGT' * 40} and more {'TTGA' * 40} here.",
}


@pytest.mark.parametrize("kind", LONG)
def test_a_word_longer_than_the_window_is_cut_between_characters_and_counted(tmp_path, kind):
    content = f"A short line. It stays.\n{LONG[kind]}\nAnother line."
    by_ids, by_places, split = read(tmp_path / "my.txt", content, 61, too_long="split")
    assert by_ids == by_places and by_ids[:2] == ["A short line.", "It stays."] and by_ids[-1] == "Another line."
    assert "".join(by_ids).replace(" ", "") == content.replace("\n", "").replace(" ", "")
    assert split.counts["words_cut"] == (2 if kind == "between words" else 1)
    cut = sentences([tmp_path / "my.txt"], BYTES, raw_rule, 61, too_long="split", max_sentences=4)
    assert list(of_sentences(cut.frame("train", 0), BYTES).values()) == by_ids[:4]
    assert all(part.counts["tokens"] == len(part.tokens) for part in (split, cut))
    with pytest.raises(UserError, match="too_long: split"):
        read(tmp_path / "my.txt", content, 61)


def test_marks_around_a_line_are_no_words(tmp_path):
    assert read(tmp_path / "my.txt", "<s> A fox ran. </s>\n<s>It slept.</s>\n")[1] == ["A fox ran.", "It slept."]


def test_a_window_smaller_than_a_character_is_refused(tmp_path):
    with pytest.raises(UserError, match="a character of more than 2 tokens"):
        read(tmp_path / "my.txt", "河河", 2, too_long="split")


def test_texts_without_such_words_have_no_more_columns_and_counts(tmp_path):
    *_, split = read(tmp_path / "my.txt", "One. Two three four five six seven.\n", 12, too_long="split")
    assert split.frame("train", 0).columns[-1] == "tokens" and "words_cut" not in split.counts
    assert split.counts["sentences_split"] == 1


@pytest.mark.parametrize("split", ["train", "validation"])
def test_one_split_alone_may_have_sentences_that_end_inside_a_word(tmp_path, monkeypatch, split):
    texts = {"train": "A fox ran.", "validation": "An owl slept.", split: "今天很好。我们走吧！"}
    for name, content in texts.items():
        (tmp_path / name).write_text(content, encoding="utf-8")
    monkeypatch.setattr(corpus, "read_types", lambda _: BYTES)
    monkeypatch.setattr(corpus, "read_info", lambda _: {"max_positions": 99})
    keys = {"source": "any", "sha256": None, "train": {"files": []}, "validation": {"files": []}, "tokenizer": "model"}
    config: Any = SimpleNamespace(corpus=CorpusSection.model_validate(keys))
    train, validation, *made = (tmp_path / name for name in (*texts, "sentences.parquet", "corpus", "counts"))
    corpus.run(config, [train], [validation], train, train, [], None, *made)
    table = tables.read(made[0])
    assert table.columns[-2:] == ["first_character", "characters"] and table["characters"].null_count() == 1
    assert "".join(of_sentences(table, BYTES).values()) == "".join(texts.values())


@pytest.mark.parametrize(
    "mark", ["<|endoftext|>", "<|end_of_text|>", "\n<|endoftext|>\n", "\n</s>\n", "\n<eos>\n", " </s>\n"]
)
def test_a_mark_between_documents_is_no_sentence_and_ends_one(tmp_path, mark):
    content = f"A fox ran. It was late{mark}the owl sat. it slept{mark}"
    by_ids, by_places, split = read(tmp_path / "my.txt", content)
    assert by_ids == by_places == ["A fox ran.", "It was late", "the owl sat.", "it slept"]
    assert split.counts["paragraphs"] == 2


def test_a_long_word_of_200_000_letters_takes_time_in_proportion(tmp_path):
    *_, split = read(tmp_path / "my.txt", "ACGT" * 50_000, 255, too_long="split")
    assert len(split) == 785 and split.counts["tokens"] == 200_000
