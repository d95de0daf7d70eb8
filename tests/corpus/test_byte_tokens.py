"""Byte-level tokens as readers see them."""

from ff_memories.corpus.tokenizer import _bytes


def test_a_token_that_is_no_whole_text_is_shown_by_its_bytes():
    assert (_bytes("Ķ"), _bytes("ĠĶ"), _bytes("<0x96>"), _bytes("▁漢")) == ("<0x94>", " <0x94>", "<0x96>", "▁漢")
