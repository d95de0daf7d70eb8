"""Steps as they are declared: their command lines are their rules', and only what a step needs makes it due.

``data/closures.txt`` lists, for every step, the modules with code that it can reach and the data files, by room. Growth
of it is to be seen in a diff; ``make closures`` writes it.
"""

import argparse
import gc
import subprocess
import sys
import textwrap
from collections import defaultdict
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from pathlib import Path

import pytest
from running import ROOT

from ff_memories import declaration
from ff_memories.base.parameters import Execution
from ff_memories.cli import main
from ff_memories.workflow import jobs
from ff_memories.workflow.meaning.reached import modules, reached
from ff_memories.workflow.runs.run import DEFAULT, Run

LIST = ROOT / "tests" / "data" / "closures.txt"
STEPS = declaration.names()
ORDER_ONLY = {  # inputs that a rule waits for or whose change makes it due, and that no option names
    "composition_shard": {"texts"},
    "corpus": {"golden"},
    "sensitivity_part": {"judged", "model", "others", "inputs"},
}
MODEL = "model/decoder.py"
RUN_THE_MODEL = {
    "baseline-causal", "baseline-memories", "baseline-model", "baseline-predictions", "baseline-removals",
    "baseline-triggers", "causal", "composition", "distance", "gallery-tables", "golden", "mutations",
    "projection-seeds", "proxy", "released", "removals", "sensitivity-part", "transformer-model", "trigger-shard",
    "values",
}  # fmt: skip


def sources(step):
    """Return the files with code or data that a step can reach, by their path in the package."""
    found = reached(step.replace("-", "_"), {})
    known = modules()
    files = {known[label.partition(":")[0]] for label in found.code} | set(found.data.values())
    return sorted(path.relative_to(ROOT / "src/ff_memories").as_posix() for path in files)


def listing() -> str:
    """Return the list as text."""
    lines = []
    for step in STEPS:
        rooms = defaultdict(list)
        for file in sources(step):
            *room, name = Path(file).parts
            rooms["/".join(room)].append(name.removesuffix(".py"))
        lines.append(step)
        for room, names in rooms.items():
            said = f"{room or 'ff_memories'}: {' '.join(names)}"
            lines += textwrap.wrap(said, 116, initial_indent="    ", subsequent_indent="        ")
    return "\n".join(lines) + "\n"


@cache
def rules():
    with jobs.workflow(Run.read(DEFAULT)) as found:
        return list(found.rules)


def declared_rules():
    """Yield each rule whose command is a declared step's, with the step."""
    by_command = {declaration.command(name): declaration.step(name) for name in STEPS}
    for rule in rules():
        if rule.shellcmd in by_command:
            yield rule, by_command[rule.shellcmd]


def named(step, *types):
    return {p.name for p in step.parameters if p.passed and p.type in types}


@pytest.mark.slow
def test_what_makes_a_step_due_is_what_the_list_says():
    assert listing() == LIST.read_text(encoding="utf-8"), "make closures"


@pytest.mark.parametrize("step", STEPS)
def test_a_step_that_runs_no_model_does_not_depend_on_how_it_is_run(step):
    assert (MODEL in sources(step)) == (step in RUN_THE_MODEL)


def test_every_rule_runs_a_step_as_it_is_declared(monkeypatch):
    monkeypatch.chdir(ROOT)
    others = {rule.name for rule in rules() if rule.shellcmd} - {rule.name for rule, _ in declared_rules()}
    assert others == {"fetch_text", "fetch_model", "fetch_pipeline", "benchmark", "atlas", "training_steps"}
    run = [step.name for _, step in declared_rules()]
    assert set(run) == set(STEPS) - {"cost", "transformer-model"}  # the latter in a run of transformers alone


def test_what_a_step_reads_and_writes_is_what_its_rule_names(monkeypatch):
    monkeypatch.chdir(ROOT)
    for rule, step in declared_rules():
        read = {name for name, _ in rule.input._allitems() if name}
        written = {name for name, _ in rule.output._allitems() if name}
        assert read - ORDER_ONLY.get(rule.name, set()) == named(step, "Input", "Inputs", "AnyInputs", "Tables"), (
            rule.name
        )
        if step.name == "figure":  # its option is the path without suffix
            assert written == {"pdf", "svg", "png", "spec", "data"}
        elif step.name == "join":  # its option is every output
            assert written
        else:
            assert written == named(step, "Output", "Outputs"), rule.name
        assert named(step, "Settings", "Param", "Params") <= set(dict(rule.params._allitems())), rule.name
        assert named(step, "Wildcard") <= set(rule.wildcard_names), rule.name


@pytest.mark.parametrize(
    ("signature", "said"),
    [
        ("corpus", "step x: corpus: expected Settings, Input, .*, found no type"),
        ("corpus: Folder", "step x: corpus: expected Settings, Input, .*, found Folder"),
        ("corpus: 'Input'", "step x: corpus: expected .*, found 'Input'"),
        ("*files: Input", "step x: `run` must not take"),
        ("top: int = most", "step x: top: its default must be a literal"),
    ],
)
def test_a_signature_that_declares_no_command_line_is_refused(signature, said):
    with pytest.raises(ValueError, match=said):
        declaration.read(f"def run({signature}): ...", "x")


