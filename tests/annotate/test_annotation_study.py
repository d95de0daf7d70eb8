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


@pytest.fixture(scope="module")
def study(planted_run, tmp_path_factory):
    """The planted run with all its keys annotated by three simulated annotators."""
    import shutil

    folder = tmp_path_factory.mktemp("study") / "run"
    shutil.copytree(planted_run, folder, symlinks=True)
    change(folder, "patterns.keys_per_layer", 30)
    at = "results/planted/"
    snakemake(folder, "annotation", f"{at}tables/annotations.parquet")
    words = [word for name, rates in RATES.items() for word in (f"--{name}", *map(str, rates))]
    with chdir(folder):
        use("simulated_annotators", "--configfile", "my.yaml", *words, "--out", "annotations/planted")
    done = snakemake(folder, f"{at}figures/figure2.svg", f"{at}report/table3.csv")
    return folder, done.stderr + done.stdout


def test_a_file_dropped_into_the_folder_is_scored_and_nothing_earlier_is_computed_again(study):
    folder, log = study
    assert "rule patterns" in log and "output: results/planted/proxy/" not in log
    for form in ("patterns.html", "distance.html"):
        assert (folder / "results/planted/sheets" / form).stat().st_size


def test_tables_keep_the_proxy_beside_the_annotators(study):
    for name in ("annotations", "pattern_labels"):
        frame = tables.read(study[0] / f"results/planted/tables/{name}.parquet")
        assert set(frame["annotator"]) == {"proxy", *(f"simulated-{n}" for n in (1, 2, 3))}
    plan = tables.read(study[0] / "results/planted/tables/annotation_plan.parquet")
    kinds = dict(plan["kind"].cast(pl.String).value_counts().iter_rows())
    assert kinds["repeat"] == kinds["foil"] == round(0.1 * kinds["key"])


def test_figure_and_tables_and_report_say_that_nobody_annotated(study):
    at = study[0] / "results/planted"
    assert "labels: simulated" in (at / "figures/figure2.svg").read_text()
    section = annotation_section(tables.read(at / "tables/annotation_scores.parquet"))
    template = '{% from "report/annotation.html.j2" import annotators %}{{ annotators(section) }}'
    assert section["simulated"]
    assert "Simulated annotators" in environment().from_string(template).render(section=section)
    assert set(pl.read_csv(at / "report/table3.csv")["annotator"]) == {"simulated"}


def test_a_fault_in_a_file_stops_the_run_and_nothing_is_scored(study):
    folder, _ = study
    file, table = folder / "annotations/planted/simulated-1.csv", folder / "results/planted/tables/annotations.parquet"
    text, before = file.read_text(), table.read_bytes()
    file.write_text(text.replace("shallow", "shalow", 1))
    done = snakemake(folder, str(table.relative_to(folder)), check=False)
    log = (folder / "results/planted/logs/patterns.log").read_text()
    file.write_text(text)
    assert done.returncode and "simulated-1.csv, row 2: 'shalow' is not a type of pattern; write shallow" in log
    assert not table.exists() or table.read_bytes() == before
