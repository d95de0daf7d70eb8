"""The documentation: generated pages follow from the package, links lead somewhere, and the index names all pages."""

import argparse
import contextlib
import csv
import re
import shlex
import xml.etree.ElementTree as ET

import atlas_pictures
import bfloat16
import campaigns
import commands
import deviations
import families
import findings
import findings_pictures
import later
import polars as pl
import pytest
import readme
import reviewing
from atlases import finished
from dvc.cli import DvcParserError
from dvc.cli.parser import get_main_parser
from pages import END, replaced
from running import ROOT

import config
from ff_memories import cli, tables
from ff_memories.audit.recompute.near_equal import tolerances
from ff_memories.base.arithmetic import ROUNDOFF
from ff_memories.base.errors import UserError
from ff_memories.judge import wording
from ff_memories.judge.register import register
from ff_memories.workflow import dvc_lock_file

TOP = ("README.md", ".github/CONTRIBUTING.md", ".github/SECURITY.md")
PAGES = [*(ROOT / name for name in TOP), *sorted((ROOT / "docs").glob("*.md")), ROOT / "config" / "README.md"]


TOOLS = ("ff-memories", "snakemake", "dvc")
OPTION = re.compile(r"--?[A-Za-z][\w-]*")
REFUSED = (argparse.ArgumentError, DvcParserError, UserError)


def lines(text):
    """What a page tells to type: the lines of its blocks, continuations joined, each command by itself."""
    text = re.sub(r"^```(python)?\n.*?^```", "", text, flags=re.MULTILINE | re.DOTALL)
    typed = re.sub(r"\\\n\s*", "", "\n".join(re.findall(r"^ {4}(.*)$", text, re.MULTILINE)))
    for line in typed.splitlines():
        for part in re.split(r"&&|;| # ", line.removeprefix("# ")):
            if part.split()[:1] and part.split()[0] in TOOLS and "..." not in part:
                yield shlex.split(part, comments=True)


def parser_of(words):
    """The arguments of one command, and how many words name it."""
    named = cli.resolve(words)
    parser = argparse.ArgumentParser(prog=" ".join(named), exit_on_error=False, allow_abbrev=False)
    cli.arguments(named, parser)
    return parser, 2 if list(named) == words[:2] else 1


def parsed(words):
    """Parse a line as its tool does; raises ``SystemExit`` or ``ArgumentError`` where the tool would refuse it."""
    tool, *rest = words
    if tool == "ff-memories":
        parser, named = parser_of(rest)
        return parser.parse_args(rest[named:])
    if tool == "snakemake":
        from snakemake.cli import get_argument_parser  # takes a second to load

        asked = get_argument_parser().parse_args(rest)
        rules = re.findall(
            r"^ *rule (\w+):", "".join(p.read_text() for p in (ROOT / "workflow/rules").glob("*.smk")), re.M
        )
        files = {target for target in asked.targets if target.startswith("results/demo/tables/")}
        assert set(asked.targets) - files <= {*rules}, asked.targets
        return asked
    return get_main_parser().parse_args(rest)


@pytest.mark.slow
@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_line_to_type_is_one_that_its_tool_takes(page):
    text = page.read_text(encoding="utf-8")
    for words in lines(text):
        with contextlib.redirect_stderr(None):
            try:
                parsed(words)
            except (SystemExit, *REFUSED) as error:
                pytest.fail(f"{page.name}: {' '.join(words)}: {error!r}")
    # what a page names in its sentences: a tool with a step, and perhaps options, between backquotes
    for tool, first, *rest in map(str.split, re.findall(r"`((?:ff-memories|snakemake|dvc) [^`\n]+)`", text)):
        if tool == "ff-memories":
            parser, _ = parser_of([first, *rest])
            unknown = {word for word in rest if OPTION.fullmatch(word)} - set(parser._option_string_actions)
            assert not unknown, f"{page.name}: {first} {unknown}"
        elif not first.startswith("http"):
            parsed([tool, first, *rest])


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_what_make_and_python_are_told_to_run_is_there(page):
    text = page.read_text(encoding="utf-8")
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.M))
    assert set(re.findall(r"(?:^ {4}|`|&& )make ([\w-]+)", text, re.M)) <= targets
    for script in re.findall(r"\b(?:python|pytest)[^`\n]*? ((?:tests|docs/tools)/[\w/]+\.py)", text):
        assert (ROOT / script).is_file(), script
    for script, typed in re.findall(r"\bpython (docs/tools/\w+\.py|-m tools\.benchmarks)([^`\n]*)", text):
        benchmark = script.startswith("-m")
        files = ("tools/benchmarks/__main__.py",) if benchmark else (script, "docs/tools/pages.py")
        said = "".join((ROOT / file).read_text(encoding="utf-8") for file in files)
        assert all(f'"{option}"' in said for option in re.findall(r" (--[\w-]+)", typed)), f"{script}{typed}"
    for marker in re.findall(r"pytest -m (\w+)", text):
        assert f'"{marker}:' in (ROOT / "pyproject.toml").read_text(), marker


