"""Test that the report's sentences follow the verdicts and numbers in its tables."""

import json
import re

import polars as pl
import pytest
from reports import CONFIG, claims_table, made_report

from ff_memories import tables
from ff_memories.claims.register import register
from ff_memories.claims.sensitivity import table as sensitivity
from ff_memories.claims.shown import summary
from ff_memories.config import Settings
from ff_memories.report.markdown import markdown
from ff_memories.report.page import MEANINGS
from ff_memories.report.sections import outline
from ff_memories.report.sections.answers import answer, five, in_short
from ff_memories.report.sections.sensitivity import choices_section

N, BY_SECTION = len(register()), sorted(register(), key=outline.section_of)
INFO = {"scope": "surrogate", "layers": 16, "parameters": 1234567}
COUNTS = tables.counts(
    "corpus", {"train_tokens": 900, "train_sentences": 80, "validation_tokens": 100, "validation_sentences": 1}
)


def rows(scope="surrogate", measured=0.25, columns=(), **verdicts):
    table = claims_table(scope, measured, **verdicts)
    return outline.rows(table.with_columns(**dict(columns)))


def told(shown, info=INFO, choices=None):
    return five(shown, COUNTS, Settings.from_argument(json.dumps(CONFIG)), info, choices)


def known(**values):
    """Return columns of a claims table with these values, by column and claim."""
    kinds = tables.TABLES["claims"].columns
    return {
        column: pl.col("claim").replace_strict(by_claim, default=None, return_dtype=kinds[column])
        for column, by_claim in values.items()
    }


def test_what_was_run_is_counted():
    said = told(rows(K1="holds"))[0]
    assert f"{N} claims" in said and "a stand-in model (16 layers, 1,234,567 parameters)" in said
    assert "1,000 tokens in 81 sentences of the run's own text files" in said
    assert "perplexity" not in said and "validation perplexity 48.3" in told(rows(), INFO | {"perplexity": 48.31})[0]
    both = told(rows(), INFO | {"perplexity": 48.31, "in_windows": 31.2})[0]
    assert "validation perplexity 31.2, 48.3 one sentence at a time)" in both
    quantised = {"types": {"Q4_K": 9, "F32": 2}, "bits": [4]}
    assert "4-bit weights (Q4_K, F32): the model that people run, not" in told(rows(), INFO | quantised)[0]
    assert "the paper's own model" in told(rows("paper"), INFO | {"scope": "paper"})[0]


@pytest.mark.parametrize(
    "verdicts, training, holds, fails, little",
    [
        ({}, {}, "No claim is judged.", "No claim fails, because none is judged.", f"{N} claims were not attempted"),
        ({"K1": "holds"}, {}, "The one judged claim holds: 1 of 1 on keys and their triggers (K1).",
         "No judged claim fails.", "no untrained model"),
        ({"K1": "holds"}, {"K1": "higher"}, "The one judged claim holds: 1 of 1 on keys", "No judged claim fails.",
         "Of 1 number compared with untrained models on the same sentences, training changes 1 (raises K1); "
         f"{N - 1} claims"),
        ({"K1": "fails"}, {}, "The one judged claim does not hold.",
         "The one judged claim does not hold: 1 of 1 on keys and their triggers (K1).", f"{N - 1} claims were"),
        ({"K1": "holds", "K12": "fails", "K14": "fails"}, {},
         "1 of the 3 judged claims holds: 1 of 1 on keys and their triggers (K1).",
         "2 of the 3 judged claims do not hold: 2 of 2 on values and their predictions (K12 and K14).",
         f"{N - 3} claims were"),
        ({"K1": "holds", "K2": "too_small", "K3": "undecided"}, {"K1": "lower", "K2": "same", "K3": "undecided"},
         "1 of the 3 judged claims holds: 1 of 3 on keys and their triggers (K1); 1 more shows the direction, but less",
         "No judged claim fails; 1 is undecided (K3).",
         "training changes 1 (lowers K1); K2 is the same untrained; for 1, these models do not tell; "
         f"{N - 3} claims"),
        ({"K1": "undecided"}, {}, "The one judged claim is undecided.", "No judged claim fails; 1 is undecided",
         f"{N - 1}"),
        ({"K10": "measured", "K11": "not_applicable"}, {}, "No claim is judged.", "none is judged",
         "2 claims are measured, not judged, because only the paper's own model could confirm"),
    ],
)  # fmt: skip
def test_what_holds_and_what_does_not_follow_the_verdicts(verdicts, training, holds, fails, little):
    said = told(rows(columns=known(training=training, baseline=dict.fromkeys(training, 0.1)), **verdicts))
    assert len(said) == 5 and said[1].startswith(holds) and fails in said[2] and little in said[3].replace("No ", "no ")


