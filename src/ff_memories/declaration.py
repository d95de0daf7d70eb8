"""Declare a step once: the signature of its ``run`` defines its command line and the arguments that its rule passes.

    def run(config: Settings, weights: Input, triggers: Input, values: Output, execution: Execution) -> None:
        \"\"\"...

        Args:
            values: the table to write
        \"\"\"

gives ``ff-memories step values --config ... --weights ... --triggers ... --values ... --device ...`` and, from
``command("values")``, the same line with Snakemake's placeholders. A parameter has the name of the rule's input or
output; its type (``ff_memories.base.parameters``) says what it is. A rule passes every parameter without a default,
wildcards and the shard; any other with a default is for users. Users may omit a parameter of type ``Input | None``. The
signature is parsed, not imported, so a workflow can list its commands without loading torch or altair.
"""

import argparse
import ast
import re
import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cache
from itertools import chain
from pathlib import Path
from typing import Any

from ff_memories.base import machine
from ff_memories.base.errors import UserError, did_you_mean
from ff_memories.base.parameters import WHOLE, Execution, Tables, shard_of, threads, tokens, whole
from ff_memories.base.progress import of_part

PACKAGE = Path(__file__).parent
PARSING = threading.Lock()  # Snakemake starts jobs in threads; two that parse at once fail at times (CPython #106905)


@dataclass(frozen=True)
class Kind:
    """A type of parameter: how the command line parses it, and its placeholder in a rule's ``shell:``."""

    read: Callable[[str], Any] = Path
    nargs: str | None = None
    placeholder: str = ""
    says: str = ""
    choices: tuple[str, ...] | None = None


def _settings(text: str) -> Any:
    from ff_memories.config import Settings  # pydantic takes a while

    return Settings.from_argument(text)


_SAME_BITS = "portable: the same bits on every CPU with AVX2, on one thread | fast: the fastest on this machine"
KINDS = {
    "Settings": Kind(_settings, None, "{params.NAME:q}", "a run's config file, or its sections as JSON"),
    "Input": Kind(Path, None, "{input.NAME:q}", "file to read"),
    "Inputs": Kind(Path, "+", "{input.NAME:q}", "files to read"),
    "AnyInputs": Kind(Path, "*", "{input.NAME:q}", "zero or more files to read"),
    "Tables": Kind(Path, "*", "{input.NAME:q}", "tables to read"),
    "Output": Kind(Path, None, "{output.NAME:q}", "file to write"),
    "Outputs": Kind(Path, "+", "{output.NAME:q}", "files to write"),
    "EveryOutput": Kind(Path, "+", "{output:q}", "files to write"),
    "Wildcard": Kind(str, None, "{wildcards.NAME}"),
    "Shard": Kind(shard_of, None, "{resources.shard}", "the shard, such as 1-of-4"),
    "Param": Kind(str, None, "{params.NAME:q}"),
    "Params": Kind(str, "*", "{params.NAME:q}"),
    "Threads": Kind(threads, None, "{threads}", "CPU threads"),
    "Device": Kind(str, None, "{resources.NAME}", "auto: a GPU if there is one", ("auto", "cpu", "cuda")),
    "BatchTokens": Kind(tokens, None, "{resources.NAME}", "tokens in one forward pass; auto: as fits the device"),
    "Arithmetic": Kind(str, None, "{resources.NAME}", _SAME_BITS, ("portable", "fast")),
    "int": Kind(whole()),
}


@dataclass(frozen=True)
class Parameter:
    """One parameter of a step."""

    name: str
    type: str
    says: str
    passed: bool  # by its rule
    required: bool  # users must give it; otherwise ``default`` applies
    default: Any = None

    @property
    def option(self) -> str:
        return "--" + self.name.replace("_", "-")


EXECUTION = tuple(  # the options that set how the model is run, the fields of ``Execution``
    Parameter(name, kind, "", True, False, getattr(Execution, name))
    for name, kind in zip(Execution.__annotations__, ("Device", "Threads", "BatchTokens", "Arithmetic"), strict=True)
)


@dataclass(frozen=True)
class Step:
    """A step's name, its module's docstring, and its parameters."""

    name: str
    says: str
    parameters: tuple[Parameter, ...]

    def call(self, run: Callable[..., Any], args: argparse.Namespace) -> Any:
        """Call the step's ``run`` with the parsed arguments."""
        given = {p.name: getattr(args, p.name) for p in self.parameters if p not in EXECUTION}
        given |= {"execution": execution(args)} if EXECUTION[0] in self.parameters else {}
        named = [p.name for p in self.parameters if p.type == "Tables"]
        given |= {name: Tables((file.stem, file) for file in given[name]) for name in named}
        parts = [given[p.name].strip("/") for p in self.parameters if p.type == "Wildcard"]
        shards = [given[p.name] for p in self.parameters if p.type == "Shard"]
        parts += ["{}-of-{}".format(*shard) for shard in shards if shard != WHOLE]
        with of_part([part for part in parts if part]):
            return run(**given)


