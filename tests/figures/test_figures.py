"""Test that figures need only tables, are reproducible bytes, are legible without colour, and state what they show."""

import html
import itertools
import json
import re
from dataclasses import replace

import numpy as np
import polars as pl
import pytest
from drawings import KEYS, LAYERS, SECTIONS, chosen, drawing, looking, synthetic, texts, untrained
from refusing import ended, says

from ff_memories import tables
from ff_memories.config import Settings
from ff_memories.figures import draw, paper, render, theme
from ff_memories.figures.registry import FIGURES, caption
from ff_memories.model.info import MARKS
from ff_memories.paper.keys import figures as figures_of_keys
from ff_memories.paper.keys import measures as keys_measures
from ff_memories.paper.layers import measures as layers_measures

SUFFIXES = (".pdf", ".svg", ".png", ".vl.json", ".csv", ".html")
PALETTES = [[*colours.values()] for colours in (theme.LABEL_COLOURS, theme.KIND_COLOURS, theme.MUTATION_COLOURS)]
THEIRS = re.compile(r"paper(?:'s range)? \(")  # in a legend


@pytest.fixture(scope="module")
def run_folder(tmp_path_factory):
    """A run's tables and info, as the earlier steps leave them."""
    folder = tmp_path_factory.mktemp("run")
    for name, frame in synthetic().items():
        tables.write(frame, folder / f"{name}.parquet")
    info = {"scope": "surrogate", "layers": LAYERS, "keys": KEYS, "vocab": 100, "max_positions": 64}
    (folder / "info.json").write_text(json.dumps(info | {"adaptive_output": True, "final_norm": False}))
    return folder


def command(folder, figure, out, *names):
    paths = [str(folder / f"{name}.parquet") for name in (names or FIGURES[figure].tables)]
    return ["step", "figures", "--figures", figure, "--config", json.dumps(SECTIONS), "--info",
            str(folder / "info.json"), "--tables", *paths, "--out", str(out.parent)]  # fmt: skip


@pytest.fixture(scope="module")
def drawn(run_folder):
    """All figures, drawn one after the other in this process."""
    for figure in FIGURES:
        assert ended(*command(run_folder, figure, run_folder / "here" / figure)) == 0
    return run_folder / "here"


def test_every_figure_is_drawn_from_the_tables_its_entry_names(drawn):
    assert {path.name for path in drawn.iterdir()} == {f + suffix for f in FIGURES for suffix in SUFFIXES}
    assert set(FIGURES) == {f"figure{i}" for i in range(2, 12)} | {"figureb1", "figureb2", "figureb3"}


@pytest.mark.parametrize("figure", FIGURES)
def test_a_surrogate_run_says_so_inside_the_image(drawn, figure):
    svg = (drawn / f"{figure}.svg").read_text()
    assert MARKS["surrogate"] in texts(svg)
    assert 'width="218"' in svg


@pytest.mark.parametrize("figure", FIGURES)
def test_a_figure_of_last_tokens_speaks_of_no_next_one(figure):
    """If values are compared with a trigger's last token, caption and axis say so."""
    look = replace(looking(figure), target="last")
    frame = draw.data(chosen(figure, synthetic()), Settings(SECTIONS), look)
    spec = render.spec(draw.chart(frame, look))
    assert spec["description"] == caption(figure, "last")
    shown = " ".join(re.findall(r'"(?:title|description)": (".*?"|\[.*?\])', json.dumps(spec)))
    assert "next token" not in shown and "follow" not in shown.replace("output follows", "")
    assert (caption(figure, "last") != caption(figure)) == (figure in ("figure4", "figure5", "figure6"))


def test_figures_of_the_papers_own_run_carry_no_surrogate_mark():
    assert "surrogate" not in texts(drawing("figure4", surrogate=False))


@pytest.mark.parametrize("figure", FIGURES)
def test_empty_tables_give_a_figure_that_says_no_data(figure):
    shown = texts(drawing(figure, {name: frame.clear() for name, frame in synthetic().items()}))
    assert "no data" in shown
    assert MARKS["surrogate"] in shown
    assert not THEIRS.search(shown)


