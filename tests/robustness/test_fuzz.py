"""Readers take any bytes: they give something or refuse with one sentence, and nothing else ever comes out."""

import random

import fuzzing
import pytest

pytestmark = pytest.mark.more

CASES = 150  # of each reader, the same in every run
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
