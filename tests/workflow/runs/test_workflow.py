"""Snakemake and DVC, for real: what runs, what does not run again, and what each change makes due."""

import json
import re
import shutil

import polars as pl
import pytest
import yaml
from planted_run import prepare
from running import ROOT, change, command, snakemake

from ff_memories import tables
from ff_memories.figures.registry import FIGURES
from ff_memories.judge.register import register
from ff_memories.workflow import dvc_lock_file

PROFILES = ("profiles/default", "workflow/profiles/slurm")


def due(folder):
    """Rules that Snakemake would run now, with how often each."""
    shown = snakemake(folder, "-n").stdout
    jobs = dict(re.findall(r"^(\w+) +(\d+)$", shown.partition("Job stats:")[2].partition("total")[0], re.MULTILINE))
    return {rule: int(n) for rule, n in jobs.items() if rule != "all"}


def test_the_whole_workflow_leaves_tables_figures_claims_and_report(planted_run):
    results = planted_run / "results" / "planted"
    made = {path.stem for path in (results / "tables").glob("*.parquet")}
    assert made == set(tables.TABLES) - {"sensitivity"}  # which is asked for
    for name in made:
        frame = tables.read(results / "tables" / f"{name}.parquet")
        assert frame.equals(tables.conform(frame, tables.TABLES[name])), name
    for figure in FIGURES:
        for suffix in ("pdf", "svg", "png", "html", "vl.json", "csv"):
            assert (results / "figures" / f"{figure}.{suffix}").stat().st_size > 50
    assert "surrogate" in (results / "report" / "report.html").read_text(encoding="utf-8")
    claims = tables.read(results / "tables" / "claims.parquet")
    assert len(claims.filter(pl.col("claim").str.starts_with("K"))) == sum(not claim.beyond for claim in register())
    assert not claims["verdict"].is_in(["reproduced", "not_reproduced"]).any()
    assert set(json.loads((results / "claims.json").read_text())) == set(claims["claim"])


def test_on_a_cluster_the_same_makes_a_step_due_and_each_rule_that_runs_the_model_is_known():
    """And no rule needs --cores, which a cluster's run does not have."""
    own, cluster = (yaml.safe_load((ROOT / path / "config.yaml").read_text()) for path in PROFILES)
    for key in ("rerun-triggers", "max-checksum-file-size", "rerun-incomplete"):
        assert own[key] == cluster[key]
    texts = [path.read_text(encoding="utf-8") for path in (ROOT / "workflow/rules").glob("*.smk")]
    rule = re.compile(r"^rule (\w+):\n(.*?)(?=^rule |\Z)", re.MULTILINE | re.DOTALL)
    rules = {name: body for text in texts for name, body in rule.findall(text)}
    asked = cluster["set-resources"]
    assert asked.keys() <= rules.keys()
    assert {name for name, body in rules.items() if "execution()" in body} <= asked.keys()
    assert not any("workflow.cores" in body for body in rules.values())


def test_a_finished_run_ends_with_its_answers(planted_copy):
    shown = snakemake(planted_copy, "--forcerun", "report").stderr.strip().splitlines()
    heads = ("planted (surrogate): ", "A stand-in model (", "The upper layers' values predict ",
             "Also in random networks: ", "What cannot be said: ", "Time of all jobs",
             "Where to look: report results/planted/report/")  # fmt: skip
    said = [next(n for n, line in enumerate(shown) if line.startswith(head)) for head in heads]
    assert said == sorted(said) and max(map(len, shown[said[0] : said[-1]])) <= 100
    assert re.search(r"; the most: \w+ \d", " ".join(shown[said[-2] : said[-1]]))


def test_after_a_run_there_is_nothing_to_do(planted_run):
    assert due(planted_run) == {}


@pytest.mark.more
def test_an_experiments_parameter_reruns_what_depends_on_it_whatever_the_number_of_shards(planted_copy):
    change(planted_copy, "execution.shards", 3)
    assert due(planted_copy) == {}
    change(planted_copy, "mutations.random", "inner")
    touched = {"mutations", "mutations_joined", "baselines", "figures_3", "claims", "report", "gallery"}
    assert set(due(planted_copy)) == touched and due(planted_copy)["mutations"] == 3 + 4
    for key, value in (("mutations.random", "any"), ("composition.stop_words", "top50"), ("mutations.mean", "of_sums")):
        change(planted_copy, key, value)
    assert {"claims"} <= due(planted_copy).keys() <= touched - {"mutations", "mutations_joined"} | {"figures_5"}


