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
from ff_memories.report.sections.answers import answer, verdicts
from ff_memories.report.sections.findings import first_lines
from ff_memories.report.sections.sensitivity import choices_section, influence

N = sum(not claim.beyond for claim in register())
BY_SECTION = sorted(register(), key=lambda claim: (claim.beyond, outline.section_of(claim)))
INFO = {"scope": "surrogate", "layers": 16, "parameters": 1234567}
PAPER = INFO | {"scope": "paper"}
COUNTS = tables.counts(
    "corpus", {"train_tokens": 900, "train_sentences": 80, "validation_tokens": 100, "validation_sentences": 1}
)


def rows(scope="surrogate", measured=0.25, columns=(), **verdicts):
    table = claims_table(scope, measured, **verdicts)
    return outline.rows(table.with_columns(**dict(columns)))


def first(shown, info=INFO, models=3):
    return first_lines(shown, COUNTS, Settings.from_argument(json.dumps(CONFIG)), info, models)


def known(**values):
    """Return columns of a claims table with these values, by column and claim."""
    kinds = tables.TABLES["claims"].columns
    return {
        column: pl.col("claim").replace_strict(by_claim, default=None, return_dtype=kinds[column])
        for column, by_claim in values.items()
    }


def test_what_was_run_is_counted():
    said = first(rows(K1="holds")).run
    assert f"{N} claims" in said and "a stand-in model (16 layers, 1,234,567 parameters)" in said
    assert "the run's own text files: 900 tokens in 80 sentences to find triggers and 100 tokens" in said
    assert "perplexity" not in said and "validation perplexity 48.3" in first(rows(), INFO | {"perplexity": 48.31}).run
    both = first(rows(), INFO | {"perplexity": 48.31, "in_windows": 31.2}).run
    assert "validation perplexity 31.2, 48.3 one sentence at a time)" in both
    quantised = {"types": {"F32": 2, "Q4_K": 9}, "bits": [4]}
    assert "4-bit weights (Q4_K, F32): the model that people run, not" in first(rows(), INFO | quantised).run
    assert "the paper's own model" in first(rows("paper"), INFO | {"scope": "paper"}).run


@pytest.mark.parametrize(
    "given, holds, fails",
    [
        ({}, "No claim is judged.", "No claim fails, because none is judged."),
        ({"K1": "holds"}, "The one judged claim holds: 1 of 1 on keys and their", "No judged claim fails."),
        (
            {"K1": "fails"},
            "The one judged claim does not hold.",
            "The one judged claim does not hold: 1 of 1 on keys and their triggers (K1).",
        ),
        (
            {"K1": "holds", "K12": "fails", "K14": "fails"},
            "1 of the 3 judged claims holds: 1 of 1 on keys and their triggers.",
            "2 of the 3 judged claims do not hold: 2 of 2 on values and their predictions (K12 and K14).",
        ),
        (
            {"K1": "holds", "K2": "too_small", "K3": "undecided"},
            "1 of the 3 judged claims holds: 1 of 3 on keys and their triggers; 1 more shows",
            "No judged claim fails; 1 is undecided (K3).",
        ),
        ({"K1": "undecided"}, "The one judged claim is undecided.", "No judged claim fails; 1 is undecided"),
        ({"K10": "measured", "K11": "not_applicable"}, "No claim is judged.", "none is judged"),
    ],
)
def test_what_holds_and_what_does_not_follow_the_verdicts(given, holds, fails):
    said = verdicts(rows(**given))
    assert len(said) == 3 and said[0].startswith(holds) and fails in said[1]


def due(training, sample=0.4, **numbers):
    columns = known(training=training, baseline=dict.fromkeys(training, 0.1), sample=dict.fromkeys(training, sample))
    return first(rows(columns=columns, **dict.fromkeys(training, "measured"), **numbers)).training


def test_what_training_changes_is_said_with_both_numbers_of_the_same_sentences():
    said = due({"K6": "higher", "K18": "lower", "K24": "same", "K20": "undecided"})
    assert said.startswith("Training changes 2 of 4 numbers, all on the same sentences. It raises the share of")
    assert "at least one pattern: 40 %, untrained 10 % (K6). It lowers the median share" in said
    assert "K24 differs from untrained models by less than what counts as a difference." in said
    assert said.endswith("3 untrained models do not tell for K20.")