def test_colours_of_one_figure_differ_in_greyscale():
    color = pytest.importorskip("coloraide", reason="needs the extra dev")
    for palette in PALETTES:
        grey = [color.Color(colour).convert("lab-d65")["lightness"] for colour in palette]  # what such a print keeps
        assert min(abs(a - b) for a, b in itertools.combinations(grey, 2)) > 11


@pytest.mark.parametrize("figure", [name for name, figure in FIGURES.items() if figure.hatched])
def test_stacked_segments_are_hatched_each_in_its_own_way(figure):
    svg = drawing(figure)
    used = set(re.findall(r"url\(#([\w-]*hatch-\w+)\)", svg))
    assert used == set(re.findall(r'<pattern id="([\w-]+)"', svg))
    assert len(used) == (2 if figure == "figure2" else 3)
    patterns = re.findall(r"<pattern.*?</pattern>", svg)
    assert len({re.sub("#[0-9A-F]{6}", "", p).partition("<path")[2] for p in patterns}) == len(used)


def test_stacked_shares_start_where_the_one_below_ends_and_reach_the_top():
    frames = synthetic()
    frame = draw.data(chosen("figure11", frames), Settings(SECTIONS), looking("figure11"))
    for (layer,), part in frame.group_by("layer"):
        assert part["series"].to_list() == list(layers_measures.KINDS)
        assert part["start"].to_list() == pytest.approx([0, *part["end"][:-1]])
        assert part["end"][-1] == pytest.approx(1)
        kinds = frames["refinement"].filter(pl.col("layer") == layer)["kind"]
        assert part["mean"][0] == pytest.approx((kinds == "residual").mean())


def test_peoples_labels_take_the_place_of_the_proxys():
    proxy = synthetic()["pattern_labels"]
    people = proxy.with_columns(
        pl.lit("ann").alias("annotator"), pl.lit("none").cast(proxy["label"].dtype).alias("label")
    )
    both = {"pattern_labels": pl.concat([proxy, people])}
    frame = draw.data(both, Settings(SECTIONS), looking("figure2"))
    assert frame.filter(pl.col("series") == "none")["mean"].to_list() == [1.0] * LAYERS
    assert "labels: people" in texts(drawing("figure2", both))
    assert "labels: automatic proxy" in texts(drawing("figure2", {"pattern_labels": proxy}))


def test_n_is_shown_and_counts_only_known_agreement():
    values = synthetic()["values"]
    assert f"n = {KEYS} values per layer" in texts(drawing("figure4", synthetic() | {"values": values}))
    first = (pl.col("layer") == 1) & (pl.col("key") < 5)
    partly = values.with_columns(pl.when(~first).then(pl.col("agrees")).alias("agrees"))
    assert f"n = {KEYS - 5} to {KEYS} values per layer" in texts(drawing("figure4", synthetic() | {"values": partly}))
    without = values.filter(pl.col("layer") > 1)
    assert f"n = 0 to {KEYS} values per layer" in texts(drawing("figure4", synthetic() | {"values": without}))


def test_the_papers_values_are_whole_and_say_how_they_are_known():
    values = paper.all_values()
    assert set(values["figure"]) <= set(FIGURES)
    assert set(values["known"]) == {paper.STATED, paper.READ_OFF}
    assert (values["low"] <= values["high"]).all()
    layers = values.drop_nulls("first_layer")
    assert layers.select(pl.col("first_layer", "last_layer").is_between(1, paper.PAPER_LAYERS).all()).row(0) == (1, 1)
    assert values.filter(pl.col("first_layer").is_null())["figure"].unique().to_list() == ["figure6"]


def test_the_papers_values_stand_only_where_they_belong():
    assert not paper.values(looking("figure4")).is_empty()
    assert paper.values(looking("figure4", surrogate=False, layers=12)).is_empty()
    assert paper.values(looking("figure6")).is_empty()
    assert not paper.values(looking("figure6", surrogate=False)).is_empty()
    assert paper.values(replace(looking("figure4"), scope="model")).is_empty()