def test_a_module_without_run_and_a_docstring_of_no_parameter_are_refused():
    with pytest.raises(ValueError, match="step x: its module has no function `run`"):
        declaration.read("def go(): ...", "x")
    with pytest.raises(ValueError, match="step x: the docstring of `run` describes corpse, which is not a parameter"):
        declaration.read('def run(corpus: Input):\n    """Read.\n\n    Args:\n        corpse: text\n    """', "x")
    with pytest.raises(ValueError, match="x: a rule cannot pass top: int"):
        _ = declaration.read("def run(top: int): ...", "x").command


SOURCE = '''
"""What it does."""
def run(config: Settings, texts: Inputs, cuts: AnyInputs, part: Input | None, out: Output, execution: Execution,
        top_most: int = 10) -> None:
    """Do it.

    Args:
        texts: text files,
            100 % of them
    """
'''


def test_a_command_names_what_the_rule_passes_and_no_more():
    assert declaration.read(SOURCE, "it").command == (
        "ff-memories step it --config {params.config:q} --texts {input.texts:q} --cuts {input.cuts:q} "
        "--part {input.part:q} --out {output.out:q} --device {resources.device} --threads {threads} "
        "--batch-tokens {resources.batch_tokens} --arithmetic {resources.arithmetic} 2> {log}"
    )


@pytest.mark.slow
def test_snakemake_may_start_two_jobs_at_once():
    """Each of its threads parses a step; garbage collection in between lets another thread go on."""
    usual, interval = gc.get_threshold(), sys.getswitchinterval()
    gc.callbacks.append(collecting := lambda *_: sum(range(50)))
    gc.set_threshold(50)
    sys.setswitchinterval(1e-6)
    try:
        with ThreadPoolExecutor(4) as pool:
            assert len(list(pool.map(declaration.command, STEPS * 30))) == len(STEPS) * 30
    finally:
        sys.setswitchinterval(interval)
        gc.set_threshold(*usual)
        gc.callbacks.remove(collecting)


def test_what_is_typed_becomes_what_run_takes(capsys):
    step, parser = declaration.read(SOURCE, "it"), argparse.ArgumentParser()
    step.add_to(parser)
    assert "text files, 100 % of them" in " ".join(parser.format_help().split())
    needed = ["--config", '{"seed": 3}', "--texts", "a", "b", "--out", "o"]
    given = step.call(lambda **all_: all_, parser.parse_args([*needed, "--cuts", "--threads", "2", "--top-most", "3"]))
    assert given["config"].seed == 3 and given["texts"] == [Path("a"), Path("b")] and given["out"] == Path("o")
    assert given["cuts"] == [] and given["part"] is None and given["top_most"] == 3
    assert given["execution"] == Execution(threads=2)
    for words, said in (
        (needed[:-2], "the following arguments are required: --out"),
        ([*needed, "--texts"], "argument --texts: expected at least one argument"),
        ([*needed, "--top-most", "none"], "argument --top-most: none: expected a whole number"),
        ([*needed, "--device", "tpu"], "argument --device: invalid choice: 'tpu'"),
    ):
        with pytest.raises(SystemExit):
            parser.parse_args(words)
        assert said in capsys.readouterr().err


@pytest.mark.parametrize("words", [[], *([name] for name in STEPS)], ids=lambda words: " ".join(words) or "all")
def test_help_on_a_step_tells_of_every_option(words, capsys):
    with pytest.raises(SystemExit) as end:
        main(["step", *words, "--help"])
    said = capsys.readouterr().out
    assert end.value.code == 0
    assert all(p.option in said for name in words for p in declaration.step(name).parameters if p.type != "Execution")


def test_help_and_a_mistyped_line_load_no_library_that_computes():
    """It is said at once what a step takes, and what of a line is wrong."""
    script = """
import sys
sys.modules |= dict.fromkeys(["torch", "polars", "altair", "fairseq", "snakemake"])  # whoever imports one of them fails
from ff_memories import declaration
from ff_memories.base.parameters import Execution
from ff_memories.cli import main
for words in [["step", "--help"], *(["step", name, more] for name in sys.argv[1:] for more in ("--help", "--wrong"))]:
    try:
        main(words)
    except SystemExit as end:
        assert (end.code == 2) == ("--wrong" in words), words
"""
    done = subprocess.run([sys.executable, "-c", script, *STEPS], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


LOADS = ("torch", "altair", "sklearn", "fairseq", "spacy")
# inputs of steps that compute with torch, or that run any step
HEAVY = {
    "weights",
    "checkpoint",
    "shards",
    "part",
    "files",
    "recipe",
}


@pytest.mark.slow
def test_a_step_that_runs_no_model_and_merges_no_lists_does_without_torch():
    """Each of these starts in a fraction of a second; a run starts some twenty of them."""
    light = [s for s in STEPS if not HEAVY & {parameter.name for parameter in declaration.step(s).parameters}]
    assert len(light) > 15 and {"claims", "figure", "patterns", "report", "gallery"} <= set(light)
    code = f"import sys; from ff_memories.steps import {', '.join(s.replace('-', '_') for s in light)}\n"
    code += f"print(*(set({LOADS!r}) & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["altair"], "figures alone load altair, and nothing else does"


if __name__ == "__main__":
    sys.stdout.write(listing())
