"""Test that the report's sentences follow the verdicts and numbers in its tables."""

import json
import re

import polars as pl
import pytest
from reports import CONFIG, claims_table, made_report

from ff_memories import tables
from ff_memories.config import Settings
from ff_memories.judge import sensitivity as sensitivity
from ff_memories.judge import wording
from ff_memories.judge.numbers import measured
from ff_memories.judge.register import register
from ff_memories.judge.wording import sentence
from ff_memories.report import outline
from ff_memories.report.answers import answer, clause, first_lines, how_sure, tally
from ff_memories.report.markdown import markdown
from ff_memories.report.sections import choices_section, influence

N = sum(not claim.beyond for claim in register())
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
    "given, said",
    [
        ({}, "nothing here was measured"),
        ({"K10": "measured", "K11": "not_applicable"}, "no claim here is judged"),
        ({"K1": "holds"}, "of 1 judged claim, 1 holds (K1)"),
        (
            {"K1": "holds", "K2": "too_small", "K3": "undecided", "K12": "fails", "K14": "fails"},
            "of 5 judged claims, 1 holds (K1), 1 smaller than stated (K2), 2 fail (K12 and K14) and 1 undecided (K3)",
        ),
    ],
)
def test_verdicts_are_counted_and_their_claims_named(given, said):
    assert tally(rows(**given)) == said
    assert tally(rows("paper", K1="reproduced", K2="reproduced", K12="not_reproduced")).startswith(
        "of 3 judged claims, 2 reproduced (K1 and K2) and 1 not reproduced"
    )


def due(training, sample=0.4, **numbers):
    columns = known(training=training, baseline=dict.fromkeys(training, 0.1), sample=dict.fromkeys(training, sample))
    return first(rows(columns=columns, **dict.fromkeys(training, "measured"), **numbers)).training


def test_what_training_changes_is_said_by_claim():
    said = due({"K6": "higher", "K18": "lower", "K24": "same", "K20": "undecided"})
    assert said == (
        "Training changes 2 of 4 numbers, all on the same sentences. It raises K6. It lowers K18. It changes K24 by "
        "less than what counts as a difference. 3 untrained models do not tell for K20."
    )
    said = due({"K6": "same", "K18": "undecided"})
    assert said.startswith("Training changes 0 of 2 numbers") and "raises" not in said and "lowers" not in said
    many = dict.fromkeys(["K6", "K7", "K8", "K10", "K11", "K12", "K13"], "undecided")
    assert due(many).endswith("do not tell for 7 claims.")


def test_without_untrained_models_nothing_is_said_of_training():
    assert "says nothing about training" in first(rows(K1="holds")).training


@pytest.mark.parametrize("claim", register(), ids=lambda claim: claim.id)
@pytest.mark.parametrize("number", [-0.4, 0.0, 0.25])
def test_a_claim_has_one_sentence_with_its_number_and_the_same_wherever_it_is_told(claim, number):
    every = {own.id: "measured" for own in register()}
    shown = rows(measured=number, columns=known(baseline={claim.id: 0.1}, sample={claim.id: -0.2}), **every)
    row = next(row for row in shown if row["claim"] == claim.id)
    told = clause(row)
    assert measured(number, claim.unit).removeprefix("−") in told and not {*"{}|"} & {*told}
    assert f" ({claim.id} not judged; " in told and "untrained" in told
    assert ("paper: " in told) == (not claim.beyond)
    assert (told in answer(row["section"], shown)) == bool(claim.shown)
    assert (f"{told}." in first(shown).lines) == (claim.shown in ("first", "readme"))


def test_words_for_a_signed_number_follow_it_and_its_neighbours():
    columns = known(baseline={"K1": 0.1}, sample={"K1": -0.2}, training={"K1": "same"})
    row = rows(measured=-0.4, columns=columns, K1="holds")[0]
    assert sentence(row).endswith("lowers its coefficient by 40 points more than removing the first")
    assert "same sentences: 20 points more, untrained 10 points less, the same" in clause(row)


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


def test_a_number_among_other_types_stands_beside_the_claims_own():
    columns = known(reason={"K17": "x; 48 % without the types that are never trained"})
    assert "; 48 % without the types that are never trained)" in clause(rows(columns=columns, K17="measured")[16])


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


