"""Progress in a log: a line a minute, with what is known."""

import pytest

from ff_memories.base.progress import Progress


@pytest.fixture
def minute(monkeypatch):
    """Let a minute pass between any two looks at the clock, and have no terminal."""
    now = iter(range(0, 10**6, 61))
    monkeypatch.setattr("ff_memories.base.progress.time.monotonic", lambda: float(next(now)))
    monkeypatch.setattr("sys.stderr.isatty", lambda: False, raising=False)


def test_a_log_says_how_much_is_done_how_fast_and_how_long_it_will_take(minute, capsys):
    with Progress(61_000, "tokens", "triggers") as progress:
        progress.step(6_100, 300)
    assert capsys.readouterr().err == "triggers: 6,100 of 61,000 tokens in 300 sentences, 100 tokens/s, 549 s left\n"


def test_a_slow_rate_keeps_its_digits_and_a_length_that_is_not_known_is_not_guessed(minute, capsys):
    with Progress(0, "bytes", "file") as progress:
        progress.step(3)
    assert capsys.readouterr().err == "file: 3 bytes, 0.05 bytes/s\n"


def test_what_an_earlier_run_did_counts_as_done_but_not_for_the_rate(minute, capsys):
    with Progress(100, "tokens", "triggers") as progress:
        progress.step(60, skipped=True)
        progress.step(20)
    assert capsys.readouterr().err == "triggers: 80 of 100 tokens, 0.16 tokens/s, 122 s left\n"
