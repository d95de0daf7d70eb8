"""Readers take any bytes: they give something or refuse with one sentence, and nothing else ever comes out."""

import os
import random
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import fuzzing
import pytest

pytestmark = pytest.mark.more

CASES = 150  # of each reader, the same in every run; the long tests look further
PIECES = [b"\x00", b"\xff", b"\n", b"\r", b'"', b"'", b",", b";", b"\t", b" ", b"{", b"}", b"[", b"]", b"-1", b"0",
          b"1e999", b"99999999999999999999", b"null", b"true", b"NaN", b"&a", b"*a", b"!!int", b"\xed\xa0\x80",
          b"\xe2\x80\xa8", b"#fairseq:overwrite", b"\x80\x02", b"PK\x03\x04", b"K\x00", b"."]  # fmt: skip


def spoilt(content: bytes, other: bytes, rng: random.Random) -> bytes:
    """Return bytes with a few of them flipped, cut, doubled, replaced, or put in from elsewhere."""
    made = bytearray(content)
    for _ in range(rng.randint(1, 6)):
        at = rng.randrange(len(made) + 1)
        end = min(len(made), at + rng.randint(0, 12))
        kind = rng.randrange(6)
        if kind == 0 and at < len(made):
            made[at] ^= 1 << rng.randrange(8)
        elif kind == 1:
            del made[at:end]
        elif kind == 2:
            made[at:end] = rng.choice(PIECES)
        elif kind == 3:
            made[at:at] = made[at:end] * rng.randint(1, 3)
        elif kind == 4 and other:
            start = rng.randrange(len(other))
            made[at:end] = other[start : start + rng.randint(1, 40)]
        elif kind == 5 and rng.random() < 0.2:
            del made[at:]
    return bytes(made)


@pytest.mark.parametrize("reader", fuzzing.READERS)
def test_what_was_once_a_fault_is_none_any_more(reader, tmp_path):
    for content in [b"", *fuzzing.seeds(reader)]:
        fuzzing.one(reader, content, tmp_path)


@pytest.mark.parametrize("reader", fuzzing.READERS)
def test_spoilt_files_are_read_or_refused(reader, tmp_path):
    rng, given = random.Random(reader), fuzzing.seeds(reader)
    for _ in range(CASES):
        content = spoilt(rng.choice(given), rng.choice(given), rng)
        try:
            fuzzing.one(reader, content, tmp_path)
        except Exception as error:
            raise AssertionError(f"{reader} on {content!r}") from error


@pytest.fixture(scope="module")
def guided(tmp_path_factory):
    """Guided fuzzing of every reader for 20 seconds, as many at once as there are cores."""
    pytest.importorskip("atheris", reason="pip install -c constraints.txt -e '.[dev]' (Linux)")
    out = tmp_path_factory.mktemp("guided")
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        yield {reader: pool.submit(fuzzing.guided, reader, 20, out / reader) for reader in fuzzing.READERS}


@pytest.mark.parametrize("reader", fuzzing.READERS)
def test_guided_fuzzing_finds_nothing(reader, guided):
    tried, found, said = guided[reader].result()
    assert not found, said[-4000:]
    assert tried > 100


@pytest.mark.long
@pytest.mark.parametrize("reader", fuzzing.READERS)
def test_ten_minutes_of_guided_fuzzing_find_nothing(reader, tmp_path):
    pytest.importorskip("atheris", reason="pip install -c constraints.txt -e '.[dev]' (Linux)")
    _, found, said = fuzzing.guided(reader, 600, tmp_path)
    assert not found, said[-4000:]


def test_guided_fuzzing_finds_a_fault(tmp_path):
    """The same with a reader that has one."""
    pytest.importorskip("atheris", reason="pip install -c constraints.txt -e '.[dev]' (Linux)")
    script = Path(fuzzing.__file__)
    faulty = script.read_text().replace("    Dictionary.read(path)", r'    assert b"\0" not in path.read_bytes()')
    (tmp_path / "fuzzing.py").write_text(faulty)
    _, found, said = fuzzing.guided("dictionary", 20, tmp_path / "out", script=tmp_path / "fuzzing.py")
    assert "AssertionError" in said
    assert [path for path in found if b"\0" in path.read_bytes()]
