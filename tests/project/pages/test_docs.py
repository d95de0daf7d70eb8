"""The documentation: generated pages follow from the package, links lead somewhere, and the index names all pages."""

import argparse
import json
import re
import shlex
import xml.etree.ElementTree as ET
from importlib import import_module
from itertools import product

import findings
import findings_pictures
import later
import polars as pl
import pytest
import reviewing
import rounding
import trace_picture
import trainings
from atlases import finished
from dvc.cli import DvcParserError
from dvc.cli.parser import get_main_parser
from pages import END, read_rows
from running import ROOT

from ff_memories import cli, tables
from ff_memories.audit.near_equal import tolerances
from ff_memories.base.arithmetic import ROUNDOFF
from ff_memories.base.errors import UserError
from ff_memories.base.files import write_whole
from ff_memories.judge import wording
from ff_memories.judge.register import register
from ff_memories.workflow import dvc_lock_file

TOP = ("README.md", ".github/CONTRIBUTING.md", ".github/SECURITY.md")
PAGES = [*(ROOT / name for name in TOP), *sorted((ROOT / "docs").glob("*.md")), ROOT / "config" / "README.md"]
TOOLS = ("ff-memories", "snakemake", "dvc")
OPTION = re.compile(r"--?[A-Za-z][\w-]*")
REFUSED = (argparse.ArgumentError, DvcParserError, UserError)
K16: dict = {"measured": 0.5, "low": 0.4, "high": 0.6, "group": "signal", "shows": "yes"}


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
        own = rest[: rest.index("--")] if "--" in rest else rest  # what follows goes to Snakemake
        parser, named = parser_of(own)
        return parser.parse_args(own[named:])
    if tool == "snakemake":
        from snakemake.cli import get_argument_parser  # takes a second to load

        asked = get_argument_parser().parse_args(rest)
        rules = "".join(path.read_text() for path in (ROOT / "workflow/rules").glob("*.smk"))
        assert all(t.startswith("results/demo/tables/") or f"rule {t}:" in rules for t in asked.targets), asked.targets
        return asked
    return get_main_parser().parse_args(rest)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_line_to_type_is_one_that_its_tool_takes(page):
    text = page.read_text(encoding="utf-8")
    for words in lines(text):
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
    scripts = re.findall(r"\b(?:python|pytest)[^`\n]*? ((?:tests|docs/tools)/[\w/]+\.py)", text)
    assert [script for script in scripts if not (ROOT / script).is_file()] == []
    for script, typed in re.findall(r"\bpython (docs/tools/\w+\.py|-m tools\.benchmarks)([^`\n]*)", text):
        files = ["tools/benchmarks/__main__.py"] if script.startswith("-m") else [script, "docs/tools/pages.py"]
        said = "".join((ROOT / file).read_text(encoding="utf-8") for file in files)
        assert all(f'"{option}"' in said for option in re.findall(r" (--[\w-]+)", typed)), f"{script}{typed}"
    for marker in re.findall(r"pytest -m (\w+)", text):
        assert f'"{marker}:' in (ROOT / "pyproject.toml").read_text(), marker


@pytest.mark.parametrize(
    "wrong",
    ["ff-memories veryfy", "ff-memories verify --certif x", "snakemake --no-such all", "snakemake nothing", "dvc pul"],
)
def test_a_line_that_no_tool_takes_is_found(wrong, capsys):
    with pytest.raises((SystemExit, *REFUSED, AssertionError)):
        parsed(wrong.split())


def test_no_page_shows_python_that_no_test_runs():
    assert {page.name for page in PAGES if "```python" in page.read_text("utf-8")} == {"api.md", "exports.md"}


def test_every_page_is_named_in_the_index_or_the_readme():
    said = "".join((ROOT / page).read_text(encoding="utf-8") for page in ("docs/index.md", "README.md"))
    assert not [page.name for page in PAGES[1:-1] if page.name != "index.md" and page.name not in said]


@pytest.mark.parametrize("tool", re.findall(r"for page in (.+?);", (ROOT / "Makefile").read_text())[0].split())
def test_a_generated_page_is_up_to_date(tool):
    import_module(tool).main(["--check"])


def test_a_certificate_is_kept_where_the_run_was_verified():
    of_table = lambda what, n: {"what": what, "recomputed": n, "near_ties": 1}
    audit = {"seed": 3, "tables": {name: of_table(name, 9) for name in ("triggers", "values", "annotations")}}
    machine = [["processor", "Some CPU"], ["instructions", "avx2"], ["cores", "2"]]
    names = dict.fromkeys(("made", "commit", "dvc_lock_sha256"), "2026")
    given = {"run": "demo", "verdict": "verified", "last_line": "VERIFIED", "machine": machine, **names}
    kept = reviewing.of_certificate(given | {"parts": {"audit": audit}})
    assert (kept["verified_on"], kept["rows"], kept["near_ties"]) == ("Some CPU avx2", 18, 2)
    assert reviewing.verified([kept]).endswith("| Some CPU avx2 | 3 | 18 | VERIFIED, 2026 |")
    with pytest.raises(ValueError, match="NOT"):
        reviewing.of_certificate(given | {"verdict": "not verified", "last_line": "NOT VERIFIED", "parts": {}})


