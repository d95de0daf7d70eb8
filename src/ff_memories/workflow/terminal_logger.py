"""Show what Snakemake does on a run in plain words: its steps, one bar over all jobs, and errors with their fix.

    python -m ff_memories.workflow.terminal_logger --snakefile Snakefile ...

It is Snakemake's command line with a logger of our own, by its interface for loggers; tqdm draws the bar. Without a
terminal, each step is a line. A step's words are those of its rule.
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
from collections.abc import Callable
from contextlib import redirect_stderr
from logging import WARNING, LogRecord
from pathlib import Path
from types import FrameType
from typing import Any

from snakemake_interface_logger_plugins.base import LogHandlerBase
from snakemake_interface_logger_plugins.common import LogEvent
from tqdm import tqdm

from ff_memories.base.job_costs import SPENT
from ff_memories.base.machine import MACHINE, MADE
from ff_memories.base.progress import TERMINAL, duration
from ff_memories.base.text import shown

NAME = "ff-memories"
NOTHING, STOPPING, ENDING = "Nothing to be done", "Terminating processes", "Will exit after"  # as Snakemake says it
PLACES = re.compile(r'^(\w+( in( rule \w+ in)? file ".*", line \d+)?:|\s*File ".*", line \d+.*|)$')  # where, not what
PROFILES = re.compile(r".* for setting default command line arguments\.\n")  # no event of Snakemake's loggers
OF_STEP, LOCKED = "CalledProcessError", "Directory cannot be locked"
UNLOCK = "wait until the other run has ended; if there is none, run this command once with -- --unlock"
GOES_ON = "the same command goes on where it stopped"
LONGEST = 300  # characters of a job's reason: that of `all` would name every file of a run
LAST = 6  # lines of a failed step's log
PATIENCE = 5.0  # seconds for Snakemake's clearing up after a Ctrl-C
BAR = "{bar:24} {percentage:.0f}%  {n_fmt} of {total_fmt} jobs  {remaining} left{postfix}"


class LogHandler(LogHandlerBase):
    """Snakemake's logger, which calls ``emit`` with every event, in one thread."""

    writes_to_stream = has_filter = has_formatter = True
    writes_to_file = needs_rulegraph = False
    stopping = False

    def __post_init__(self) -> None:
        self.words: dict[str, str] = {}  # {rule: its docstring}
        self.begun, self.jobs_of = time.monotonic(), dict[str, int]()  # {rule: jobs to do}
        self.running: dict[int, str] = {}  # {job: rule}
        self.announced: set[str] = set()  # words of rules; several rules may share them
        self.failed: set[str] = set()  # what was said of steps that failed
        self.done = 0
        self.bar: Any = tqdm(disable=True)  # until the number of jobs is known
        if sys.stderr.isatty():
            ours, theirs = os.openpty()  # jobs write their progress there, and we write it above the bar
            os.environ[TERMINAL] = f"{platform.node()}:{os.ttyname(theirs)}"
            threading.Thread(target=self._pass_on, args=(ours,), daemon=True).start()

    def emit(self, record: LogRecord) -> None:
        """Show an event, or count it."""
        event, data = getattr(record, "event", None), dict[str, Any](record.__dict__)
        if event == LogEvent.RUN_INFO:
            self.jobs_of = {rule: jobs for rule, jobs in data["stats"].items() if rule != "total"}
            self.bar.close()
            size, quiet = shutil.get_terminal_size(), not sys.stderr.isatty()
            shape: dict[str, Any] = {"ncols": size.columns, "nrows": size.lines, "bar_format": BAR}
            self.bar = tqdm(total=sum(self.jobs_of.values()), disable=quiet, file=sys.stderr, leave=False, **shape)
            if not self.bar.total:  # with --until, Snakemake does not say it
                self._say(NOTHING)
        elif event == LogEvent.JOB_INFO:
            self._start(data["jobid"], data["rule_name"])
        elif event == LogEvent.JOB_FINISHED and data["job_id"] in self.running:
            self.running.pop(data["job_id"])
            self.done += 1
            self.bar.update()
            if self.done == self.bar.total:
                self._say(f"[100%] {self.done} jobs done in {duration(time.monotonic() - self.begun)}")
        elif event == LogEvent.JOB_ERROR:
            self.running.pop(data["jobid"], None)
            message = failure(data["rule_name"], self.words, data["log"] or [])
            if message not in self.failed and not self.stopping:
                self._say(message)
            self.failed.add(message)
        elif event == LogEvent.ERROR:
            self._error(str(record.msg), data["exception"])
        elif "words" in data:
            self.words = data["words"]
        elif event is None:
            self._message(record)
        self.bar.set_postfix_str(", ".join(sorted(set(self.running.values()))))

    def _start(self, job: int, rule: str) -> None:
        self.running[job] = rule
        if (words := self.words.get(rule, "")) and words not in self.announced:
            self.announced.add(words)
            alike = sum(n for other, n in self.jobs_of.items() if self.words.get(other) == words)
            share = self.done / self.bar.total if self.bar.total else 0.0
            self._say(f"[{share:4.0%}] {words.rstrip('.')}{f' ({alike} jobs)' if alike > 1 else ''}")

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
        elif message.startswith(ENDING) and not self.stopping:  # by SIGTERM, as of a batch system
            LogHandler.stopping = True
            self._say("the running steps end first")
        elif ours or (record.levelno >= WARNING and not self.failed):
            self._say(message)

    def _say(self, message: str) -> None:
        tqdm.write(shown(message), file=sys.stderr)
        sys.stderr.flush()

    def _pass_on(self, ours: int) -> None:
        with open(ours, encoding="utf-8", errors="replace") as lines:
            for line in lines:
                self._say(line.rstrip())

    def close(self) -> None:
        """Leave the terminal without the bar; after a Ctrl-C, interrupt Snakemake until it ends."""
        self.bar.close()
        if self.stopping:  # steps have ended, locks are released; Snakemake may still wait for a step's event loop
            threading.Thread(target=_interrupt_again, daemon=True).start()
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
    texts = [path.read_text(encoding="utf-8", errors="replace") for path in map(Path, logs) if path.is_file()]
    data = (MACHINE, MADE, SPENT)
    lines = [line for line in "\n".join(texts).splitlines() if line.strip() and not line.startswith(data)]
    error_at = next((at for at, line in enumerate(lines) if line.startswith("error: ")), None)
    last = lines[-LAST:] if error_at is None else lines[error_at:]
    about = words.get(rule, rule).rstrip(".")
    fix = [] if any("fix: " in line for line in last) else [f"  fix: see {log} for all of it" for log in logs[:1]]
    return "\n".join([f"failed: {about} ({rule})", *(f"  {line}" for line in last), *fix, f"  then {GOES_ON}"])