def test_a_missing_table_is_named(run_folder, tmp_path, capsys):
    assert "values.parquet" in says(capsys, *command(run_folder, "figure4", tmp_path / "figure4", "mutations"))
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("palette", PALETTES)
@pytest.mark.parametrize("sight", ["protan", "deutan", "tritan"])
def test_colours_of_one_figure_stay_apart_for_colour_blind_eyes(palette, sight):
    color = pytest.importorskip("coloraide", reason="needs the extra dev")
    seen = [color.Color(colour).filter(sight) for colour in palette]
    apart = min(a.delta_e(b, method="2000") for a, b in itertools.combinations(seen, 2))
    assert apart > 10, apart  # CIEDE2000; a difference of 1 is just seen


def test_every_mark_leads_to_the_keys_behind_it(drawn):
    for figure in FIGURES:
        spec = json.loads((drawn / f"{figure}.vl.json").read_text())
        assert any("href" in layer.get("encoding", {}) for layer in spec["layer"])
        addresses = re.findall(r'"href": "(\.[^"]*)"', json.dumps(spec))
        assert addresses and all(address.startswith("../gallery/index.html#/?") for address in addresses)
        assert "../gallery/index.html#/?" in html.unescape((drawn / f"{figure}.svg").read_text())
        assert "href" not in (drawn / f"{figure}.csv").read_text().partition("\n")[0]


def figure_3(change, coefficient):
    """Return Figure 3's frame and chart if one key of layer 6 has one trigger with this change and coefficient."""
    rows = synthetic()["mutations"].with_columns(change=pl.lit(-0.2))
    odd = (pl.col("layer") == 6) & (pl.col("key") == 1) & (pl.col("rank") == 3) & (pl.col("mutation") == "first")
    rows = rows.with_columns(
        pl.when(odd).then(change).otherwise("change").alias("change"),
        pl.when(odd).then(coefficient).otherwise("coefficient").alias("coefficient"),
    )
    given = synthetic() | {"mutations": rows}
    frame = draw.data(chosen("figure3", given), Settings(SECTIONS), looking("figure3"))
    return frame, json.dumps(render.spec(draw.chart(frame, looking("figure3"))), ensure_ascii=False)


def test_a_key_near_zero_does_not_stretch_figure_3_and_is_spoken_of():
    frame, chart = figure_3(623.0, 1e-5)
    row = frame.filter((pl.col("layer") == 6) & (pl.col("mutation") == "first")).row(0, named=True)
    assert row["mean"] == pytest.approx((11 * -0.2 + (623 - 0.4) / 3) / 12) and row["near_zero"] == 1
    assert [row[name] for name in ("median", "trimmed", "others")] == pytest.approx([-0.2] * 3)
    low, high = figures_of_keys.bulk_axis(frame, figures_of_keys.beyond_the_bulk(frame))
    assert -0.3 < low < -0.2 and 0 < high < 0.1
    said = chart.replace('", "', " ").replace("\u00a0", " ")  # lines of the notes
    assert "means of layers 6 (up to +1,711 %), from keys with coefficients near zero" in said


@pytest.mark.parametrize("change, coefficient", [(623.0, 1.0), (-0.3, 1e-5)], ids=["a true change", "no outlier"])
def test_what_is_not_near_zero_or_no_outlier_stays_on_the_axis(change, coefficient):
    frame, chart = figure_3(change, coefficient)
    assert figures_of_keys.beyond_the_bulk(frame).is_empty() and "beyond the axis" not in chart


def test_robust_means_of_mutations_are_those_of_a_brute_force():
    rows = synthetic()["mutations"]
    found = keys_measures.mutation_changes(rows, "of_ratios", 1)
    for row in found.iter_rows(named=True):
        own = rows.filter((pl.col("layer") == row["layer"]) & (pl.col("mutation") == row["mutation"]))
        keys = sorted(own.group_by("key").agg(pl.col("change").mean())["change"].to_list())
        assert row["median"] == pytest.approx(np.median(keys)) and row["others"] == pytest.approx(np.mean(keys))
        assert row["trimmed"] == pytest.approx(np.mean(keys[1:-1])) and row["near_zero"] == 0  # a tenth of 12 keys
        assert row["mean"] == pytest.approx(np.mean(keys))