def test_shards_of_other_batches_are_other_files_and_no_job_looks_for_a_gpu_of_its_own(tmp_path):
    prepare(tmp_path)
    change(tmp_path, "execution.shards", 3)
    for tokens, of_all in (("auto", 77), (64, 64)):
        change(tmp_path, "execution.batch_tokens", tokens)
        told = snakemake(tmp_path, "-n", "--set-scatter", "batch_tokens=77")  # as Snakemake tells its jobs elsewhere
        shown = told.stdout + told.stderr
        assert {*re.findall(r"batch_tokens=(\d+)", shown)} == {str(of_all)}
        assert {*re.findall(r"/planted/shards/(\w+)/3-of-3/", shown)} == {"blocks", str(of_all)}


@pytest.mark.more
def test_one_more_untrained_model_leaves_the_others_as_they_are(planted_copy):
    change(planted_copy, "baselines.models", 4)  # instead of 3
    jobs = due(planted_copy)
    assert {jobs[rule] for rule in ("models", "triggers", "mutations", "values", "interventions")} == {1}
    assert not jobs.keys() & {"sample", "corpus"} and {"baselines", "claims"} <= jobs.keys()
    change(planted_copy, "baselines.models", 3)
    change(planted_copy, "seed", 2)
    jobs = due(planted_copy)  # of the run's own model, triggers and values do not depend on it
    assert (jobs["triggers"], jobs["values"], jobs["interventions"]) == (4, 4, 2 + 4)


@pytest.mark.more
def test_jobs_share_bytecode_where_libraries_have_none(planted_copy, tmp_path):
    nowhere = {"PYTHONPYCACHEPREFIX": str(tmp_path / "none"), "PYTHONDONTWRITEBYTECODE": "1"}
    snakemake(planted_copy, "--forcerun", "model", "--until", "model", **nowhere)
    assert list((planted_copy / ".snakemake" / "bytecode").rglob("torch/__init__.*.pyc"))
    assert not (tmp_path / "none").exists()


@pytest.mark.more
@pytest.mark.parametrize("arguments", [["--config", "seed=2"], ["--configfile", "my.yaml", "other.yaml"]])
def test_config_overrides_are_refused(planted_copy, arguments):
    shutil.copy(planted_copy / "my.yaml", planted_copy / "other.yaml")
    shown = command("snakemake", "--snakefile", ROOT / "Snakefile", "--directory", planted_copy, "-n", *arguments,
                    cwd=planted_copy, check=False)  # fmt: skip
    assert shown.returncode and re.search("--config(: not|file: give only one)", shown.stderr + shown.stdout)


RECORDED = sorted(path.name for path in (ROOT / "runs").iterdir() if path.is_dir())


@pytest.mark.parametrize("folder", ["workflow", *(f"runs/{name}" for name in RECORDED)])
def test_what_is_recorded_of_the_sources_is_of_this_code(folder, tmp_path):
    (stage,) = yaml.safe_load((ROOT / folder / "sources/dvc.lock").read_text(encoding="utf-8"))["stages"].values()
    for number, dep in enumerate(stage["deps"]):
        source, here = ROOT / dep["path"], tmp_path / str(number)
        if source.is_dir():
            shutil.copytree(source, here, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(source, here)
        assert dvc_lock_file.content(here) == dep["md5"], f"{dep['path']} changed: run make generated"


@pytest.mark.more
@pytest.mark.workflow
def test_a_dvc_yaml_that_no_longer_follows_is_named_and_made_anew(tmp_path):
    for name in ("Snakefile", "annotations", "config", "data", "profiles", "src"):
        (tmp_path / name).symlink_to(ROOT / name)
    shutil.copytree(ROOT / "workflow", tmp_path / "workflow")
    whole = (ROOT / "dvc.yaml").read_text(encoding="utf-8")
    (tmp_path / "dvc.yaml").write_text(whole.replace("  composition:\n", "  otherwise:\n", 1), encoding="utf-8")
    for arguments in (["dvc-yaml", "--check"], ["sources"]):
        refused = command("ff-memories", *arguments, cwd=tmp_path, check=False)
        assert refused.returncode == 2 and "dvc.yaml does not match the Snakefile" in refused.stderr
    command("ff-memories", "dvc-yaml", cwd=tmp_path)
    assert (tmp_path / "dvc.yaml").read_text(encoding="utf-8") == whole


@pytest.mark.workflow
def test_the_papers_config_is_complete_and_what_init_writes_by_default():
    from ff_memories.config import Config, usual

    paper = yaml.safe_load((ROOT / "config" / "paper.yaml").read_text())
    assert set(Config.model_fields) - {"figures"} <= set(paper)
    same = ("seed", "fidelity", "extraction", "triggers", "mutations", "patterns", "values", "composition")
    assert {name: usual()[name] for name in same} == {name: paper[name] for name in same}
