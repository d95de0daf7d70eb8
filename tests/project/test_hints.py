"""What an error advises works as it is written: each command in the package's texts exists, with its options."""

import argparse
import ast
import re
import tomllib

import pytest
from running import ROOT

from ff_memories import cli

ENDS = r"[^`,;:()\n]*?(?=[`,;:()\n]|\.$| or | and | then | to | with | shows | lists | writes | wrote | again|$)"
COMMAND = re.compile(rf"\b(?:(ff-memories) |(snakemake) -|(dvc) (?!\.)|(make) (?=[a-z-]+(?:$|[ ,;])))({ENDS})")
OF_DVC = {"checkout", "fetch", "gc", "init", "pull", "push", "repro", "status", "commit"}  # and of `dvc --help`
NO_TARGETS = {"the", "a", "it", "sure", "both", "room", "them", "whole", "of", "no"}  # the verb


def texts(tree):
    """Yield the texts of a module that are no docstrings, their fields as `` X ``."""
    documented = (ast.Module, ast.ClassDef, ast.FunctionDef)
    passed = {id(node.body[0].value) for node in ast.walk(tree)
              if isinstance(node, documented) and node.body and isinstance(node.body[0], ast.Expr)}  # fmt: skip
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr):
            passed |= {id(value) for value in node.values}
            yield "".join(str(value.value) if isinstance(value, ast.Constant) else " X " for value in node.values)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in passed:
            yield node.value


def advised():
    """Return the commands that the package's texts name, as (program, words)."""
    found = set()
    for path in sorted((ROOT / "src").rglob("*.py")):
        for text in texts(ast.parse(path.read_text(encoding="utf-8"))):
            for *programs, words in COMMAND.findall(text):
                program = "".join(programs)
                found.add((program, ("-" if program == "snakemake" else "") + words.strip()))
    return sorted(found)


@pytest.mark.parametrize("program, words", advised())
def test_a_command_that_is_advised_exists(program, words):
    first, *others = words.split() or [""]
    if program == "make":
        targets = re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.M)
        assert first in {*targets, *NO_TARGETS}
    elif program == "dvc":
        assert first in {*OF_DVC, "X"}
    elif program == "snakemake":
        assert first in ("-n", "--dry-run", "--configfile", "--unlock", "--cores")
    elif first not in ("COMMAND", "X", "--help", ""):
        command = cli.resolve([first, *(word for word in others[:1] if word.islower())])
        parser = argparse.ArgumentParser()
        if cli.modules()[command].stem != "__init__":
            cli.arguments(command, parser)
        options = {word.partition("=")[0] for word in others if word.startswith("--") and word != "--"}
        assert options <= {*re.findall(r"--[\w-]+", parser.format_usage()), "--help"}


def test_an_extra_that_is_advised_exists():
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["optional-dependencies"]
    asked = [name for folder in ("src", "data") for path in (ROOT / folder).rglob("*.py")
             for name in re.findall(r'with_extra\(["\'](\w+)', path.read_text(encoding="utf-8"))]  # fmt: skip
    assert len(asked) > 2 and set(asked) <= extras.keys()
