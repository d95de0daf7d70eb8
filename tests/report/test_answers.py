"""Test that the report's sentences follow the verdicts and numbers in its tables."""

import json
from typing import Any

import polars as pl
import pytest
from reports import CONFIG, claims_table, made_report

from ff_memories import tables
from ff_memories.config import Settings
from ff_memories.judge import sensitivity as sensitivity
from ff_memories.judge import wording
from ff_memories.judge.numbers import measured
from ff_memories.judge.register import register
from ff_memories.judge.wording import control, sentence
from ff_memories.report import outline
from ff_memories.report.answers import answer, clause, first_lines, tally
from ff_memories.report.page import markdown
from ff_memories.tables.results import VERDICTS

N = sum(not claim.beyond for claim in register())
INFO = {"scope": "surrogate", "layers": 16, "keys": 64, "parameters": 1234567}
PAPER = INFO | {"scope": "paper"}
COUNTS = tables.counts(
    "corpus", {"train_tokens": 900, "train_sentences": 80, "validation_tokens": 100, "validation_sentences": 1}
)


def rows(scope="surrogate", measured=0.25, columns=(), **verdicts):
    table = claims_table(scope, measured, **verdicts)
    return outline.rows(table.with_columns(**dict(columns)))


def first(shown, info=INFO, counts=COUNTS):
    return first_lines(shown, counts, Settings.from_argument(json.dumps(CONFIG)), info)


def known(**values):
    """Return columns of a claims table with these values, by column and claim."""
    kinds = tables.TABLES["claims"].columns
    return {
        column: pl.col("claim").replace_strict(by_claim, default=None, return_dtype=kinds[column])
        for column, by_claim in values.items()
    }


def test_what_was_run_is_counted():
    more = [COUNTS, tables.counts("triggers", {"keys": 8192}), tables.counts("composition", {"examples": 4000})]
    said = first(rows(), INFO | {"perplexity": 48.31, "in_windows": 31.2}, pl.concat(more))["run"]
    assert said.startswith("A stand-in model (16 layers, 1,234,567 parameters")
    assert "8,192 keys and values, 50 triggers per key from 900 tokens" in said and "4,000 prefixes from 100" in said
    assert "validation perplexity 31.2 in running text, 48.3 in single sentences)" in said
    quantised = {"types": {"F32": 2, "Q4_K": 9}, "bits": [4]}
    assert "4-bit weights (Q4_K, F32): the model that people run, not" in first(rows(), INFO | quantised)["run"]
    assert first(rows("paper"), PAPER)["run"].startswith("The paper's own model (")


@pytest.mark.parametrize(
    "given, said",
    [
        ({}, "no claim here is judged"),
        ({"K10": "measured", "K11": "not_applicable", "K29": "holds"}, "no claim here is judged"),
        ({"K1": "holds"}, "of 1 judged claim, 1 here and not in random networks"),
        (
            {"K1": "holds", "K2": "too_small", "K3": "undecided", "K12": "fails", "K29": "holds", "B2": "measured"},
            "of 4 judged claims, 1 here and not in random networks, 2 not here or less, 1 cannot tell",
        ),
    ],
)
def test_claims_are_counted_by_group(given, said):
    shown = rows(**given)
    assert tally(shown) == said
    line = wording.line("x", "surrogate", wording.counts({row["claim"]: row for row in shown}))
    assert line == f"x (surrogate): {said.partition(', ')[2] or 'nothing judged'}"
    shown = rows("paper", K1="reproduced", K12="not_reproduced", B1="holds")
    line = wording.line("x", "paper", wording.counts({row["claim"]: row for row in shown}))
    assert line.endswith(": 1 here and not in random networks, 1 not here or less, 1 reproduced, 1 not reproduced")


