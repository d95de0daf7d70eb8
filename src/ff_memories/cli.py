"""``ff-memories COMMAND ...``: the users' commands (``ff_memories.commands``) and, under ``step``, the workflow's."""

import argparse
import ast
import errno
import importlib
import io
import json
import os
import re
import shlex
import signal
import sys
import tempfile
import time
import warnings
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from itertools import chain
from pathlib import Path
from types import ModuleType
from typing import Any, NoReturn

from ff_memories import declaration
from ff_memories.base import arithmetic, files, machine
from ff_memories.base.errors import UserError, did_you_mean
from ff_memories.base.job_costs import spent
from ff_memories.base.machine import IN_LOG, MACHINE, MADE, hardware
from ff_memories.base.text import SafeStream
from ff_memories.commands import GROUPS
from ff_memories.workflow import job_server

PACKAGE = Path(__file__).parent
PROGRAM = "ff-memories"
CACHE = "XDG_CACHE_HOME"  # the variable that Snakemake, huggingface_hub and others find their caches by
OPTIONS = ("--help", "--version")
FREE_IT = "let what else runs on the GPU end first, or use one with more memory, or execution.device: cpu"
RELEASED = ("agreement", "dim", "layer", "sample", "texts", "triggers")  # formats of the released code
WENT = {  # commands of versions before 0.1, and what does their work
    **dict.fromkeys(["annotate answers", "annotate prompts", "annotate score"], "python -m contrib.language_model"),
    "annotate simulate": "python -m contrib.simulated_annotators",
    **{f"export {name}": f"python -m contrib.{name} export" for name in ("delphi", "neuronpedia")},
    "export hf-dataset": "python -m contrib.hf_dataset export",
    "crate": "python -m contrib.ro_crate.crate",
    **{f"export {n}": "python -m contrib.released_code" for n in RELEASED},
    "model-row": "python -m tools.model_row",
    "record-size": "du -sh .dvc/artefacts",
    "show": "open the run's gallery, such as results/demo/gallery/index.html",
    "step projection-seeds": "python -m contrib.released_code seeds",
    "why": "snakemake -n --quiet host, which gives each job's reason",
}
GOES_ON = "run the same command again: finished jobs and shards are kept"


@cache
def modules() -> dict[tuple[str, ...], Path]:
    """Return {words of a command: its module}; of ``step`` alone, its package's."""
    steps: dict[tuple[str, ...], Path] = {("step", name): declaration.module(name) for name in declaration.names()}
    others = {(path.stem.replace("_", "-"),): path for path in PACKAGE.glob("commands/[!_]*.py")}
    return steps | {("step",): PACKAGE / "steps" / "__init__.py"} | others


def resolve(words: list[str]) -> tuple[str, ...]:
    """Return the command of a command line, such as ``("step", "values")``. Raises ``UserError`` if there is none."""
    of_step = words[0] == "step" and len(words) > 1 and not words[1].startswith("-")
    command = tuple(words[:2] if of_step else words[:1])
    if command in modules():
        return command
    for typed in (" ".join(words[:2]), words[0]):
        if typed in WENT:
            raise UserError(f"{typed}: no such command any more", f"in a clone: {WENT[typed]}")
    known = declaration.names() if of_step else [*OPTIONS, *chain.from_iterable(GROUPS.values())]
    hint = f"run {' '.join([PROGRAM, *command[:-1]])} --help for a list of commands"
    raise UserError(f"{' '.join(command)}: no such command{did_you_mean(command[-1], known)}", hint)


def main(argv: list[str] | None = None) -> None:
    """Run one command. On bad input, print a message to stderr and exit with status 2; no partial file remains."""
    argv = sys.argv[1:] if argv is None else argv
    snakemake, begun = os.environ.get(IN_LOG), time.monotonic()
    if chosen_arithmetic := re.findall(r"--arithmetic[= ](\S+)", " ".join(argv)):
        os.environ.update(arithmetic.environment(chosen_arithmetic[-1]))
    elif snakemake:
        os.environ.update(arithmetic.environment("portable"))  # for a step without a model, ``fast`` gains nothing
    os.environ.update(job_server.waiting())  # before torch
    for category in (DeprecationWarning, SyntaxWarning):  # what packages cause as they are first compiled and imported
        warnings.filterwarnings("ignore", category=category)
    if argv[:1] == ["step"]:
        machine.keep_freed_memory()
    if isinstance(sys.stdout, io.TextIOWrapper):  # a terminal may lack signs that are printed, such as U+2423
        sys.stdout.reconfigure(errors="replace")
        if "utf" not in sys.stdout.encoding.lower():  # the processes that are started print there as well
            os.environ["PYTHONIOENCODING"] = f"{sys.stdout.encoding}:replace"
    for name in ("stdout", "stderr"):  # whatever a message quotes
        if not isinstance(stream := getattr(sys, name) or io.StringIO(), SafeStream):  # or it is closed
            setattr(sys, name, SafeStream(stream))
    try:
        if snakemake and len(argv) > 1 and argv[0] == "step" and (status := job_server.ask(argv)) is not None:
            sys.exit(status)
        if not argv or argv[0] in ("-h", "--help"):
            print(overview())
            sys.exit(0 if argv else 2)
        if argv[0] == "--version":
            from importlib.metadata import version  # slow to import, like whatever looks packages up

            print(f"{PROGRAM} {version(PROGRAM)}")
            sys.exit(0)
        words = resolve(argv)
        if words == ("step",):
            print(listing())
            sys.exit(0 if {"-h", "--help"} & set(argv) else 2)
        layout = argparse.RawDescriptionHelpFormatter  # of a description: as its docstring is
        parser = argparse.ArgumentParser(prog=" ".join([PROGRAM, *words]), formatter_class=layout)
        run = arguments(words, parser)
        given, more = argv[len(words) :], list[str]()
        if words == ("run",) and "--" in given:  # Snakemake's options follow
            given, more = given[: given.index("--")], given[given.index("--") + 1 :]
        args = parser.parse_args(given, argparse.Namespace(more=more))
        _cache_where_possible()
        if snakemake:  # a Snakemake job: its log starts with the machine and ends with the files it wrote
            print(f"{MACHINE}{json.dumps(hardware(args))}", file=sys.stderr, flush=True)
        status = run(args)
        if snakemake:
            print(f"{MADE}{json.dumps(files.digests())}", file=sys.stderr)
            print(spent(begun), file=sys.stderr, flush=True)
        sys.stdout.flush()  # here, where a closed pipe is not an error
    except UserError as error:
        _fail(str(error))
    except RuntimeError as error:
        first = str(error).split("\n")[0]
        if "CUDA out of memory" in first:  # where no batch can be halved: as the model is loaded
            _fail(f"the GPU has too little free memory: {first}\n  fix: {FREE_IT}")
        if "CUDA error" not in first:
            raise
        _fail(f"the GPU failed: {first}\n  fix: {GOES_ON}")
    except ImportError as error:
        from ff_memories.workflow.constraints import unmet

        if not (other := unmet()):
            raise
        _fail(f"{error}\n  fix: install with pip what this package needs: {other}")
    except BrokenPipeError:
        _write_no_more()
        sys.exit(0)
    except KeyboardInterrupt:
        print("stopped", file=sys.stderr)
        sys.exit(128 + signal.SIGINT)
    except OSError as error:
        try:
            sys.stdout.flush()
        except OSError:  # stdout is the file that has no space left
            _write_no_more()
        where = "".join(f"{path}: " for path in (error.filename, error.filename2) if path is not None)
        _fail(where + (error.strerror or str(error)) + _way_out(error))
    sys.exit(status or 0)