def test_on_the_papers_model_claims_are_reproduced_or_not():
    said = told(rows("paper", K1="reproduced", K2="reproduced", K12="not_reproduced"), INFO | {"scope": "paper"})
    assert said[1].startswith("2 of the 3 judged claims are reproduced: 2 of 2 on keys")
    assert said[2].startswith("1 of the 3 judged claims is not reproduced: 1 of 1 on values")
    assert "measured" not in answer("3.2", rows("paper", K1="reproduced")) and "only the paper's" not in said[3]


def test_how_sure_it_is_counts_intervals_tests_and_flips():
    columns = known(
        low={"K1": 0.1, "K24": 0.1},
        high={"K1": 0.3, "K24": 0.3},
        resampled={"K1": "keys", "K24": "examples"},
        p_holm={"K1": 0.02, "K24": 0.2},
    )
    shown = rows(columns=columns, K1="holds", K24="fails")
    said = told(shown)[4]
    assert (
        "2 of 2 numbers have a 95 % interval, from resampling examples or keys, not from training more models" in said
    )
    assert "1 of 2 tested directions is significant (p < 0.05 after Holm's correction)" in said
    assert "tried no alternative" in said
    own = claims_table(K1="holds").head(1)
    other = sensitivity.rows(claims_table(K1="fails").head(1), "values.target", "last")
    table = pl.concat([sensitivity.rows(own), other])
    said = told(shown, choices=choices_section(table, None))[4]
    assert said.endswith("1 verdict (K1) flips under at least one of 1 alternative analysis choice.")
    assert "test" not in told(rows(K1="holds"))[4] and told(rows())[4].endswith("Nothing was measured.")


@pytest.mark.parametrize("verdict", tables.VERDICTS)
@pytest.mark.parametrize("section", [section.number for section in outline.SECTIONS])
def test_every_section_has_an_answer_for_every_verdict(section, verdict):
    scope = "paper" if "reproduced" in verdict else "surrogate"
    every = {claim.id: verdict for claim in register()}
    said = answer(section, rows(scope, columns=known(baseline=dict.fromkeys(every, 0.2)), **every))
    judged = verdict not in ("measured", "not_applicable", "not_attempted")
    assert ("judged claim" in said) == judged and said.endswith(".") and "{" not in said
    nothing = answer(section, rows(scope))
    assert nothing == "Nothing here was measured."


@pytest.mark.parametrize(
    "section, number, words",
    [
        ("3.2", -0.4, "Mostly to the last token: removing a trigger's last token lowers the key's "
         "coefficient by 40 points more than removing its first (K1"),
        ("3.2", 0.4, "Not mostly to the last token: removing a trigger's last token lowers the key's "
         "coefficient by 40 points less than removing its first (K1"),
        ("4", 0.02, "Rarely: in the best upper layer, 2 % of the values"),
        ("4", 0.3, "Sometimes: "), ("4", 0.7, "Mostly: "),
        ("5.1", 0.7, "Rarely by a single memory: in every layer, for at least 70 % of the examples"),
        ("5.1", 0.3, "In at least one layer, a single memory usually makes the layer's prediction: "),
        ("5.2", 0.8, "Early"),
        ("5.2", 0.1, "For most examples, not even in the last layer"),
    ],
)  # fmt: skip
def test_a_sections_words_follow_its_numbers(section, number, words):
    every = {claim.id: "measured" for claim in register()}
    shown = rows(measured=number, **every)
    assert answer(section, shown).startswith(words)
    assert words.startswith(in_short(section, shown).rstrip(".")) and in_short(section, rows()) == ""


