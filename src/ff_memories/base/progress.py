"""Show the progress of long work: a bar on a terminal, one line per minute in a log.

The steps of a workflow write to logs. If Snakemake was started on a terminal, they also show a line there every
``SHOWN`` seconds (``share_terminal``). ``FF_MEMORIES_PROGRESS`` sets another interval in seconds; 0 shows none.
"""

import contextlib
import os
import platform
import sys
import time
from collections.abc import Iterator
from contextvars import ContextVar

from tqdm import tqdm

EVERY = 60.0  # seconds between two lines in a log
SHOWN = 10.0  # seconds between two lines on the workflow's terminal
TERMINAL, SECONDS = "FF_MEMORIES_TERMINAL", "FF_MEMORIES_PROGRESS"


def share_terminal() -> None:
    """Let this process's jobs show their progress on its terminal, if there is one."""
    if sys.stderr.isatty():
        os.environ[TERMINAL] = f"{platform.node()}:{os.ttyname(sys.stderr.fileno())}"


_part: ContextVar[str] = ContextVar("part", default="")  # of a step's work, which this process does


@contextlib.contextmanager
def of_part(words: list[str]) -> Iterator[None]:
    """Let the lines inside say which part of a step's work they are of: jobs of one step run side by side."""
    before = _part.set(f" ({', '.join(words)})" if words else "")
    try:
        yield
    finally:
        _part.reset(before)


def _shown_every() -> float:
    """Return the seconds between two lines on the workflow's terminal; infinity for none."""
    try:
        return float(os.environ.get(SECONDS, SHOWN)) or float("inf")
    except ValueError:
        return SHOWN


def _show(line: str) -> None:
    """Write a line to the workflow's terminal, if it is on this machine."""
    node, _, name = os.environ.get(TERMINAL, "").partition(":")
    if node != platform.node():
        return  # a job on another machine
    try:
        terminal = os.open(name, os.O_WRONLY | os.O_NOCTTY)
    except OSError:
        return  # the terminal was closed; the job continues
    with open(terminal, "w", encoding="utf-8", errors="replace") as file, contextlib.suppress(OSError):
        if file.isatty():
            file.write(line + "\n")


class Progress(tqdm):  # type: ignore[type-arg]  # generic in its stubs alone
    """A tqdm bar with rate, time left and sentences done; in a log, one line per minute instead of a bar."""

    def __init__(self, total: int, unit: str, about: str):
        self._about, self._unit, self._begun = about, unit, time.monotonic()
        self._shown, self._every = self._begun, _shown_every()
        self._logged, self._done, self._sentences, self._whole = self._begun, 0, 0, total
        quiet = not sys.stderr.isatty()
        to, unit = getattr(sys.stderr, "stream", sys.stderr), f" {unit}"
        super().__init__(total=total, unit=unit, unit_scale=True, desc=about, disable=quiet, mininterval=0.5, file=to)

    def step(self, n: int, sentences: int = 0) -> None:
        """Count ``n`` more units as done, in ``sentences`` sentences."""
        self._done += n
        self._sentences += sentences
        if sentences and not self.disable:
            self.set_postfix_str(f"{self._sentences:,} sentences", refresh=False)
        self.update(n)
        now = time.monotonic()
        if self.disable and now - self._logged > EVERY:
            self._logged = now
            print(self._line(now), file=sys.stderr, flush=True)
        if self.disable and now - self._shown > self._every:
            self._shown = now
            _show(self._line(now))

    def _line(self, now: float) -> str:
        rate = self._done / (now - self._begun)
        speed = f"{rate:,.0f}" if rate >= 10 else f"{rate:.2f}"
        whole = f" of {self._whole:,}" if self._whole else ""  # 0: the total is unknown
        inside = f" in {self._sentences:,} sentences" if self._sentences else ""
        left = f", {(self._whole - self._done) / rate:,.0f} s left" if self._whole and rate else ""
        return f"{self._about}{_part.get()}: {self._done:,}{whole} {self._unit}{inside}, {speed} {self._unit}/s{left}"


def duration(seconds: float) -> str:
    """Return seconds in readable form: ``4.2 s``, ``3 min 05 s``, ``2 h 10 min``."""
    if round(seconds, 1) < 60:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest:02} s" if minutes < 60 else f"{minutes // 60} h {minutes % 60:02} min"
