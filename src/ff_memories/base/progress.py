"""Progress of long work: a bar on a terminal, a line a minute in a log."""

import sys
import time

from tqdm import tqdm

EVERY = 60.0  # seconds between two lines of a log


class Progress(tqdm):  # type: ignore[type-arg]  # generic in its stubs alone
    """tqdm in our units: rate, time left and sentences done; in a log a line a minute instead of a bar."""

    def __init__(self, total: int, unit: str, about: str):
        self._about, self._unit, self._begun = about, unit, time.monotonic()
        self._logged, self._done, self._run, self._sentences, self._whole = self._begun, 0, 0, 0, total
        quiet = not sys.stderr.isatty()
        super().__init__(total=total, unit=f" {unit}", unit_scale=True, desc=about, disable=quiet, mininterval=0.5)

    def step(self, n: int, sentences: int = 0, skipped: bool = False) -> None:
        """Count ``n`` more units as done, in so many sentences; ``skipped`` ones were done by an earlier run."""
        self._done += n
        self._run += 0 if skipped else n
        self._sentences += sentences
        if sentences and not self.disable:
            self.set_postfix_str(f"{self._sentences:,} sentences", refresh=False)
        self.update(n)
        now = time.monotonic()
        if self.disable and not skipped and now - self._logged > EVERY:
            self._logged = now
            print(self._line(now), file=sys.stderr, flush=True)

    def _line(self, now: float) -> str:
        rate = self._run / (now - self._begun)
        speed = f"{rate:,.0f}" if rate >= 10 else f"{rate:.2f}"
        whole = f" of {self._whole:,}" if self._whole else ""  # else how much there is in all is not known
        inside = f" in {self._sentences:,} sentences" if self._sentences else ""
        left = f", {(self._whole - self._done) / rate:,.0f} s left" if self._whole else ""
        return f"{self._about}: {self._done:,}{whole} {self._unit}{inside}, {speed} {self._unit}/s{left}"


def duration(seconds: float) -> str:
    """Return seconds as people say them: ``4.2 s``, ``3 min 05 s``, ``2 h 10 min``."""
    if round(seconds, 1) < 60:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest:02} s" if minutes < 60 else f"{minutes // 60} h {minutes % 60:02} min"
