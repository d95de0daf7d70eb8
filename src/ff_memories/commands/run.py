"""Run everything on your own model and text: in an empty folder, or go on with a config.

    ff-memories run --model HuggingFaceTB/SmolLM2-135M --text my.txt
    ff-memories run --model HuggingFaceTB/SmolLM2-135M --text my.txt --time 20m
    ff-memories run my.yaml
    ff-memories run demo

The first form writes a config, as `init` does, and runs it; run again, it goes on where it stopped. With `--time`, it
measures this machine and lowers the sizes of samples until the run ends in that time. The last form runs what the
package brings a config of: demo (which needs the extra `demo`), stories15m, stories15m-stories, smollm2 or qwen.
Results are in results/RUN/ of the working folder. Options after `--` go to Snakemake, such as `-- --until triggers`,
which ends after a step.
"""

import argparse
import os
import re
import shlex
import shutil
import sys
from pathlib import Path
from typing import NoReturn

from ff_memories.base.errors import UserError, did_you_mean
from ff_memories.base.files import atomic_write, home, require_file, write_whole
from ff_memories.base.parameters import whole
from ff_memories.commands import init
from ff_memories.config import PROTOCOL, read_yaml
from ff_memories.inputs import one_text, registry
from ff_memories.report.outcome import OPEN
from ff_memories.workflow import terminal_logger
from ff_memories.workflow.run import Run, packaged, snakefile

MADE_BY = "# made by: ff-memories run"
PASSED_ON = ("config", "name", "cores", "gpus", "dry_run", "open", "verbose", "more")  # not of the config


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("config", nargs="?", type=Path, help="a config file, or `demo`, instead of --model and a text")
    init.choices(parser)
    parser.add_argument("--name", help="the run's and its config's name; default: from the model's")
    parser.add_argument("--cores", default="all", help="processor cores, a number; default: all")
    parser.add_argument("--gpus", type=whole(0), default=1, help="GPUs of this machine, at most; default: 1")
    parser.add_argument("--dry-run", action="store_true", help="write the config, and list what would run")
    parser.add_argument("--open", action="store_true", help="show the report in a browser at the end")
    parser.add_argument("--verbose", action="store_true", help="show Snakemake's own output instead of steps and a bar")


def run(args: argparse.Namespace) -> NoReturn:
    """Check the run, then become Snakemake: its signals, its exit status and its progress are the command's own."""
    if not re.fullmatch(r"all|[1-9]\d*", args.cores):
        raise UserError(f"--cores {args.cores}: expected a number of cores, or all")
    file = _new(args) if args.config is None else _given(args)
    Run.read(file)  # refused here in one line, before Snakemake starts
    options = ["--configfile", str(file), "--resources", f"gpu={args.gpus}"]
    options += ["--dry-run"] if args.dry_run else []
    options += ["--cores", args.cores]  # last: files to make may follow, and the options before take several words
    program = "snakemake" if args.verbose or args.dry_run else terminal_logger.__name__
    command = [sys.executable, "-m", program, "--snakefile", str(snakefile()), *options, *args.more]
    if args.open:
        os.environ[OPEN] = "1"
    sys.stdout.flush()
    os.execv(sys.executable, command)


def _given(args: argparse.Namespace) -> Path:
    """Return the config that is named, after refusing options for a new one."""
    also = [f"--{name}" for name, given in vars(args).items() if given and (name == "name" or name not in PASSED_ON)]
    if also:
        raise UserError(f"{args.config} and {also[0]}: a config says what to run", f"leave out {also[0]}, or edit it")
    if not args.config.exists() and (config := packaged().get(str(args.config))) is not None:
        return _packaged(config)
    require_file(args.config)
    if not args.config.is_file():
        like = did_you_mean(str(args.config), [*packaged()])
        raise UserError(f"{args.config}: no such config{like}", "name a config file, or a model and a text")
    return Path(args.config)


def _packaged(source_config: Path) -> Path:
    """Put a config of the package, and the files that it names, where a clone has them; return the config's path."""
    config = Path("config", source_config.name)
    if (protocol := read_yaml(source_config).get(PROTOCOL)) is not None:
        _bring(Path(protocol))
    run_ = Run.read(source_config)
    named = dict(run_.inputs.named)
    files = [*named.values(), *(run_.inputs.model_files if "model.folder" in named else [])]
    for path in [*map(Path, dict.fromkeys(files)), config]:
        _bring(path)
    return config


def _bring(path: Path) -> None:
    """Copy a file of the package to where a clone has it, unless one is there."""
    if not path.exists() and (source := home() / path).is_file():
        with atomic_write(path) as partial:
            shutil.copyfile(source, partial)
        print(f"wrote {path}")
    elif not path.exists():
        raise UserError(f"{path}: this package was built without it", "run it in a clone: make demo")


def _new(args: argparse.Namespace) -> Path:
    """Write the config that the options describe, unless they have written it before; return its path."""
    if args.model is None and args.checkpoint is None:
        raise UserError("nothing to run", "name a config file, or a model and a text: ff-memories run --help")
    if args.name and not re.fullmatch(r"[A-Za-z0-9][\w.-]{0,63}", args.name, re.ASCII):
        raise UserError(f"--name {args.name}: expected letters, digits and . _ -, and no folder")
    args.config = Path(f"{args.name or _name(args.model or args.checkpoint)}.yaml")
    require_file(args.config)
    made_by = f"{MADE_BY} {_words(args)}\n"
    if args.config.exists():
        if not args.config.read_text(encoding="utf-8").startswith(made_by):
            hint = f"run it with ff-memories run {args.config}, or choose another name with --name"
            raise UserError(f"{args.config}: the file already exists, and was made by other options", hint)
        if args.text is not None and args.text not in registry.sources():
            one_text.split(Path(args.text))  # the same parts, or an error
        print(f"going on with {args.config}")
        return args.config
    if (results := Path("results", args.config.stem)).is_dir():
        hint = f"choose another name with --name, or remove {results}"
        raise UserError(f"{results}: holds another run of this name, whose config is not here", hint)
    text = init.configured(args)
    elsewhere = {word.partition("=")[0] for word in args.more} & {"--executor", "-e", "--profile", "--workflow-profile"}
    if args.model is not None and not elsewhere and not args.dry_run:
        from ff_memories.plan.planner import refuse_too_large  # torch takes seconds to load

        refuse_too_large(init.run_of(text, args.config))
    write_whole(args.config, made_by + text)
    print(f"wrote {args.config}; results go to results/{args.config.stem}/")
    return args.config


def _name(model: str) -> str:
    """Return a run's name for a model: ``smollm2-135m`` for ``HuggingFaceTB/SmolLM2-135M``."""
    last = re.split(r"[/:]", model.rstrip("/"))[-1]
    return re.sub(r"[^a-z0-9]+", "-", last.removesuffix(".gguf").removesuffix(".pt").lower()).strip("-") or "run"


def _words(args: argparse.Namespace) -> str:
    """Return the options that make a config, in one order."""
    words: list[str] = []
    for name, value in sorted(vars(args).items()):
        if name not in PASSED_ON and value not in (None, [], False):
            words += [f"--{name}", *map(str, value if isinstance(value, list) else [value])]
    return shlex.join(words)
