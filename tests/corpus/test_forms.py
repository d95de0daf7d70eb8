"""Kinds of files that people give as text: each is read, or refused by its name."""

import csv
import gzip
import io
import json
import shutil
import subprocess
import textwrap
import zipfile

import polars as pl
import pytest

from ff_memories.base.errors import UserError
from ff_memories.corpus import forms
from ff_memories.corpus.text import lines

TELLERS = ["The miller", "Her aunt", "A tall sailor", "My cousin Ruth", "The café's owner", "Old Mr. Bell"]
PARAGRAPHS = [
    f"{TELLERS[n % 6]} walked {n} miles to the market, where the bread was warm. Rain fell on the roofs of the town, "
    f"and nobody minded much. {TELLERS[(n * n + 1) % 6]} sold the last of {n + 7} apples before the bell rang."
    for n in range(24)
]
PLAIN = "".join(f"{paragraph}\n" for paragraph in PARAGRAPHS)
RECORDS = [{"id": f"a-{n}", "url": f"http://x.org/{n}", "text": text} for n, text in enumerate(PARAGRAPHS)]
WRAPPED = "\n\n".join(textwrap.fill(text, 70) for text in PARAGRAPHS) + "\n"
HTML = "<!DOCTYPE html><html><head><title>No</title><style>p {{}}</style></head><body>{}</body></html>"


def table(mark):
    out = io.StringIO()
    csv.writer(out, delimiter=mark).writerows([["id", "text"], *([r["id"], r["text"]] for r in RECORDS)])
    return out.getvalue()


def parquet(write):
    out = io.BytesIO()
    getattr(pl.DataFrame(RECORDS), write)(out)
    return out.getvalue()


def zipped(**members):
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        for name, text in members.items():
            archive.writestr(name.replace("__", "/").replace("_", "."), text)
    return out.getvalue()


def tagged(tag, between="\n"):
    return between.join(f"<{tag}>{text.replace('&', '&amp;')}</{tag}>" for text in PARAGRAPHS)


def run(*command):
    if not shutil.which(command[0]):
        pytest.skip(f"no {command[0]} here")
    return subprocess.run(command, input=PLAIN.encode(), stdout=subprocess.PIPE, check=True).stdout


REFUSED = {
    "gzip": (lambda: gzip.compress(PLAIN.encode()), "compressed, not"),
    "zstd": (lambda: run("zstd", "-c"), "compressed, not"),
    "zip": (lambda: zipped(my_txt=PLAIN), "a zip archive"),
    "docx": (lambda: zipped(word__document_xml=f"<w:b>{tagged('w:p')}</w:b>"), "a document such as docx"),
    "epub": (lambda: zipped(mimetype="application/epub+zip", a_xhtml=HTML.format(tagged("p"))), "odt or epub"),
    "parquet": (lambda: parquet("write_parquet"), "a parquet file, not plain text"),
    "UTF-16 with a mark": (lambda: PLAIN.encode("utf-16"), "UTF-16, not plain text"),
    "Latin-1": (lambda: PLAIN.encode("latin1"), "line 4: not UTF-8 at byte .* of the line; it may be CP1252"),
    "JSON lines": (lambda: "".join(json.dumps(r) + "\n" for r in RECORDS), "JSON, not plain text"),
    "JSON": (lambda: json.dumps({"rows": RECORDS}, indent=1), "JSON, not plain text"),
    "JSON, many": (lambda: "\n".join(json.dumps(r, indent=1) for r in RECORDS), "JSON, not plain text"),
    "CSV": (lambda: table(","), "CSV, not plain text"),
    "tabs": (lambda: table("\t"), "tab-separated, not plain text"),
    "HTML": (lambda: HTML.format(tagged("p")), "HTML, not plain text"),
    "wrapped": (lambda: WRAPPED, "its lines are wrapped at 70 characters"),
    "wrapped, no blank lines": (lambda: WRAPPED.replace("\n\n", "\n"), "its lines are wrapped at 70"),
    "old Mac": (lambda: PLAIN.replace("\n", "\r"), "a carriage return alone"),
}  # fmt: skip


@pytest.mark.parametrize("kind", REFUSED)
def test_a_kind_of_file_is_refused_by_its_name(tmp_path, kind):
    content, says = REFUSED[kind]
    content = content()
    path = tmp_path / "my file.txt"  # names say nothing
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(UserError, match=says):
        forms.check(path)


NAMED = {
    "PDF": (b"%PDF-1.7\n%\xe2\xe3", "a PDF"),
    "picture": (b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\1\0\0\0\1\0" * 9, "holds NULs, so it is no text"),
    "damaged zip": (b"PK\3\4" + b"x" * 99, "a zip archive"),
    "blank": (b"\xef\xbb\xbf \n\t\r\n", "the file has no text"),
}  # fmt: skip


@pytest.mark.parametrize("kind", NAMED)
def test_a_file_that_is_no_text_is_named(tmp_path, kind):
    (tmp_path / "my.txt").write_bytes(NAMED[kind][0])
    with pytest.raises(UserError, match=NAMED[kind][1]):
        forms.check(tmp_path / "my.txt")


READ = {
    "CRLF": PLAIN.replace("\n", "\r\n"),
    "a byte order mark": "\ufeff" + PLAIN,
    "sentences": PLAIN.replace(". ", ".\n"),
    "blocks": PLAIN.replace("\n", "\n\n"),
    "headings": "".join(f" = Title {n} = \n\n {text} \n\n" for n, text in enumerate(PARAGRAPHS)),
    "marks": PLAIN.replace("\n", "\n<|endoftext|>\n"),
    "verses": "".join(f"The wind is {'so ' * (n % 5)}high,\n{'and ' * (n % 3)}still it sings.\n" for n in range(30)),
    "Chinese": "今天天气很好，我们去公园吧。\n你想一起去吗？好！\n" * 20,
    "unknown words": "the <unk> sat on the <unk> .\n" * 30,
    "dialogue": '"Yes, I do," he said.\n"No," she said, "you don\'t."\n' * 30,
    "a quotation in brackets first": f'["Nobody," he said.] {PLAIN}',
    "JSON in one line only": f'{{"text": "A fox."}}\n{PLAIN}',
    "stamps": "".join(f"2024-01-01 12:00:11,{n:03} INFO The sea is {n} deep.\n" for n in range(30)),
    "Chinese titles": "".join("山水火木金" * 5 + "河" * (n * 7 % 12) + "\n" for n in range(60)),
}  # fmt: skip


@pytest.mark.parametrize("kind", READ)
def test_plain_text_is_read_without_a_word(tmp_path, kind):
    (tmp_path / "my.txt").write_bytes(READ[kind].encode())
    forms.check(tmp_path / "my.txt")
    (tmp_path / "my.txt").write_text(WRAPPED)
    forms.check(tmp_path / "my.txt", lines_are_sentences=True)


def test_a_byte_order_mark_is_no_part_of_the_first_word(tmp_path):
    (tmp_path / "my.txt").write_bytes(b"\xef\xbb\xbf = Title = \nA line.\n")
    assert [text for _, text in lines(tmp_path / "my.txt")] == [" = Title = \n", "A line.\n"]


def test_an_endless_line_is_refused(tmp_path):
    (tmp_path / "my.txt").write_text("a word " * 400_000)
    with pytest.raises(UserError, match="line 1: has more than 2,097,152 bytes"):
        next(lines(tmp_path / "my.txt"))