def a_run(project, name, judged):
    """A finished run with given rows of claims."""
    folder, schema = finished(project, name), tables.TABLES["claims"]
    every = dict.fromkeys(schema.columns) | {"scope": "model", "verdict": "not_attempted"}
    of = lambda claim: dict(claim=claim.id, statement=claim.statement, source=claim.source, paper_value=claim.paper)
    rows = pl.DataFrame([every | of(claim) | judged.get(claim.id, {}) for claim in register()], schema=schema.columns)
    tables.write(tables.conform(rows, schema), folder / "tables/claims.parquet")
    for empty in ("counts", "triggers"):
        tables.write(pl.DataFrame(schema=tables.TABLES[empty].columns), folder / f"tables/{empty}.parquet")
    return folder


def test_the_findings_are_those_of_the_runs_and_the_readme_has_three_of_their_rows(tmp_path):
    shown = K16 | {"measured": 0.98, "low": 0.95, "high": 1.0, "verdict": "holds", "n": 1000, "judged": 0.98,
        "limit": 0.915, "limit_source": "paper", "also_random": 0, "random_models": 5, "expected": 0.375,
        "baseline": 0.4, "baseline_low": 0.3, "baseline_high": 0.5}  # fmt: skip
    runs = [a_run(tmp_path, name, judged) for name, judged in (("one", {"K16": shown}), ("two", {}))]
    page, readme_ = tmp_path / "docs" / "findings.md", tmp_path / "README.md"
    write_whole(readme_, f"before\n{findings.BEGIN}\n{END}\nafter\n")
    given = ["--out", str(page)]
    with pytest.raises(SystemExit, match="cannot be written"):
        findings.main(given)
    findings.main([*given, "--results", *map(str, runs)])
    said = page.read_text(encoding="utf-8")
    row = "| 97 of 100 in layers 11 to 16 | ✓ 98 % (95 to 100); chance 37.5 % | not attempted | 40 and – % |"
    assert row in said and row in readme_.read_text(encoding="utf-8")
    assert "98 % of the 100 most confident values are in the upper layers; chance: 38 %" in " ".join(said.split())
    kept = read_rows(tmp_path / findings.LEDGER)
    row = "| one | 98 % (95 to 100) | 1,000 | at least 91.5 % | 37.5 % | 40 % (30 to 50) | 0 of 5 |  | "
    assert len(kept) == 2 * len(register()) and row + wording.word("signal") in findings.ledger(kept)
    for drawn in (findings_pictures.CLAIMS, findings_pictures.LAYERS):
        assert ET.parse(tmp_path / drawn).getroot().tag.endswith("svg")
    findings.main([*given, "--check"])
    for run in runs:  # the same weights on another text
        file = run / "model" / "info.json"
        file.write_text(json.dumps(json.loads(file.read_text()) | {"model_sha256": {"config.json": "1a"}}))
    findings.main([*given, "--results", *map(str, runs)])
    said = page.read_text(encoding="utf-8")
    assert "The run two has the model of one on another text" in said and "not attempted | 40 and" not in said


def made(tool, page):
    """What a tool writes into a page that is empty but for its marker, from the results beside the page's folder."""
    write_whole(page, f"{tool.BEGIN}\n{END}\n")
    tool.main(["--out", str(page), "--results", str(page.parents[1] / "results")])
    return " ".join(page.read_text(encoding="utf-8").split())


def test_what_rounding_changes_is_the_numbers_outside_the_interval_and_other_groups(tmp_path):
    kinds: dict = {"whole": {}, "q8_0": {}, "q5_0": {"measured": 0.7}, "q4_1": {"group": "open"}}
    for run, kind in product(("demo-gpt2", "demo-llama"), kinds):
        folder = a_run(tmp_path, f"{run}-{kind}", {"K16": K16 | kinds[kind], "K31": {"measured": 0.1}})
        write_whole(folder / "models/same_sample/perplexity.json", '{"in_windows": {"perplexity": 30.25}}')
    said = made(rounding, tmp_path / "docs" / "performance.md")
    assert "| Q5_0 | 30.2 | 1 of 1 | 0 of 2 |" in said and "| Q4_1 | 30.2 | 0 of 1 | 1 of 2 |" in said
    assert said.count("| ✓ 50 % (40 to 60) | ✓ 50 % | ✓ **70 %** | ? 50 % |") == 2 and said.count("%") == 2 * 4


