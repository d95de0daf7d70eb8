"""Show what Snakemake does on a run in plain words: its steps, one bar over all jobs, and errors with their fix.

    python -m ff_memories.workflow.terminal_logger --snakefile Snakefile ...

It is Snakemake's command line with a logger of our own, by its interface for loggers. Without a terminal, each step is
a line. A step's words are those of its rule.
"""

import io
import os
import platform
import re
import shutil
import signal
import sys
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Callable
from contextlib import redirect_stderr
from logging import WARNING, LogRecord
from pathlib import Path
from types import FrameType
from typing import Any

from snakemake_interface_logger_plugins.base import LogHandlerBase
from snakemake_interface_logger_plugins.common import LogEvent

from ff_memories.base.machine import MACHINE, MADE
from ff_memories.base.progress import TERMINAL, duration
from ff_memories.base.text import shown

NAME = "ff-memories"
NOTHING, STOPPING = "Nothing to be done", "Terminating processes"  # as Snakemake says it
PLACES = re.compile(r'^(\w+( in file ".*", line \d+)?:|\s*File ".*", line \d+.*|)$')  # lines that say where, not what
PROFILES = " for setting default command line arguments.\n"
OF_STEP, LOCKED = "CalledProcessError", "Directory cannot be locked"
UNLOCK = "wait until the other run has ended; if there is none, run this command once with -- --unlock"
GOES_ON = "the same command goes on where it stopped"
LONGEST = 300  # characters of a job's reason: that of `all` would name every file of a run
LAST = 6  # lines of a failed step's log
WIDTH = 24  # characters of the bar


class LogHandler(LogHandlerBase):
    """Snakemake's logger, which calls ``emit`` with every event, in one thread."""

    writes_to_stream = has_filter = has_formatter = True
    writes_to_file = needs_rulegraph = False
    stopping = False

    def __post_init__(self) -> None:
        self.words: dict[str, str] = {}  # {rule: its docstring}
        self.begun, self.total, self.done = time.monotonic(), 0, 0
        self.failed: set[str] = set()  # what was said of steps that failed
        self.jobs: dict[int, tuple[str, float]] = {}  # {job: (rule, when it started)} of the running ones
        self.waiting: Counter[str] = Counter()  # {rule: jobs that have not ended}
        self.spent: dict[str, list[float]] = defaultdict(list)  # {rule: seconds of its jobs}
        self.known: set[str] = set()
        self.drawing, self.terminal = threading.RLock(), sys.stderr.isatty()
        self.unicode = (sys.stderr.encoding or "").lower().startswith("utf")
        if self.terminal:
            ours, theirs = os.openpty()  # jobs write their progress there, and we write it above the bar
            os.environ[TERMINAL] = f"{platform.node()}:{os.ttyname(theirs)}"
            threading.Thread(target=self._pass_on, args=(ours,), daemon=True).start()
            threading.Thread(target=self._keep_drawing, daemon=True).start()

    def emit(self, record: LogRecord) -> None:
        """Show an event, or count it."""
        with self.drawing:
            event, now = getattr(record, "event", None), time.monotonic()
            data: Any = record.__dict__
            if event == LogEvent.RUN_INFO:
                self.waiting = Counter({rule: n for rule, n in data["stats"].items() if rule != "total"})
                self.total = sum(self.waiting.values())
                if not self.total:  # with --until, Snakemake does not say it
                    self._say(NOTHING)
            elif event == LogEvent.JOB_INFO:
                self._start(data["jobid"], data["rule_name"], now)
            elif event == LogEvent.JOB_FINISHED and data["job_id"] in self.jobs:
                rule, began = self.jobs.pop(data["job_id"])
                self.done += 1
                self.waiting[rule] -= 1
                self.spent[rule].append(now - began)
                if self.done == self.total:
                    self._say(f"[100%] {self.done} jobs done in {duration(now - self.begun)}")
            elif event == LogEvent.JOB_ERROR:
                self.jobs.pop(data["jobid"], None)
                said = failure(data["rule_name"], self.words, data["log"] or [])
                if said not in self.failed and not self.stopping:
                    self._say(said)
                self.failed.add(said)
            elif event == LogEvent.ERROR:
                self._error(str(record.msg), data["exception"])
            elif "words" in data:
                self.words = data["words"]
            elif event is None:
                self._message(record)
            self._draw()

    def _start(self, job: int, rule: str, now: float) -> None:
        self.jobs[job] = rule, now
        if rule not in self.known and rule in self.words:
            self.known.add(rule)
            jobs = f" ({n} jobs)" if (n := self.waiting[rule]) > 1 else ""
            self._say(f"[{self._share():4.0%}] {self.words[rule].rstrip('.')}{jobs}")

    def _error(self, message: str, kind: str) -> None:
        if kind == "KeyboardInterrupt" or self.stopping:
            return  # `main` says it
        if LOCKED in message:
            self._say(f"error: this folder is locked\n  fix: {UNLOCK}")
        elif not self.failed and OF_STEP not in message:  # the step says it better
            self._say("error: " + "\n".join(line for line in message.splitlines() if not PLACES.match(line)))

    def _message(self, record: LogRecord) -> None:
        message = str(record.msg)
        ours = getattr(record, "own", False) or message.startswith(NOTHING)
        if message.startswith(STOPPING):
            LogHandler.stopping = True  # steps fail because they are stopped
            self._say("stopping the running steps")
        elif ours or (record.levelno >= WARNING and not self.failed):
            self._say(message)

    def _share(self) -> float:
        return self.done / self.total if self.total else 0.0

    def left(self, now: float) -> float | None:
        """Return the estimated seconds to the end, by the times of finished jobs; ``None`` before there are some."""
        times = [seconds for spent in self.spent.values() for seconds in spent]
        if len(times) < 3:
            return None
        mean = lambda of: sum(of) / len(of)
        work = sum(n * mean(self.spent.get(rule) or times) for rule, n in self.waiting.items())
        work -= sum(now - began for _, began in self.jobs.values())
        return max(1.0, work * (now - self.begun) / sum(times))  # jobs run side by side

    def _say(self, message: str) -> None:
        if self.terminal:
            sys.stderr.write("\r\x1b[K")
        print(shown(message), file=sys.stderr, flush=True)

    def _draw(self) -> None:
        """Draw the bar, and leave the cursor at its beginning, where the next line overwrites it."""
        if not (self.terminal and self.jobs and self.total):
            return
        now, full = time.monotonic(), round(WIDTH * self._share())
        done, open_ = "█░" if self.unicode else "#."
        rest = self.left(now)
        parts = [f"{done * full}{open_ * (WIDTH - full)} {self._share():.0%}", f"{self.done} of {self.total} jobs"]
        parts += [f"{duration(round(rest))} left"] if rest is not None else []
        parts += [", ".join(sorted({rule for rule, _ in self.jobs.values()}))]
        line = "  ".join(parts)[: shutil.get_terminal_size().columns - 1]
        sys.stderr.write(f"\r\x1b[K{line}\r")
        sys.stderr.flush()

    def _keep_drawing(self) -> None:
        while True:
            time.sleep(1)
            with self.drawing:
                self._draw()

    def _pass_on(self, ours: int) -> None:
        with open(ours, encoding="utf-8", errors="replace") as lines:
            for line in lines:
                with self.drawing:
                    self._say(line.rstrip())
                    self._draw()

    def close(self) -> None:
        """Leave the terminal without the bar."""
        with self.drawing:
            self.jobs.clear()
            if self.terminal:
                sys.stderr.write("\r\x1b[K")
        super().close()


