"""Texts to sentences: WikiText's format and plain text, three segmenters, and the demo corpus."""

import itertools

import pytest
from factories import write_dictionary
from pipeline import step

from ff_memories.base.errors import UserError
from ff_memories.base.files import script, sha256
from ff_memories.corpus.dictionary import Dictionary
from ff_memories.corpus.segment import cuts, rule, segmenter
from ff_memories.corpus.text import HEADING, sentences

WIKITEXT = """\

 = Valkyria = \n
 It was released in 2011 . Critics said : " Fine ! " Then 1 @,@ 000 more came (see below . )

 = = Plot = = \n
 <unk> well @-@ known etc . ... and so on
"""
TYPES = ["the", ".", ",", "=", '"', "!", "Valkyria", "It", "was", "released", "1", "@,@", "000", "Plot", "@-@", "..."]


@pytest.fixture
def dictionary(tmp_path):
    write_dictionary(tmp_path / "dict.txt", TYPES)
    return Dictionary.read(tmp_path / "dict.txt")


def read(tmp_path, dictionary, text=WIKITEXT, **options):
    (tmp_path / "text").write_text(text, encoding="utf-8")
    made = sentences([tmp_path / "text"], dictionary, rule, 100, **options)
    ends = list(made.offsets)
    return made, [[dictionary[i] for i in made.tokens[a:b]] for a, b in itertools.pairwise(ends)]


@pytest.mark.parametrize("text, starts", [
    ("a b . c d .", [0, 3]), ('he said : " yes ! " then left .', [0, 7]), ('" no . " , he said . " yes . "', [0, 4, 8]),
    ("( see below . ) next", [0, 5]), ("really ? ! yes", [0, 3]), ("wait ... what", [0]), (".", [0]), ("", []),
])  # fmt: skip
def test_the_rule_cuts_after_ends_and_the_closers_that_belong_to_them(text, starts):
    assert rule(text.split()) == starts


def test_wikitext_is_read_with_its_headings_blank_lines_and_marks(tmp_path, dictionary):
    made, read_ = read(tmp_path, dictionary)
    assert read_[0] == ["=", "Valkyria", "="]
    assert read_[1] == ["It", "was", "released", "<unk>", "<unk>", "."]
    assert read_[-1] == ["...", "<unk>", "<unk>", "<unk>"]
    assert made.counts["tokens"] == sum(map(len, read_))
    assert made.counts["tokens_unknown"] == sum(s.count("<unk>") for s in read_)
    assert next(iter(made.line)) == 2


def test_headings_can_be_dropped_and_are_told_from_equations(tmp_path, dictionary):
    made, read_ = read(tmp_path, dictionary, headings="drop")
    assert made.counts["headings_dropped"] == 2
    assert not any(s[:1] == ["="] for s in read_)
    assert [bool(HEADING.fullmatch(text)) for text in (" = A = ", "= = B = =", "a = b", "= half")] == [
        True,
        True,
        False,
        False,
    ]


def test_padding_in_the_text_is_an_unknown_word(tmp_path, dictionary):
    made, read_ = read(tmp_path, dictionary, "the <pad> the\n")
    assert read_ == [["the", "<unk>", "the"]]
    assert made.counts["tokens_pad"] == 1


def test_a_spacy_pipeline_cuts_in_several_processes_as_in_one(tmp_path):
    spacy = pytest.importorskip("spacy", reason="the spacy extra is not installed")
    pipeline = spacy.blank("en")
    pipeline.add_pipe("sentencizer")
    pipeline.to_disk(tmp_path)
    cut = segmenter("spacy:mine", tmp_path)
    assert cut(["One", "two", ".", "Three", "!", "Four"]) == [0, 3, 5]
    assert cut([]) == []
    with pytest.raises(UserError, match="'no_such_pipeline' is not installed"):
        segmenter("spacy:no_such_pipeline")
    paragraphs = [f"{n} . Two ! {'three ' * (n % 7)} ?".split() for n in range(300)]
    assert list(cuts(paragraphs, "spacy:mine", tmp_path, False, 2)) == [cut(words) for words in paragraphs]


# -- the demo corpus --------------------------------------------------------------------------------------------------

docstrings = script("docstrings")
DOCSTRING = """\
Return the sum of `values` along an axis, see :func:`other.function <label>`.

Parameters
----------
values : array_like
    The numbers that are to be summed up, which can't be complex or empty here.

.. note::
    This text inside a directive must not be taken for prose of the docstring at all.

The well-known rule holds, e.g. for 1.5 and for numpy.linalg, in all such cases::

    x = listing_of_code + that_is_not_prose and so on and on and on

>>> sum_of([1, 2, 3]) and more words in a doctest that must not be taken for prose
"""


def test_prose_is_taken_out_of_docstrings_without_its_markup():
    found = [
        " ".join(words)
        for p in docstrings.paragraphs(DOCSTRING)
        if docstrings.is_prose(words := docstrings.tokens(docstrings.without_markup(p)))
    ]
    assert found == [
        "Return the sum of values along an axis , see other.function .",
        "The numbers that are to be summed up , which ca n't be complex or empty here .",
        "The well @-@ known rule holds , e.g. for 1.5 and for numpy.linalg , in all such cases :",
    ]


def test_docstrings_are_read_without_running_the_source():
    source = 'raise SystemExit\n\ndef f():\n    """Said."""\n\nclass A:\n    """Also."""\n'
    assert list(docstrings.docstrings(source)) == ["Said.", "Also."]


def test_the_split_of_a_file_is_fixed():
    names = [f"package/module{i}.py" for i in range(2000)]
    assert 0.055 < sum(docstrings.split_of(n) == "validation" for n in names) / len(names) < 0.095
    assert [n for n in names[:30] if docstrings.split_of(n) == "validation"] == [names[i] for i in (17, 22, 23, 26)]


@pytest.mark.more
@pytest.mark.locked
def test_the_demo_corpus_is_the_pinned_one_and_large_enough(tmp_path):
    from running import ROOT

    from ff_memories.config import load

    files = [tmp_path / "train.txt", tmp_path / "validation.txt"]
    raw = [tmp_path / "raw_train.txt", tmp_path / "raw_validation.txt"]
    outputs = zip(("--train", "--validation", "--raw-train", "--raw-validation"), [*files, *raw], strict=True)
    step("docstrings", *(word for pair in outputs for word in pair))
    made = {path.stem: path.read_text(encoding="utf-8").splitlines() for path in [*files, *raw]}
    words = sum(any(c.isalnum() for c in w) for paragraph in made["train"] for w in paragraph.split())
    assert words >= 750_000
    assert sum(len(rule(p.split())) for p in made["validation"]) >= 4_500
    assert not set(made["train"]) & set(made["validation"])
    assert sha256(*files) == load(ROOT / "config" / "config.yaml").corpus.sha256
    letters = lambda text: "".join(c for c in text.replace("@-@", "-") if not c.isspace())
    for split in ("train", "validation"):  # the raw text is the same paragraphs, as people write them
        tokenised, written = made[split], made[f"raw_{split}"]
        assert len(tokenised) == len(written)
        assert sum(letters(a) == letters(b) for a, b in zip(tokenised, written, strict=True)) > 0.99 * len(written)
        assert not any(" ," in text or "  " in text for text in written)