def test_training_that_changes_nothing_is_not_said_to_raise_or_lower_anything():
    said = due({"K6": "same", "K18": "undecided"})
    assert said.startswith("Training changes 0 of 2 numbers") and "raises" not in said and "lowers" not in said


def test_many_changes_are_named_by_their_claims_alone():
    said = due(dict.fromkeys(["K6", "K7", "K8", "K10", "K11", "K12", "K13"], "higher"))
    assert "It raises K6, K7, K8, K10, K11, K12 and K13." in said


def test_without_untrained_models_nothing_is_said_of_training():
    assert "says nothing about training" in first(rows(K1="holds")).training


@pytest.mark.parametrize(
    "claims, number, lead",
    [
        (("K1", "K2"), -0.4, "Keys respond mostly to the last token of a prefix"),
        (("K1", "K2"), 0.4, "Keys respond not mostly to the last token of a prefix"),
        (("K11",), 0.02, "Values rarely predict the token after their keys’ triggers"),
        (("K11",), 0.7, "Values mostly predict the token after their keys’ triggers"),
        (("K16",), 0.97, "The most predictive values are mostly in the upper layers"),
        (("K16",), 0.43, "The most predictive values are partly in the upper layers"),
        (("K16",), 0.33, "The most predictive values are no more often in the upper layers than below"),
        (("K20",), 0.6, "In every layer, usually no active memory predicts what the layer predicts"),
        (("K20",), 0.1, "In at least one layer, some active memory usually predicts what the layer predicts"),
        (("K24",), 0.81, "The last layer's residual already predicts the output for most examples"),
        (("K24",), 0.47, "The last layer's residual already predicts the output for few examples"),
    ],
)
def test_a_findings_words_follow_its_number(claims, number, lead):
    ((said, told),) = first(rows(measured=number, **dict.fromkeys(claims, "holds"))).findings
    assert said == lead and f"({claims[0]} holds; paper: " in told
    same = known(training=dict.fromkeys(claims, "same"))
    assert first(rows(measured=number, columns=same, **dict.fromkeys(claims, "holds"))).findings[0][0] != lead


@pytest.mark.parametrize("shuffled, said", [
    ({"K16": 0.8, "K24": 0.1}, "For K16, shuffling the entries"),
    ({"K16": 0.1, "K24": 0.1}, "The scale of the weights explains none of them:"),
    ({}, None),
])  # fmt: skip
def test_what_the_scale_of_the_weights_explains_is_told_by_the_shuffled_model(shuffled, said):
    training = {"K16": "higher", "K24": "higher", "K25": "same"}
    columns = known(training=training, shuffled=shuffled or {"K25": 0.4}, baseline=dict.fromkeys(training, 0.1),
                    sample=dict.fromkeys(training, 0.9))  # fmt: skip
    told = first(rows(columns=columns, **dict.fromkeys(training, "measured"))).training
    assert said in told if said else "shuffling" not in told


def test_every_finding_has_its_number_beside_the_papers_and_the_untrained_models():
    never = {"K17": "x; 48 % without the types that are never trained"}
    columns = known(baseline={"K17": 0.1}, sample={"K17": 0.4}, reason=never)
    findings = first(rows(columns=columns, **{claim.id: "measured" for claim in register()})).findings
    assert len(findings) == 7
    said = findings[2][1]
    assert "(K17 not judged; paper: 46 of 100; same sentences: 40 %, untrained 10 %; 48 % without the types" in said


def test_what_the_run_leaves_open_is_said():
    columns = known(training={"K1": "undecided"}, low={"K1": 0.1}, high={"K1": 0.3}, resampled={"K1": "keys"})
    said = first(rows(columns=columns, K1="undecided", K2="holds")).open
    for part in (
        "another model",
        "shows K1: the interval",
        "whether training changes K1",
        "from other keys alone",
        f"{N - 2} claims, not",
    ):
        assert part in said, part
    assert "another model" not in first(rows("paper", K1="reproduced"), PAPER).open
    assert (
        first(rows("paper", **{claim.id: "reproduced" for claim in register()}), PAPER).open == "Nothing was left open."
    )