def test_what_random_networks_show_too_is_named():
    seen = known(group={"K4": "common", "K24": "common", "K1": "signal"}, random_models={"K1": 5})
    said = first(rows(columns=seen, K1="holds", K4="holds", K24="holds"))["common"]
    assert said == "Effect of the last token, lower layers less upper; growth of settled predictions, late less early."
    assert first(rows(columns=known(random_models={"K1": 5})))["common"] == "Nothing that is seen here."
    assert "says nothing about training" in first(rows(K1="holds"))["common"]


@pytest.mark.parametrize("verdict, source, judged, said", [
    ("holds", "paper", 0.25, "within the paper's range"), ("fails", "figure", 0.25, "above the paper's range"),
    ("fails", "ours", 0.1, "below the limit"), ("undecided", "paper", 0.1, "cannot tell"),
    ("measured", None, None, "measured"),
])  # fmt: skip
def test_where_the_judged_number_lies_is_said_by_the_papers_range_or_our_limit(verdict, source, judged, said):
    shown = rows(columns=known(limit_source={"K1": source}, judged={"K1": judged}), K1=verdict)
    assert shown[0]["against"] == said


@pytest.mark.parametrize("claim", register(), ids=lambda claim: claim.id)
@pytest.mark.parametrize("number", [-0.4, 0.0, 0.25])
def test_a_claim_has_one_sentence_with_its_number_and_the_same_wherever_it_is_told(claim, number):
    every = {own.id: "measured" for own in register()}
    shown = rows(measured=number, columns=known(baseline={claim.id: 0.1}, expected={claim.id: 0.2}), **every)
    row = next(row for row in shown if row["claim"] == claim.id)
    told = clause(row)
    assert measured(number, claim.unit).removeprefix("−") in told and not {*"{}|"} & {*told}
    assert claim.id not in told and "chance: " in told and "random networks: " in told
    assert ("paper: " in told) == (not claim.beyond)
    assert any(told[1:] in said for said in answer(row["section"], shown)) == bool(claim.shown)
    assert any(told in line for line in first(shown)["lines"]) == (claim.shown not in ("", "section"))


def test_a_sentence_joins_the_numbers_of_several_runs():
    one, two = (rows(measured=number, K1="holds", K26="holds") for number in (0.996, -0.04321))
    k26 = [one[25], two[25] | {"measured": None, "baseline": 0.7}]
    assert sentence(k26) == "A layer leaves 99.6 and – % of the residual's predictions as they are"
    assert sentence(k26[:1]) == "A layer leaves 99.6 % of the residual's predictions as they are"
    assert "by 100 points less and 4.3 points more than removing" in sentence([one[0], two[0]])
    assert control(k26) == "random networks: – and 70 %; paper: the vast majority"


def test_what_the_run_leaves_open_is_said():
    columns = known(low={"K1": 0.1}, high={"K1": 0.3}, resampled={"K1": "keys"})
    said = first(rows(columns=columns, K1="undecided", K2="holds"))["open"]
    for part in ("another model", "1 claim undecided, since", "from other keys alone", f"{N - 2} claims not measured"):
        assert part in said, part
    assert "another model" not in first(rows("paper", K1="reproduced"), PAPER)["open"]
    every = {claim.id: "reproduced" for claim in register()}
    assert first(rows("paper", **every), PAPER)["open"] == "Nothing was left open."


@pytest.mark.parametrize("verdict", VERDICTS)
@pytest.mark.parametrize("section", [section.number for section in outline.SECTIONS])
def test_every_section_has_an_answer_for_every_verdict(section, verdict):
    scope = "paper" if "reproduced" in verdict else "surrogate"
    every = {claim.id: verdict for claim in register()}
    *_, said = answer(section, rows(scope, columns=known(baseline=dict.fromkeys(every, 0.2)), **every))
    judged = verdict not in ("measured", "not_applicable", "not_attempted")
    assert ("judged claim" in said) == judged and said.endswith(".") and "{" not in said
    assert answer(section, rows(scope)) == ["No claim here is judged."]


