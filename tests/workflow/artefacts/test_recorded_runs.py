"""The recorded runs, each pulled alone into a fresh clone. The record must be of these sources."""

import json
import subprocess

import numpy as np
import polars as pl
import pytest
import torch
import transformers
from projects import run
from running import ROOT
from safetensors.torch import load_file

RUNS = {
    "demo": ("dvc.yaml", "data/demo/model.pt.dvc", "data/demo/dict.txt.dvc"),
    "stories15m": ("runs/stories15m/dvc.yaml",),
    "stories15m-stories": ("runs/stories15m-stories/dvc.yaml",),
    "smollm2": ("runs/smollm2/dvc.yaml",),
    "qwen": ("runs/qwen/dvc.yaml",),
}
TRIGGER = ["layer", "key", "position", "coefficient"]


@pytest.mark.long
@pytest.mark.parametrize("name", RUNS)
def test_a_run_that_alone_was_pulled_is_up_to_date_and_verifies(name, tmp_path):
    clone = tmp_path / "clone"
    subprocess.run(["git", "clone", "-q", ROOT, clone], check=True)
    config = [] if name == "demo" else ["--configfile", f"config/{name}.yaml"]
    (clone / "runs" / ".dvcignore").write_text(f"!/{name}/\n")  # as make pull does
    run(clone, "dvc", "pull", "--quiet", *RUNS[name])
    run(clone, "ff-memories", "restore", *config)
    assert run(clone, "dvc", "status", RUNS[name][0]).stdout.strip() == "Data and pipelines are up to date."
    assert "Nothing to be done" in run(clone, "snakemake", "-n", *config).stdout
    assert run(clone, "ff-memories", "verify", *config).returncode == 0
    assert not any((clone / "results" / other).exists() for other in RUNS.keys() - {name})
    if name != "demo":
        the_eager_model_has_the_triggers(clone / "results" / name, rows=1000, sentences=60)


def the_eager_model_has_the_triggers(results, rows, sentences):
    """Compare a run of the Llama kind with the eager model of `transformers` alone, without this package.

    Some rows of ``triggers`` have its coefficients, and in some sentences no prefix beats a list that lacks it.
    """
    about = json.loads((results / "model/model.json").read_text())
    model = transformers.AutoModelForCausalLM.from_config(
        transformers.AutoConfig.for_model(**about["config"]), attn_implementation="eager", dtype=torch.float32
    )
    model.load_state_dict(load_file(results / "model/model.safetensors"), strict=False)
    model.tie_weights()
    coefficients: dict[int, torch.Tensor] = {}
    for layer, block in enumerate(model.model.layers, 1):
        block.mlp.down_proj.register_forward_pre_hook(lambda _, args, n=layer: coefficients.update({n: args[0][0]}))
    corpus, rng, neurons = load_file(results / "corpus/corpus.safetensors"), np.random.default_rng(7), about["keys"]
    triggers = pl.read_parquet(results / "tables/triggers.parquet").cast({"key": pl.Int64})
    if "sign" in triggers.columns:  # key d_m + i is memory i with its sign changed
        triggers = triggers.with_columns(pl.col("key") + neurons * (pl.col("sign") < 0))
    lists = triggers.group_by("layer", "key").agg(pl.col("coefficient").min(), pl.len())
    last = torch.full((about["layers"], 2 * neurons), torch.inf)
    for layer, key, coefficient, length in lists.iter_rows():
        last[layer - 1, key] = coefficient if length == triggers["rank"].max() else 0
    some = triggers[np.sort(rng.choice(len(triggers), rows, replace=False))].partition_by("sentence", as_dict=True)
    every, unlisted = triggers.partition_by("sentence", as_dict=True), []
    whole = {(int(n),) for n in rng.choice(triggers["sentence"].to_numpy().max() + 1, sentences, replace=False)}
    for sentence in sorted(some.keys() | whole):
        first, end = corpus["offsets"][sentence[0] :][:2].tolist()
        with torch.inference_mode():
            model.model(torch.tensor([[about["start"], *corpus["tokens"][first:end].tolist()]]), use_cache=False)
        both = [torch.cat([m, -m], 1) for m in coefficients.values()]
        for layer, key, position, expected in some.get(sentence, triggers.clear())[TRIGGER].iter_rows():
            assert float(both[layer - 1][position, key]) == pytest.approx(expected, rel=1e-4), (layer, key, sentence)
        if sentence in whole:
            listed = every.get(sentence, triggers.clear())[TRIGGER[:2]].rows()
            for layer, m in enumerate(both, 1):
                beats = m[1:-1].amax(0) > last[layer - 1] * (1 + 1e-4)
                unlisted += [(layer, key) for key in beats.nonzero()[:, 0].tolist() if (layer, key) not in listed]
    assert not unlisted