def test_what_another_training_changes_is_two_deviations_beside_half_an_interval(tmp_path):
    """K16's deviation is 0.158, and half an interval 0.1; K31 differs by much less."""
    for seed in range(1, 6):
        claims = {"K16": K16 | {"measured": 0.2 + seed / 10}, "K31": K16 | {"measured": 0.5 + seed / 1000}}
        write_whole(a_run(tmp_path, f"demo-seed-{seed}", claims) / "config.yaml", f"model: {{sha256: {seed}a}}")
        training = tmp_path / "results" / f"train-seed-{seed}"
        write_whole(training / "curve.csv", "updates,perplexity\n500,220\n1250,103\n")
        write_whole(training / "perplexities.json", f'{{"model": {100 + seed}, "bigram": 120, "unigram": 450}}')
    said = made(trainings, tmp_path / "docs" / "results.md")
    assert "short: 1,250 updates, where" in said and "are 101 to 105; the demo's is 61.4, and their bigram" in said
    assert "For 1 of 2 claims" in said and "about 43 % would, and 5 % more than 1.6 times; 1 do: the table" in said
    assert "0 of 2 claims change group, 0 only to" in said and "Of the demo's 3 ✓, 3 (K13, K17 and K26)" in said
    assert "| 50 % | 30 to 70 | 31.6 | 10 | 3.16 | 5 ✓ |" in said and "last layer" not in said
    assert read_rows(tmp_path / trainings.MODELS)[4]["sha256"] == "5a"


def test_what_later_work_measured_is_counted_as_by_hand(tmp_path):
    """Of five layers, the last one that predicts another token than the model is 0 (none), 2, 3 and 4."""
    row = {"residual_top": 1, "ffn_top": 1, "model_top": 7, "residual_probability": 0.5, "kind": "residual"}
    wrong = {(1, 2), (2, 3), (2, 1), (3, 4)}
    pairs = [(example, layer) for example in range(4) for layer in range(1, 6)]
    tops = [row | {"example": e, "layer": i, "output_top": 3 if (e, i) in wrong else 7} for e, i in pairs]
    fires = lambda layer, key: {"layer": layer, "key": key, "fired": 9 * (key >= layer), "prefixes": 10}
    firing = [fires(layer, key) for layer in (1, 2) for key in range(4)]
    for name, rows in {"refinement": tops, "firing": firing}.items():
        tables.write(tables.conform(pl.DataFrame(rows), tables.TABLES[name]), tmp_path / f"{name}.parquet")
    info = {"layers": 5, "keys": 4, "scope": "surrogate"}
    assert later.saved(tmp_path, info) == pytest.approx((4 + 2 + 1 + 0) / 20)
    assert later.dead(tmp_path, info) == 0.5


def test_the_output_of_verify_is_that_of_the_record():
    page = (ROOT / "docs/verify.md").read_text(encoding="utf-8")
    stages = dvc_lock_file.stages_of(ROOT / "dvc.lock")
    files = sum(len(stage["outs"]) for stage in stages.values())
    assert f"dvc.lock: {len(stages)} stages, all made" in page
    assert f"{files} of {files} files have the recorded content" in page


def test_the_picture_of_a_trace_is_of_the_recorded_model():
    stages = dvc_lock_file.stages_of(ROOT / "dvc.lock")
    recorded = {out["path"]: out["md5"] for stage in stages.values() for out in stage["outs"]}
    kept = json.loads((ROOT / trace_picture.KEPT).read_text(encoding="utf-8"))
    assert kept == {"text": trace_picture.TEXT, "model": recorded[str(trace_picture.MODEL)]}


LIMITS = {"coefficient": "coefficients, relative", "tie": "coefficients that may swap, relative",
          "noise": "coefficients, as a share of their layer's largest",
          "probability": "probabilities, relative; log-probabilities, absolute"}  # fmt: skip


@pytest.mark.parametrize("name", LIMITS)
def test_the_limits_of_every_precision_are_those_of_the_code(name):
    exact, half, quarter = (getattr(tolerances(p), name) for p in ("float32", "tf32", "bfloat16"))
    units = half / ROUNDOFF["tf32"]
    assert quarter == units * ROUNDOFF["bfloat16"]
    wanted = f"| {LIMITS[name]} | {exact:.0e} | {units:.0f} u | {half:.2g} | {quarter:.2g} |"
    assert wanted.replace("e-0", "e-") in (ROOT / "docs" / "verify.md").read_text(encoding="utf-8")