def test_a_figure_says_what_it_shows_in_this_run_where_its_specification_does(tmp_path):
    for name, held in (("figure2", {"usermeta": {"headline": "Half <b>of all"}}), ("figure3", {})):
        (tmp_path / f"{name}.vl.json").write_text(json.dumps(held))
    specs = ["--specs", *(f"{tmp_path}/{name}.vl.json" for name in ("figure2", "figure3"))]
    html = made_report(tmp_path, more=specs)[1].read_text()
    assert "Half &lt;b&gt;of all.</span></strong>" in html and "<strong>Figure 3.</strong>" in html


def test_numbers_by_the_proxys_labels_say_so_where_they_stand(tmp_path):
    judged = claims_table(K6="measured", K7="measured")
    table = judged.with_columns(**known(reason={"K6": "surrogate; automatic proxy"}))
    assert "labelled by an automatic proxy" in answer("3.2", outline.rows(table))[0]
    assert [row["claim"] for row in outline.rows(table) if row["notes"]] == ["K6"]
    assert wording.PROXY in markdown("x", "surrogate", [], outline.rows(table))
    assert wording.PROXY not in made_report(tmp_path, judged=judged)[1].read_text()


def test_nothing_in_the_claims_table_becomes_part_of_the_page(tmp_path):
    hostile = pl.lit("<script>K1</script>")
    judged = claims_table(K1="holds").with_columns(statement=hostile, paper_value=hostile, resampled=hostile)
    html = made_report(tmp_path, judged=judged.with_columns(low="measured", high="measured"))[1].read_text()
    assert "<script" not in html and "&lt;script&gt;" in html


def test_baselines_and_tests_stand_in_a_claims_details(tmp_path):
    row = {"claim": "K1", "baseline": "untrained", "measured": 0.1, "low": 0.05, "high": 0.15, "runs": 5, "models": 5,
           "holding": 4, "judged": 15.0, "deviation": 0.01, "error": 0.01}  # fmt: skip
    schema = tables.TABLES["baselines"]
    tables.write(pl.DataFrame([row], schema=schema.columns), tmp_path / "baselines.parquet")
    beside: dict[str, Any] = {"low": 0.1, "high": 0.3, "baseline": 0.1, "expected": 0.06, "also_random": 4}
    beside |= {"random_models": 5, "group": "common"}
    judged = claims_table(K1="holds").with_columns(**known(**{name: {"K1": it} for name, it in beside.items()}))
    html = made_report(tmp_path, judged=judged, beside=[f"{tmp_path}/baselines.parquet"])[1].read_text()
    for part in ("10 points (5 to 15) over 5 seeds", '<td data-label="Untrained that show it">4 of 5</td>',
                 "judged by 15", ">6 points<", "here, and in random networks</span></td>",
                 "<small>10 to 30</small>"):  # fmt: skip
        assert part in html, part
    assert "Untrained" not in made_report(tmp_path, judged=claims_table(K1="holds"))[1].read_text()


def test_the_summary_is_markdown_that_shows_text_as_it_is(tmp_path):
    judged = claims_table(K1="holds", K24="fails").with_columns(paper_value=pl.lit("<b>1|2_3</b>"))
    made_report(tmp_path, judged=judged)
    text = (tmp_path / "summary.md").read_text()
    assert text.startswith("# try (surrogate): 1 here and not in random networks, 1 not here or less\n")
    assert r"\<b\>1\|2\_3\</b\>" in text and "<script>" not in text  # a reason may quote; it stays out
    assert "(report/report.html)" in text and "Surrogate model" in text
    made_report(tmp_path, "paper")
    assert "Surrogate" not in (tmp_path / "summary.md").read_text()


def test_a_finished_run_says_its_first_lines_and_only_of_its_own_verdicts():
    shown, heading = rows(K13="holds", K2="holds"), "my_run (surrogate): 2 here and not in random networks"
    text = markdown(heading, "surrogate", first(shown)["lines"], shown)
    lines = wording.first_lines(text, heading)
    assert lines == first(shown)["lines"] and len(lines) == 4 and lines[1].startswith("The upper layers' values")
    assert wording.first_lines(text, heading.replace("2 here", "3 here")) is None