def _way_out(error: OSError) -> str:
    """Return what to do about an error of the system, on a line of its own; nothing where that is unknown."""
    denied = error.errno == errno.EACCES and error.filename is not None
    if denied and os.path.exists(error.filename):
        return f"\n  fix: get the permission for it, such as by chmod u+rw {shlex.quote(str(error.filename))}"
    if error.errno in (errno.ENOTDIR, errno.EEXIST):
        return "\n  fix: part of this path is a file, where a folder is meant; remove it, or name another path"
    return "\n  fix: run in a folder that you may write to" if denied or error.errno == errno.EROFS else ""


def arguments(words: tuple[str, ...], parser: argparse.ArgumentParser) -> Callable[[argparse.Namespace], int | None]:
    """Add a command's arguments to a parser, and return the function that runs the command."""
    if words[0] == "step":
        step = declaration.step(words[1])
        parser.description = step.says
        declaration.add_options(parser, step.parameters)
        return lambda args: step.call(_load(words).run, args)  # imported only after parsing succeeded
    module = _load(words)
    parser.description = module.__doc__
    module.arguments(parser)
    return module.run


def _cache_where_possible() -> None:
    """Let libraries, and what is started from here, cache in the working folder if they cannot in the home."""
    if not os.path.isdir(os.path.expanduser("~")):  # DVC would stop at a home that is a file, such as /dev/null
        os.environ.setdefault("XDG_CONFIG_HOME", os.path.abspath(".snakemake/config"))
    usual = Path(os.environ.get(CACHE) or os.path.expanduser("~/.cache"))
    with suppress(OSError):
        if usual.is_absolute():  # the home may be unknown
            usual.mkdir(parents=True, exist_ok=True)
            tempfile.TemporaryFile(dir=usual).close()
            return
    os.environ[CACHE] = os.path.abspath(".snakemake/cache")


def overview() -> str:
    """Return the text of ``ff-memories --help``: the commands in groups, in order of use."""
    lines = [f"usage: {PROGRAM} COMMAND ...", "", "Transformer feed-forward layers as key-value memories."]
    for group, members in GROUPS.items():
        lines += ["", f"{group}:", *_listed((name,) for name in members)]
    return "\n".join([*lines, "", f"Run {PROGRAM} COMMAND --help for help on a command."])


def listing() -> str:
    """Return the text of ``ff-memories step --help``: the workflow's steps."""
    steps = _listed(("step", name) for name in declaration.names())
    lines = [f"usage: {PROGRAM} step NAME ...", "", _about(("step",)), "", *steps]
    return "\n".join([*lines, "", f"Run {PROGRAM} step NAME --help for help on one."])


def _listed(commands: Any) -> list[str]:
    return [f"  {words[-1]:<20} {_about(words)}" for words in commands]


def _load(words: tuple[str, ...]) -> ModuleType:
    """Import a command's module and no other, because torch and altair take seconds to load."""
    path = modules()[words].relative_to(PACKAGE.parent).with_suffix("")
    return importlib.import_module(".".join(path.parts))


def _about(words: tuple[str, ...]) -> str:
    source = modules()[words].read_text(encoding="utf-8")
    return (ast.get_docstring(ast.parse(source)) or "").partition("\n")[0]


def _write_no_more() -> None:
    """Redirect stdout to nowhere; otherwise Python would try to flush it at exit, and fail again."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _fail(message: str) -> NoReturn:
    print(f"error: {message}", file=sys.stderr)
    sys.exit(2)


if __name__ == "__main__":
    main()
