"""dvc.yaml, derived from the rules: a stage for each file of rules, one for each of the other models."""

from graphlib import TopologicalSorter
from pathlib import Path

import pytest
from running import ROOT

from ff_memories.workflow import dvc_yaml
from ff_memories.workflow.run import DEFAULT, Run

LINES = {"demo": 350}  # so that a person reads it; of runs whose paths are longer, 400
RECORDED = [DEFAULT, *(f"config/{path.parent.name}.yaml" for path in sorted((ROOT / "runs").glob("*/dvc.yaml")))]


@pytest.fixture(scope="module")
def stages(request):
    return dvc_yaml.stages(Run.read(DEFAULT))


@pytest.mark.parametrize("config", RECORDED, ids=str)
def test_what_is_in_git_is_what_the_rules_say(config, monkeypatch):
    monkeypatch.chdir(ROOT)
    run = Run.read(config)
    assert run.sources_yaml.read_text(encoding="utf-8") == dvc_yaml.sources(dvc_yaml.check(run))
    assert len(run.dvc_yaml.read_text(encoding="utf-8").splitlines()) <= LINES.get(run.config.run, 400)


def test_a_stage_is_a_file_of_rules_or_a_model(stages):
    files = {path.stem: path.read_text(encoding="utf-8") for path in (ROOT / "workflow/rules").glob("*.smk")}
    for name, stage in stages.items():
        if "@" not in name:
            assert {Path(str(rule.snakefile)).stem for rule in stage.rules.values()} <= {name, "baselines"}, name
            assert name in files
            assert stage.about == " ".join(stage.about.split()) and stage.about.endswith(".")
    models = Run.read(DEFAULT).config.baselines.names
    assert [name for name in stages if "@" in name] == sorted(f"models@{model}" for model in models if model != "own")


def test_no_stage_follows_from_itself_and_none_writes_what_another_one_writes(stages):
    makers = {path: name for name, stage in stages.items() for path in stage.writes}
    assert len(makers) == sum(len(stage.writes) for stage in stages.values())
    under = lambda path: {maker for out, maker in makers.items() if out == path or out.startswith(f"{path}/")}
    before = {name: {m for path in stage.reads for m in under(path)} for name, stage in stages.items()}
    TopologicalSorter(before).prepare()
    assert {"triggers", "composition"} <= before["claims"]
    assert all(name in before["baselines"] for name in stages if "@" in name)


def test_shards_are_no_files_of_dvc(stages):
    every = {path for stage in stages.values() for path in stage.reads | stage.writes}
    assert not [path for path in every if "/shards/" in path]


def test_the_stages_of_models_are_one_text(stages):
    entry = dvc_yaml.declaration(Run.read(DEFAULT), stages)["stages"]["models"]
    assert entry["matrix"] == {"model": [name.partition("@")[2] for name in stages if "@" in name]}
    text = repr(entry["outs"]) + entry["cmd"]
    assert "${item.model}" in text and not [model for model in entry["matrix"]["model"] if f"/{model}/" in text]
    one = next(stage for name, stage in stages.items() if "@" in name)
    with pytest.raises(ValueError, match="other rules or files"):
        dvc_yaml.declaration(Run.read(DEFAULT), stages | {"models@z": dvc_yaml.Stage("models@z", one.about)})


def test_dvc_takes_no_mark_of_snakemake_for_an_output_where_somebody_else_began_it(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path(".dvc").mkdir()
    Path(".dvcignore").write_text("mine\n")
    for _ in range(2):
        dvc_yaml.begin()
        assert Path(".dvcignore").read_text() == "mine\n/.snakemake\n.snakemake_timestamp\n"