@pytest.mark.parametrize(
    "wrong",
    ["ff-memories veryfy", "ff-memories verify --certificat x", "snakemake --no-such", "snakemake nothing", "dvc pul"],
)
def test_a_line_that_no_tool_takes_is_found(wrong, capsys):
    with pytest.raises((SystemExit, *REFUSED, AssertionError)):
        parsed(wrong.split())


def test_no_page_shows_python_that_no_test_runs():
    shown = {page.name for page in PAGES if "```python" in page.read_text(encoding="utf-8")}
    assert shown == {"api.md", "exports.md"}


def test_every_page_is_named_in_the_index_or_the_readme():
    said = "".join((ROOT / page).read_text(encoding="utf-8") for page in ("docs/index.md", "README.md"))
    assert not [page.name for page in PAGES[1:-1] if page.name != "index.md" and page.name not in said]


@pytest.mark.parametrize(
    "tool",
    [atlas_pictures, bfloat16, campaigns, commands, config, deviations, families, findings, later, readme, reviewing],
    ids=lambda tool: tool.__name__,
)
def test_a_generated_page_is_up_to_date(tool):
    tool.main(["--check"])


def a_run(project, name, judged):
    """A finished run with given rows of claims."""
    folder, schema = finished(project, name), tables.TABLES["claims"]
    rows = [
        dict.fromkeys(schema.columns) | {"claim": claim.id, "statement": claim.statement, "source": claim.source,
         "paper_value": claim.paper, "scope": "model", "verdict": "not_attempted"} | judged.get(claim.id, {})
        for claim in register()
    ]  # fmt: skip
    made = {"claims": tables.conform(pl.DataFrame(rows, schema=schema.columns), schema)}
    made |= {empty: pl.DataFrame(schema=tables.TABLES[empty].columns) for empty in ("counts", "triggers")}
    for table, frame in made.items():
        tables.write(frame, folder / f"tables/{table}.parquet")
    return folder


def test_the_findings_are_those_of_the_runs_and_the_readme_has_three_of_their_rows(tmp_path):
    shown = {"measured": 0.98, "low": 0.95, "high": 1.0, "verdict": "holds", "shows": "yes", "group": "signal",
             "n": 1000, "judged": 0.98, "limit": 0.915, "limit_source": "paper", "also_random": 0, "random_models": 5,
             "expected": 0.375, "baseline": 0.4, "baseline_low": 0.3, "baseline_high": 0.5}  # fmt: skip
    runs = [a_run(tmp_path, name, judged) for name, judged in (("one", {"K16": shown}), ("two", {}))]
    page, readme_ = tmp_path / "docs" / "findings.md", tmp_path / "README.md"
    (tmp_path / "docs" / "data").mkdir(parents=True)
    readme_.write_text(f"before\n{findings.BEGIN}\n{END}\nafter\n", encoding="utf-8")
    given = ["--out", str(page)]
    with pytest.raises(SystemExit, match="cannot be written"):
        findings.main(given)
    findings.main([*given, "--results", *map(str, runs)])
    said = page.read_text(encoding="utf-8")
    row = "| 97 of 100 in layers 11 to 16 | ✓ 98 % (95 to 100); chance 37.5 % | not attempted | 40 and – % |"
    assert row in said and row in readme_.read_text(encoding="utf-8")
    assert "98 % of the 100 most confident values are in the upper layers; chance: 38 %" in " ".join(said.split())
    kept = list(csv.DictReader((tmp_path / findings.LEDGER).read_text(encoding="utf-8").splitlines()))
    assert len(kept) == 2 * len(register())
    assert {"claim": "K16", "model": "one", "baseline": "0.4", "group": wording.word("signal")}.items() <= next(
        row for row in kept if row["claim"] == "K16"
    ).items()
    for drawn in (findings_pictures.CLAIMS, findings_pictures.LAYERS):
        assert ET.parse(tmp_path / drawn).getroot().tag.endswith("svg")
    findings.main([*given, "--check"])