def test_on_the_papers_model_claims_are_reproduced_or_not():
    said = verdicts(rows("paper", K1="reproduced", K2="reproduced", K12="not_reproduced"))
    assert said[0].startswith("2 of the 3 judged claims are reproduced: 2 of 2 on keys")
    assert said[1].startswith("1 of the 3 judged claims is not reproduced: 1 of 1 on values")
    assert "measured" not in answer("3.2", rows("paper", K1="reproduced"))


def test_how_sure_it_is_counts_intervals_tests_and_changed_verdicts():
    columns = known(
        low={"K1": 0.1, "K24": 0.1},
        high={"K1": 0.3, "K24": 0.3},
        resampled={"K1": "keys", "K24": "examples"},
        p_holm={"K1": 0.02, "K24": 0.2},
    )
    shown = rows(columns=columns, K1="holds", K24="fails")
    said = verdicts(shown)[2]
    assert "2 of 2 numbers have a 95 % interval, which says how it varies with other examples or keys, not" in said
    assert "1 of 2 tested directions is significant (p < 0.05 after Holm's correction)" in said
    assert "tried no alternative" in said
    own = claims_table(K1="holds").filter(claim="K1")
    other = sensitivity.rows(claims_table(K1="fails").filter(claim="K1"), "values.target", "last")
    table = pl.concat([sensitivity.rows(own), other])
    said = verdicts(shown, choices_section(table, None))[2]
    assert said.endswith(
        "1 verdict (K1 to “does not hold”) changes under at least one of 1 alternative analysis choice."
    )
    assert "test" not in verdicts(rows(K1="holds"))[2] and verdicts(rows())[2].endswith("Nothing was measured.")


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
        ("5.1", 0.7, "In every layer, usually no active memory predicts what the layer predicts: in every layer, for"),
        ("5.1", 0.3, "In at least one layer, some active memory usually predicts what the layer predicts: "),
        ("5.2", 0.8, "Early"),
        ("5.2", 0.1, "For most examples, not even in the last layer"),
    ],
)  # fmt: skip
def test_a_sections_words_follow_its_numbers(section, number, words):
    every = {claim.id: "measured" for claim in register()}
    shown = rows(measured=number, **every)
    assert answer(section, shown).startswith(words)


@pytest.mark.parametrize(
    "section, training, alike",
    [
        ("3.2", {"K1": "same", "K2": "same"}, True),
        ("3.2", {"K1": "same", "K2": "higher"}, False),
        ("4", {"K11": "same"}, True),
        ("4", {"K11": "undecided"}, False),
        ("5.1", {}, False),
        ("5.2", {"K24": "same"}, True),
    ],
)
def test_the_few_words_say_where_an_untrained_model_does_the_same(section, training, alike):
    every = {claim.id: "measured" for claim in register()}
    said = answer(section, rows(columns=known(training=training), **every))
    assert (", as in an untrained model: " in said) == alike


def test_a_section_names_what_holds_what_is_small_and_what_is_open():
    columns = known(baseline=dict.fromkeys(["K24", "K25", "K26"], 0.2), sample={"K24": 0.3})
    said = answer("5.2", rows(columns=columns, K24="too_small", K25="holds", K26="fails", K27="undecided"))
    assert "1 of the 4 judged claims holds; 1 less than stated (K24); 1 does not hold (K26); 1 undecided (K27)" in said
    assert "(K24 smaller than stated; same sentences: 30 %, untrained 20 %)" in said


@pytest.mark.slow
def test_a_figure_says_what_it_shows_in_this_run_where_its_specification_does(tmp_path):
    for name, held in (("figure2", {"usermeta": {"headline": "Half <b>of all"}}), ("figure3", {})):
        (tmp_path / f"{name}.vl.json").write_text(json.dumps(held))
    specs = ["--specs", *(f"{tmp_path}/{name}.vl.json" for name in ("figure2", "figure3"))]
    html = made_report(tmp_path, more=specs)[1].read_text()
    assert "Half &lt;b&gt;of all.</span></strong>" in html and "<strong>Figure 3.</strong>" in html


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
    assert html.index(MEANINGS["fails"]) < html.index('<table class="claims')