@pytest.mark.parametrize(
    "section, training, alike",
    [("3.2", {"K1": "same", "K2": "same"}, True), ("3.2", {"K1": "same", "K2": "higher"}, False),
     ("4", {"K11": "same"}, True), ("4", {"K11": "undecided"}, False), ("5.1", {}, False),
     ("5.2", {"K24": "same"}, True)],
)  # fmt: skip
def test_the_few_words_say_where_an_untrained_model_does_the_same(section, training, alike):
    every = {claim.id: "measured" for claim in register()}
    said = in_short(section, rows(columns=known(training=training), **every))
    assert said and said.endswith(", as in an untrained model.") == alike


def test_a_section_names_what_holds_what_is_small_and_what_is_open():
    columns = known(baseline=dict.fromkeys(["K24", "K25", "K26"], 0.2), sample={"K24": 0.3})
    said = answer("5.2", rows(columns=columns, K24="too_small", K25="holds", K26="fails", K27="undecided"))
    assert "1 of the 4 judged claims holds; 1 less than stated (K24); 1 does not hold (K26); 1 undecided (K27)" in said
    assert "(K24 smaller than stated; 30 % on the same sentences as untrained: 20 %)" in said


@pytest.mark.slow
def test_a_figure_says_what_it_shows_in_this_run_where_its_specification_does(tmp_path):
    for name, held in (("figure2", {"usermeta": {"headline": "Half <b>of all"}}), ("figure3", {})):
        (tmp_path / f"{name}.vl.json").write_text(json.dumps(held))
    specs = ["--specs", *(f"{tmp_path}/{name}.vl.json" for name in ("figure2", "figure3"))]
    html = made_report(tmp_path, more=specs)[1].read_text()
    assert "<strong>Figure 2. Half &lt;b&gt;of all.</strong>" in html and "<strong>Figure 3.</strong>" in html


def test_numbers_by_the_proxys_labels_say_so_where_they_stand(tmp_path):
    judged = claims_table(K6="measured", K7="measured")
    table = judged.with_columns(**known(reason={"K6": "surrogate; automatic proxy"}))
    assert "labelled by an automatic proxy" in answer("3.2", outline.rows(table))
    assert [row["claim"] for row in outline.rows(table) if row["proxy"]] == ["K6"]
    assert outline.PROXY in markdown("x", "surrogate", [], [], outline.rows(table))
    assert outline.PROXY not in made_report(tmp_path, judged=judged)[1].read_text()


def test_nothing_in_the_claims_table_becomes_part_of_the_page(tmp_path):
    hostile = pl.lit("<script>K1</script>")
    judged = claims_table(K1="holds").with_columns(statement=hostile, paper_value=hostile, resampled=hostile)
    html = made_report(tmp_path, judged=judged.with_columns(low="measured", high="measured"))[1].read_text()
    assert "<script" not in html and "&lt;script&gt;" in html


def test_a_number_without_a_verdict_is_called_measured(tmp_path):
    html = made_report(tmp_path, judged=claims_table(K10="not_applicable", K11="measured"))[1].read_text()
    assert "not applicable" not in html and html.count("measured, not judged</span>") == 3  # once with its meaning


def test_each_word_for_a_verdict_is_explained_once_before_it_is_needed(tmp_path):
    given = {"K1": "holds", "K2": "fails", "K3": "too_small", "K10": "measured"}
    html = made_report(tmp_path, judged=claims_table(**given))[1].read_text()
    for verdict, meaning in MEANINGS.items():
        assert html.count(f": {meaning}</li>") == (verdict in {*given.values(), "not_attempted"}), verdict
    assert html.index(MEANINGS["fails"]) < html.index("<table")