def test_what_later_work_measured_is_counted_as_by_hand(tmp_path):
    """Of five layers, the last one that predicts another token than the model is 0 (none), 2, 3 and 4."""

    def write(name, rows):
        tables.write(tables.conform(pl.DataFrame(rows), tables.TABLES[name]), tmp_path / f"{name}.parquet")

    row = {"residual_top": 1, "ffn_top": 1, "model_top": 7, "residual_probability": 0.5, "kind": "residual"}
    wrong = {(1, 2), (2, 3), (2, 1), (3, 4)}
    pairs = [(example, layer) for example in range(4) for layer in range(1, 6)]
    tops = [row | {"example": e, "layer": i, "output_top": 3 if (e, i) in wrong else 7} for e, i in pairs]
    write("refinement", tops)
    fires = lambda layer, key: {"layer": layer, "key": key, "fired": 9 * (key >= layer), "prefixes": 10}
    write("firing", [fires(layer, key) for layer in (1, 2) for key in range(4)])
    info = {"layers": 5, "keys": 4, "scope": "surrogate"}
    assert later.saved(tmp_path, info) == pytest.approx((4 + 2 + 1 + 0) / 20)
    assert later.dead(tmp_path, info) == 0.5


def test_the_findings_are_read_in_three_minutes_and_their_pictures_show_every_question():
    page = (ROOT / "docs/findings.md").read_text(encoding="utf-8")
    assert sum(word != "|" for word in page.partition("## Ledger")[0].split()) <= 1800
    assert not re.search(r"\b[KB]\d", page.partition("## Ledger")[0])
    assert len((ROOT / "docs/statistics.md").read_text(encoding="utf-8").split()) <= 1500
    drawn = (ROOT / findings_pictures.CLAIMS).read_text(encoding="utf-8")
    assert [claim.words for claim in register() if f">{claim.words}<" not in drawn] == []


def test_a_part_of_a_page_is_replaced_and_a_page_without_its_marker_refused():
    assert replaced(f"a\n<!-- x -->\nold\n{END}\nb", "<!-- x -->", "new") == f"a\n<!-- x -->\nnew\n{END}\nb"
    with pytest.raises(ValueError, match="it has no"):
        replaced("a", "<!-- x -->", "new")


def test_the_output_of_verify_is_that_of_the_record():
    page = (ROOT / "docs/verify.md").read_text(encoding="utf-8")
    stages = dvc_lock_file.stages_of(ROOT / "dvc.lock")
    files = sum(len(stage["outs"]) for stage in stages.values())
    assert f"dvc.lock: {len(stages)} stages, all made" in page
    assert f"{files} of {files} files have the recorded content" in page


LIMITS = {"coefficient": "coefficients, relative", "tie": "coefficients that may swap, relative",
          "noise": "coefficients, as a share of their layer's largest",
          "probability": "probabilities, relative; log-probabilities, absolute"}  # fmt: skip


@pytest.mark.parametrize("name", LIMITS)
def test_the_limits_of_every_precision_are_those_of_the_code(name):
    exact, half, quarter = (getattr(tolerances(p), name) for p in ("float32", "tf32", "bfloat16"))
    units = half / ROUNDOFF["tf32"]
    assert quarter == units * ROUNDOFF["bfloat16"]
    shown = f"{exact:.0e}".replace("e-0", "e-")
    wanted = f"| {LIMITS[name]} | {shown} | {units:.0f} u | {half:.2g} | {quarter:.2g} |"
    assert wanted in (ROOT / "docs" / "verify.md").read_text(encoding="utf-8")
