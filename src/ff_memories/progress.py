"""Progress of long work: a bar on a terminal, a line a minute in a log."""

import sys
import time

from tqdm import tqdm


class Progress(tqdm):
    """tqdm in our units: rate and time left; in a log a line a minute instead of a bar."""

    def __init__(self, total: int, unit: str, about: str):
        self._about, self._unit, self._logged = about, unit, time.monotonic()
        quiet = not sys.stderr.isatty()
        super().__init__(total=total, unit=f" {unit}", unit_scale=True, desc=about, disable=quiet, mininterval=0.5)
        self._quiet_n, self._quiet_total, self._begun = 0, total, time.monotonic()

    def step(self, n: int) -> None:
        """Count ``n`` more units as done."""
        self.update(n)
        self._quiet_n += n
        now = time.monotonic()
        if self.disable and now - self._logged > 60:
            self._logged = now
            rate = self._quiet_n / (now - self._begun)
            left = (self._quiet_total - self._quiet_n) / rate
            print(
                f"{self._about}: {self._quiet_n:,} of {self._quiet_total:,} {self._unit}, "
                f"{rate:,.0f}/s, {left:,.0f} s left",
                file=sys.stderr,
                flush=True,
            )