def test_how_sure_it_is_counts_intervals_tests_and_changed_verdicts():
    columns = known(
        low={"K1": 0.1, "K24": 0.1},
        high={"K1": 0.3, "K24": 0.3},
        resampled={"K1": "keys", "K24": "examples"},
        p_holm={"K1": 0.02, "K24": 0.2},
    )
    shown = rows(columns=columns, K1="holds", K24="fails")
    said = how_sure(shown, None)
    assert "2 of 2 numbers have a 95 % interval, which says how it varies with other examples or keys, not" in said
    assert "significant (p < 0.05 after Holm's correction): 1 of 2 tested directions" in said
    assert "tried no alternative" in said
    own = claims_table(K1="holds").filter(claim="K1")
    other = sensitivity.rows(claims_table(K1="fails").filter(claim="K1"), "values.target", "last")
    table = pl.concat([sensitivity.rows(own), other])
    said = how_sure(shown, choices_section(table, None))
    assert said.endswith("under at least one of 1 alternative analysis choice: 1 verdict (K1 to “does not hold”).")
    assert "test" not in how_sure(rows(K1="holds"), None) and how_sure(rows(), None).endswith("Nothing was measured.")


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


def test_a_claim_that_is_not_defined_on_a_model_says_why_in_its_section():
    columns = known(reason={"K18": "active memories are not defined with silu"})
    told = rows("model", columns=columns, measured=None, K18="not_applicable")
    assert answer("5.1", told).startswith("Active memories are not defined with silu (K18 not applicable).")


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
    assert [row["claim"] for row in outline.rows(table) if row["notes"]] == ["K6"]
    assert wording.PROXY in markdown("x", "surrogate", [], [], outline.rows(table))
    assert wording.PROXY not in made_report(tmp_path, judged=judged)[1].read_text()


def test_nothing_in_the_claims_table_becomes_part_of_the_page(tmp_path):
    hostile = pl.lit("<script>K1</script>")
    judged = claims_table(K1="holds").with_columns(statement=hostile, paper_value=hostile, resampled=hostile)
    html = made_report(tmp_path, judged=judged.with_columns(low="measured", high="measured"))[1].read_text()
    assert "<script" not in html and "&lt;script&gt;" in html


def test_a_number_without_a_verdict_is_called_measured(tmp_path):
    html = made_report(tmp_path, judged=claims_table(K10="not_applicable", K11="measured"))[1].read_text()
    assert "not applicable" not in html and html.count("measured, not judged</span>") == 3  # once with its meaning


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
    text = markdown(heading, "surrogate", first(shown).lines, [tally(shown)], shown)
    lines = wording.first_lines(text, heading)
    assert lines == first(shown).lines and len(lines) == 4 and lines[1].startswith("Removing a trigger's last token")
    assert wording.first_lines(text, heading.replace("2 hold", "2 fail")) is None


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
    assert "always guessing the most frequent token: 8 %" in first(shown).lines[1]
    for row in shown:
        row["baselines"] = [{"baseline": "unigram", "measured": 0.01}]
    assert "always guessing" not in first(shown).lines[1]


def test_training_that_lowers_a_negative_number_makes_it_more_negative_and_claims_beyond_the_paper_stand_apart():
    said = due({"K1": "lower", "K18": "lower", "B1": "undecided", "B3": "lower"}, sample=-0.4)
    assert said.startswith("Training changes 2 of 2 numbers, all on the same sentences. It makes K1 and K18 more negat")
    assert said.endswith("Beyond the paper's claims, it makes B3 more negative; untrained models do not tell for B1.")


def test_a_number_that_is_not_the_one_judged_is_told_with_that_one():
    columns = known(judged={"K24": 0.0224, "K1": 3.0})
    told = {row["claim"]: clause(row) for row in rows(columns=columns, K1="holds", K24="holds") if row["measured"]}
    said = (
        "K24 holds, judged by the gain of that share per layer, late less early (in the paper: from layer 10 on): 2.24"
    )
    assert said in told["K24"] and "judged by" not in told["K1"]