def main() -> None:
    """Run Snakemake's command line with this logger."""
    from snakemake.cli import args_to_api, parse_args
    from snakemake.exceptions import print_exception
    from snakemake_interface_logger_plugins.registry import LoggerPluginRegistry

    LoggerPluginRegistry().register_plugin(NAME, sys.modules[__name__])
    signal.signal(signal.SIGINT, _interrupt)
    if signal.getsignal(signal.SIGHUP) != signal.SIG_IGN:  # it is ignored under nohup
        signal.signal(signal.SIGHUP, _interrupt)
    printed = io.StringIO()
    try:
        try:
            with redirect_stderr(printed):
                parser, args = parse_args(["--logger", NAME, *sys.argv[1:]])
        finally:
            sys.stderr.write(PROFILES.sub("", printed.getvalue()))
        if args_to_api(args, parser):
            sys.exit(0)
    except (Exception, KeyboardInterrupt) as error:
        if not LogHandler.stopping:  # else Snakemake may end in an error of its event loop
            print_exception(error)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    if LogHandler.stopping:
        print(f"stopped; {GOES_ON}", file=sys.stderr)
    sys.exit(130 if LogHandler.stopping else 1)


def _interrupt(signum: int, frame: FrameType | None) -> None:
    """Stop at Ctrl-C or a closed terminal, and remember it: a library may catch the exception, or a step end first."""
    LogHandler.stopping = True
    signal.signal(signal.SIGHUP, signal.SIG_IGN)  # a shell sends it, then the system
    signal.default_int_handler(signum, frame)


def _interrupt_again() -> None:
    while True:
        time.sleep(PATIENCE)
        os.kill(os.getpid(), signal.SIGINT)


if __name__ == "__main__":
    main()