def test_claims_stand_in_their_sections_in_natural_order(tmp_path):
    html = made_report(tmp_path)[1].read_text()
    written = (tmp_path / "summary.md").read_text()
    for shown in (r'<tr id="([BK]\d+)"', r'class="verdict \w+" href="#([BK]\d+)"'):
        assert re.findall(shown, html) == [claim.id for claim in BY_SECTION]
    assert re.findall(r"^\| ([BK]\d+) ", written, re.MULTILINE) == [claim.id for claim in register()]


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
    beside = {"sample": {"K1": 0.2}, "sample_low": {"K1": 0.1}, "sample_high": {"K1": 0.3}, "baseline": {"K1": 0.1}}
    judged = claims_table(K1="holds").with_columns(**known(**beside, p={"K1": 0.01}, p_holm={"K1": 0.03}))
    html = made_report(tmp_path, judged=judged, beside=[f"{tmp_path}/baselines.parquet"])[1].read_text()
    assert (
        "10 points (5 to 15) over 5 seeds; the claim holds in 4" in html
        and "This model, on the untrained models&#39; text sample" in html
    )
    assert "<small>10 to 30</small>" in html and not re.search(r"\w<small", html), "read without styles, or on a phone"
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


def test_a_finished_run_says_its_first_lines_and_only_of_its_own_verdicts():
    shown, heading = rows(K1="holds", K2="holds"), f"my_run (surrogate): 2 hold, {N - 2} not attempted"
    text = markdown(heading, "surrogate", first(shown).lines, verdicts(shown), shown)
    lines = summary.first_lines(text, heading)
    assert lines == first(shown).lines and len(lines) == 4 and lines[1].startswith("Keys respond")
    assert summary.first_lines(text, heading.replace("2 hold", "2 fail")) is None


def test_choices_that_reach_no_number_of_a_section_show_no_robustness():
    own = (
        claims_table(K1="holds", K10="holds", K11="holds")
        .filter(pl.col("measured") > 0)
        .with_columns(low=pl.lit(0.1), high=pl.lit(0.4))
    )
    within = own.with_columns(measured=pl.when(pl.col("claim") == "K10").then(0.3).otherwise("measured"))
    table = pl.concat([sensitivity.rows(own), sensitivity.rows(within, "mutations.mean", "of_sums")])
    choices = choices_section(table, None)
    assert influence(choices, ["K1", "K11"]).startswith("No choice that was tried changes a number here, so this run")
    assert influence(choices, ["K1", "K10"]).startswith("Choices that were tried change K10, none of them beyond")


def test_a_guess_that_does_better_is_said_in_the_findings_too():
    shown = rows(measured=0.02, K11="measured")
    for row in shown:
        row["baselines"] = [{"baseline": "unigram", "measured": 0.08 if row["claim"] == "K11" else 0.01}]
    assert "always guessing the most frequent token: 8 %" in first(shown).findings[0][1]
    for row in shown:
        row["baselines"] = [{"baseline": "unigram", "measured": 0.01}]
    assert "always guessing" not in first(shown).findings[0][1]


def test_training_that_lowers_a_negative_number_makes_it_more_negative_and_claims_beyond_the_paper_stand_apart():
    said = due({"K1": "lower", "K18": "lower", "B1": "undecided", "B3": "lower"}, sample=-0.4)
    assert said.startswith("Training changes 2 of 2 numbers") and "It makes the change" in said and "lowers" not in said
    assert said.endswith("Beyond the paper's claims, it makes B3 more negative; undecided is B1.")


def test_a_number_that_is_not_the_one_judged_is_told_with_that_one():
    columns = known(judged={"K24": 0.0224, "K1": 3.0})
    findings = dict(first(rows(columns=columns, K1="holds", K2="holds", K24="holds")).findings)
    told = findings["The last layer's residual already predicts the output for few examples"]
    assert "K24 holds, judged by the gain of that share per layer, late less early" in told and ": 2.24 points" in told
    assert "judged by" not in findings["Keys respond not mostly to the last token of a prefix"]