def add_options(parser: argparse.ArgumentParser, parameters: Iterable[Parameter] = EXECUTION) -> None:
    """Add the options of parameters to a parser; by default, those that set how the model is run."""
    for parameter in parameters:
        kind = KINDS[parameter.type]
        options: dict[str, Any] = {"nargs": kind.nargs} if kind.nargs else {}
        options |= {"required": True} if parameter.required else {"default": parameter.default}
        says = (parameter.says or kind.says).replace("%", "%%")
        parser.add_argument(parameter.option, type=kind.read, choices=kind.choices, help=says, **options)


def execution(args: argparse.Namespace) -> Execution:
    """Return the values of the options that set how the model is run."""
    rows = machine.batch_tokens(args.batch_tokens, args.device)
    return Execution(args.device, args.threads, rows, args.arithmetic)


@cache
def _modules() -> dict[str, Path]:
    """Return {step: its file}: the modules of ``steps`` and of the paper's sections that have a ``run``."""
    files = (*PACKAGE.glob("steps/*.py"), *PACKAGE.glob("paper/*/*.py"))
    return {file.stem: file for file in files if "\ndef run(" in file.read_text(encoding="utf-8")}


def module(name: str) -> Path:
    """Return the file of a step's module. Raises ``UserError`` for a step that does not exist."""
    if (path := _modules().get(name.replace("-", "_"))) is None:
        raise UserError(f"{name}: no such step{did_you_mean(name, names())}")
    return path


def names() -> list[str]:
    """Return the names of all steps as typed: ``trigger-shard`` for the module ``trigger_shard.py``."""
    return sorted(name.replace("_", "-") for name in _modules())


def step(name: str) -> Step:
    """Return a step as its module declares it."""
    with PARSING:
        tree = ast.parse(module(name).read_text(encoding="utf-8"))
    run = next(node for node in tree.body if isinstance(node, ast.FunctionDef) and node.name == "run")
    says = _arguments(ast.get_docstring(run) or "")
    defaults = [None] * (len(run.args.args) - len(run.args.defaults)) + list(run.args.defaults)
    listed = zip(run.args.args, defaults, strict=True)
    parameters = (_parameters(node, default, says.get(node.arg, "")) for node, default in listed)
    return Step(name.replace("_", "-"), ast.get_docstring(tree) or "", tuple(chain.from_iterable(parameters)))


@cache
def sections(name: str) -> frozenset[str]:
    """Return the config's sections that a step's module reads as ``config.SECTION``."""
    tree = ast.parse(module(name).read_text(encoding="utf-8"))
    behind = {"precision": "extraction", "looked_at": "triggers"}
    read = (node for node in ast.walk(tree) if isinstance(node, ast.Attribute))
    named = (node.attr for node in read if isinstance(node.value, ast.Name) and node.value.id == "config")
    return frozenset(behind.get(name, name) for name in named)


def command(name: str) -> str:
    """Return a step's command line with Snakemake's placeholders, for a rule's ``shell:``."""
    declared = step(name)
    words = [f"ff-memories step {declared.name}"]
    for parameter in declared.parameters:
        if parameter.passed:
            placeholder = KINDS[parameter.type].placeholder.replace("NAME", parameter.name)
            between = "=" if parameter.type == "Wildcard" else " "  # a wildcard may be empty
            words.append(f"{parameter.option}{between}{placeholder}")
    return " ".join([*words, "2> {log}"])


def _parameters(node: ast.arg, default: ast.expr | None, says: str) -> tuple[Parameter, ...]:
    annotation = ast.unparse(node.annotation) if node.annotation else ""
    kind = annotation.removesuffix(" | None")
    if kind == "Execution":
        return EXECUTION
    if default is None:
        none: list[Any] | None = [] if KINDS[kind].nargs == "*" else None
        return (Parameter(node.arg, kind, says, True, kind == annotation and none is None, none),)
    return (Parameter(node.arg, kind, says, kind in ("Shard", "Wildcard"), False, ast.literal_eval(default)),)


def _arguments(text: str) -> dict[str, str]:
    """Return {parameter: its description} from a docstring's ``Args:`` section."""
    part = re.search(r"^Args:\n((?:[ ]+.*\n?)+)", text, re.MULTILINE)
    entries = re.findall(r"^ {4}(\w+): (.*(?:\n {6,}.*)*)", part.group(1), re.MULTILINE) if part else []
    return {name: " ".join(description.split()) for name, description in entries}