def brief(record: LogRecord) -> bool:
    """Cut a long reason of a job, as a filter of Snakemake's own logger."""
    reason = getattr(record, "reason", None)
    if isinstance(reason, str) and len(reason) > LONGEST:
        files = reason.count(", ") + 1
        record.reason = f"{reason[:LONGEST].rpartition(', ')[0]}, ... ({files} in all)"
    return True


def after_nothing(say: Callable[[], str]) -> Callable[[LogRecord], bool]:
    """Return a filter of Snakemake's loggers that adds a text to its message that there is nothing to do."""

    def add(record: LogRecord) -> bool:
        if str(record.msg).startswith(NOTHING) and (more := say()):
            record.msg = f"{str(record.msg).rstrip()}\n{more}"
        return True

    return add


def failure(rule: str, words: dict[str, str], logs: list[str]) -> str:
    """Return what to say of a step that failed: its words, its log's last lines, and what to do."""
    lines = [line for log in logs if (path := Path(log)).is_file() for line in _lines(path)]
    said = next((at for at, line in enumerate(lines) if line.startswith("error: ")), None)
    last = lines[-LAST:] if said is None else lines[said:]
    about = words.get(rule, rule).rstrip(".")
    fix = [] if any("fix: " in line for line in last) else [f"  fix: see {log} for all of it" for log in logs[:1]]
    after = [f"  then {GOES_ON}"]
    return "\n".join([f"failed: {about} ({rule})", *(f"  {line}" for line in last), *fix, *after])


def _lines(log: Path) -> list[str]:
    text = log.read_text(encoding="utf-8", errors="replace")
    return [line for line in text.splitlines() if line.strip() and not line.startswith((MACHINE, MADE))]


def main() -> None:
    """Run Snakemake's command line with this logger."""
    from snakemake.cli import args_to_api, parse_args
    from snakemake.exceptions import print_exception
    from snakemake_interface_logger_plugins.registry import LoggerPluginRegistry

    LoggerPluginRegistry().register_plugin(NAME, sys.modules[__name__])
    signal.signal(signal.SIGINT, _interrupt)
    try:
        parser, args = _quietly(parse_args, ["--logger", NAME, *sys.argv[1:]])
        if args_to_api(args, parser):
            sys.exit(0)
    except KeyboardInterrupt:
        pass
    except Exception as error:
        if not LogHandler.stopping:  # else Snakemake may end in an error of its event loop
            print_exception(error)
    if not LogHandler.stopping:
        sys.exit(1)
    print(f"stopped; {GOES_ON}", file=sys.stderr)
    sys.exit(130)


def _interrupt(signum: int, frame: FrameType | None) -> None:
    """Stop at Ctrl-C, and remember it: a library may catch the exception, or a step may end first."""
    LogHandler.stopping = True
    signal.default_int_handler(signum, frame)


def _quietly(parse: Callable[[list[str]], Any], words: list[str]) -> Any:
    """Parse Snakemake's options without its line on profiles, which is no event of its loggers."""
    said = io.StringIO()
    try:
        with redirect_stderr(said):
            return parse(words)
    finally:
        lines = [line for line in said.getvalue().splitlines(keepends=True) if not line.endswith(PROFILES)]
        sys.stderr.write("".join(lines))


if __name__ == "__main__":
    main()
