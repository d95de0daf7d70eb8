"""Test a simulated study through the real workflow: plan, annotators' files, scores, and a marked Figure 2."""

from contextlib import chdir

import polars as pl
import pytest
from contributed import use
from running import change, snakemake

from ff_memories import tables
from ff_memories.report.html import environment
from ff_memories.report.page import annotation_section

pytestmark = pytest.mark.more

RATES = {"miss": [0.0, 0.2, 0.4], "mistype": [0.0, 0.1, 0.2], "foil": [0.0, 0.0, 1.0]}


def test_files_dropped_into_the_folder_are_scored_and_figure_and_report_say_that_nobody_annotated(planted_copy):
    """All keys of the planted run are annotated by three simulated annotators; nothing earlier is computed again."""
    folder, at = planted_copy, planted_copy / "results/planted"
    change(folder, "patterns.keys_per_layer", 30)
    snakemake(folder, "annotation", "results/planted/tables/annotations.parquet")
    words = [word for name, rates in RATES.items() for word in (f"--{name}", *map(str, rates))]
    with chdir(folder):
        use("simulated_annotators", "--configfile", "my.yaml", *words, "--out", "annotations/planted")
    done = snakemake(folder, "results/planted/figures/figure2.svg", "results/planted/report/table3.csv")
    log = done.stderr + done.stdout
    assert "rule patterns" in log and "output: results/planted/proxy/" not in log
    assert all((at / "sheets" / form).stat().st_size for form in ("patterns.html", "distance.html"))
    annotators = set(tables.read(at / "tables/pattern_labels.parquet")["annotator"])
    assert annotators == {"proxy", *(f"simulated-{n}" for n in (1, 2, 3))}
    assert "labels: simulated" in (at / "figures/figure2.svg").read_text()
    section = annotation_section(tables.read(at / "tables/annotation_scores.parquet"))
    template = '{% from "report/annotation.html.j2" import annotators %}{{ annotators(section) }}'
    assert section["simulated"]
    assert "Simulated annotators" in environment().from_string(template).render(section=section)
    assert set(pl.read_csv(at / "report/table3.csv")["annotator"]) == {"simulated"}