def test_claims_stand_in_their_sections_in_natural_order(tmp_path):
    html = made_report(tmp_path)[1].read_text()
    written = (tmp_path / "summary.md").read_text()
    for shown in (r'<dl id="(K\d+)"', r'class="verdict \w+" href="#(K\d+)"'):
        assert re.findall(shown, html) == [claim.id for claim in BY_SECTION]
    assert re.findall(r"^\| (K\d+) ", written, re.MULTILINE) == [claim.id for claim in register()]


def test_no_number_stands_without_what_it_measures(tmp_path):
    every = {claim.id: "measured" for claim in register()}
    html = made_report(tmp_path, judged=claims_table(**every))[1].read_text()
    shown = re.findall(r"<b>([^<]+)</b>\n<small>([^<]+)</small>", html)
    assert [what for _, what in shown] == [claim.measured_as.replace("'", "&#39;") for claim in BY_SECTION]
    signs = {"share": " %", "change": " %", "points": " points", "factor": " ×"}
    for (value, _), claim in zip(shown, BY_SECTION, strict=True):
        assert value.endswith(signs.get(claim.unit, "")) and (claim.unit != "layer" or value.startswith("layer "))


def test_baselines_and_tests_stand_in_a_claims_details(tmp_path):
    row = {"claim": "K1", "baseline": "untrained", "measured": 0.1, "low": 0.05, "high": 0.15, "runs": 5, "holding": 4,
           "deviation": 0.01, "error": 0.01}  # fmt: skip
    other = row | {"baseline": "same_sample", "runs": 1}
    schema = tables.TABLES["baselines"]
    tables.write(pl.DataFrame([row, other], schema=schema.columns), tmp_path / "baselines.parquet")
    judged = claims_table(K1="holds").with_columns(**known(baseline={"K1": 0.1}, p={"K1": 0.01}, p_holm={"K1": 0.03}))
    html = made_report(tmp_path, judged=judged, beside=[f"{tmp_path}/baselines.parquet"])[1].read_text()
    assert (
        "10 points (5 to 15) over 5 seeds; the claim holds in 4" in html
        and "This model, on the untrained models&#39; text sample" in html
    )
    assert "0.03 after Holm's correction" in html and "with Holm's correction over" in html.replace("&#39;", "'")
    without = made_report(tmp_path, judged=claims_table(K1="holds"))[1].read_text()
    assert "Untrained" not in without and "Holm" not in without


def test_the_summary_is_markdown_that_shows_text_as_it_is(tmp_path):
    judged = claims_table(K1="holds", K24="fails").with_columns(paper_value=pl.lit("<b>1|2_3</b>"))
    made_report(tmp_path, judged=judged)
    text = (tmp_path / "summary.md").read_text()
    assert text.startswith(f"# try (surrogate): 1 hold, 1 fail, {N - 2} not attempted\n")
    assert r"\<b\>1\|2\_3\</b\>" in text and "<script>" not in text  # a reason may quote; it stays out
    assert "(report/report.html)" in text and "Surrogate model" in text
    made_report(tmp_path, "paper")
    assert "Surrogate" not in (tmp_path / "summary.md").read_text()


def test_a_finished_run_says_its_answers_in_eight_lines_and_only_of_its_own_verdicts():
    shown, heading = rows(K1="holds"), f"my_run (surrogate): 1 hold, {N - 1} not attempted"
    sections = [(section.title, answer(section.number, shown, most=1)) for section in outline.SECTIONS]
    text = markdown(heading, "surrogate", told(shown), sections, shown)
    lines = summary.last_lines(text, heading, "results/my_run/report/report.html")
    assert len(lines) == 8 and lines[0] == told(shown)[0] and "\\" not in "".join(lines)
    assert lines[3].endswith("Report: results/my_run/report/report.html") and lines[4].startswith("Keys and their")
    assert summary.last_lines(text, heading.replace("1 hold", "1 fail"), "report.html") is None