def marks_of(figure: str, **look) -> list[tuple[str, dict]]:
    """Return the kind of mark and the row of each of the paper's values in a figure."""
    context = looking(figure, **look)
    spec = render.spec(draw.chart(draw.data(chosen(figure, synthetic()), Settings(SECTIONS), context), context))
    return [
        (layer["mark"]["type"], row)
        for layer in spec["layer"]
        for row in layer.get("data", {}).get("values", [])
        if "form" in row
    ]


@pytest.mark.parametrize("figure", sorted(set(paper.all_values()["figure"])))
def test_only_a_single_value_of_the_paper_is_a_mark_and_a_range_is_a_band(figure):
    """A mark in the middle of a range would look like a datum."""
    drawn = marks_of(figure, surrogate=False)
    assert len({str(row) for _, row in drawn}) == paper.all_values().filter(pl.col("figure") == figure).height
    for kind, row in drawn:
        wide = row["low"] < row["high"]
        assert kind == ("bar" if wide else "rule" if row["from"] < row["to"] else "point")
        assert row["paper"] in texts(drawing(figure, surrogate=False))
        assert row["paper"].startswith("paper's range" if wide else "paper (")


def test_ranks_of_the_papers_vocabulary_are_laid_over_ours_as_shares():
    context = replace(looking("figure5"), vocab=20_000)
    frame = draw.data(chosen("figure5", synthetic()), Settings(SECTIONS), context)
    for name in ("low", "q1", "median", "q3", "high"):
        assert (frame[f"{name}_share"] * 20_000).to_list() == pytest.approx(frame[name].to_list())
    spec = json.dumps(render.spec(draw.chart(frame, context)))
    theirs = paper.values(looking("figure5"))
    for rank in theirs["high"]:
        assert f'"high": {rank / paper.VOCABULARY}' in spec


@pytest.mark.parametrize("figure", [name for name, figure in FIGURES.items() if figure.untrained])
def test_every_figure_shows_untrained_models_measured_as_the_run_is(figure):
    given, settings, shown = chosen(figure, synthetic()), Settings(SECTIONS), FIGURES[figure].untrained
    alone = draw.data(given, settings, looking(figure))
    frame = draw.data(given, settings, looking(figure), untrained())
    assert frame.select(alone.columns).equals(alone) and set(frame.columns) - set(alone.columns) == {
        "untrained", "untrained_low", "untrained_high", "same_sentences"
    }  # fmt: skip
    if figure != "figure6":  # where the run sets the bins
        each = [draw.data(chosen(figure, own), settings, looking(figure))[shown] for own in untrained().values()]
        assert frame["same_sentences"].to_list() == each[0].to_list()
        assert frame["untrained"].to_list() == pytest.approx(list(np.mean(each[1:], axis=0)))
        assert frame["untrained_high"].to_list() == np.max(each[1:], axis=0).tolist()
    assert "dashed: untrained models" in texts(render.svg(render.spec(draw.chart(frame, looking(figure))), figure))


def test_labels_by_people_are_not_compared_with_an_automatic_annotators():
    given = chosen("figure2", synthetic())
    people = given["pattern_labels"].with_columns(pl.lit("anna").alias("annotator"))
    frame = draw.data({"pattern_labels": people}, Settings(SECTIONS), looking("figure2"), untrained())
    assert frame["untrained"].null_count() == frame.height


def test_figure_7_draws_effective_memories_where_none_is_inactive():
    given = chosen("figure7", synthetic())
    given["composition"] = given["composition"].with_columns(pl.lit(2.5, pl.Float32).alias("effective"))
    context = replace(looking("figure7"), scope="model", active=False)
    frame = draw.data(given, Settings(SECTIONS), context)
    assert set(frame["median"]) == {2.5}
    said = json.dumps(draw.chart(frame, context).to_dict(), ensure_ascii=False)
    assert "The effective number of memories: median 2.5" in said and "random keys" not in said
    assert MARKS["model"] in said and "surrogate" not in said
