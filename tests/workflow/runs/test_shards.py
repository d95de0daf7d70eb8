"""Steps in shards give the bytes of one job, whatever the number of shards; a shard that was killed is made again."""

import json

import pytest
import transformers_run
from factories import words
from pipeline import BASELINE, GALLERY, baseline, config, run_steps, step, write_inputs

from ff_memories import tables

PREDICTIONS = ("examples", "composition", "refinement")
SIZES = {"models": 2, "sentences": 50, "keys_per_layer": 4, "examples": 30}


@pytest.fixture(scope="module", params=["fairseq", "llama", "some of llama"])
def whole(request, tmp_path_factory):
    """Return a small run whose steps each were one job, and the options that they share."""
    folder = tmp_path_factory.mktemp("run")
    if request.param == "fairseq":
        settings = config(execution__shards=2)
        write_inputs(folder, words(44))
        types = folder / "dict.txt"
    else:
        settings = transformers_run.prepare(folder, "llama", train=80, validation=40)
        settings["triggers"]["keys"] = 7 if request.param == "some of llama" else None
        types = folder / "out/types.json"
    settings["baselines"] = SIZES
    out = run_steps(folder, settings)
    given = ["--config", folder / "config.yaml", "--device", "cpu", "--threads", 1, "--batch-tokens", 256,
             "--corpus", out / "corpus.safetensors"]  # fmt: skip
    given += ["--weights", out / "model.safetensors", "--description", out / "model.json"]
    return out, given, ["--dictionary", types]


def in_shards(folder, name, shards, outputs, *arguments):
    """Run a step in shards, and join them: ``outputs`` are its options and files, by their places in a run."""
    every = []
    for number in range(1, shards + 1):
        own = {option: folder / f"shards/{number}-of-{shards}" / place for option, place in outputs.items()}
        step(name, *arguments, "--shard", f"{number}-of-{shards}", *(w for o, path in own.items() for w in (o, path)))
        every += own.values()
    step("join", "--shards", *every, "--joined", *(folder / place for place in outputs.values()))


@pytest.mark.parametrize("name, shards", [("mutations", 3), ("values", 50), ("composition", 3), ("gallery-tables", 3)])
def test_a_step_in_shards_writes_the_bytes_of_one_job(whole, tmp_path, name, shards):
    out, given, types = whole
    outputs = {
        "mutations": ["mutations"], "values": ["values"], "composition": PREDICTIONS, "gallery-tables": GALLERY
    }[name]  # fmt: skip
    places = {f"--{table}": f"tables/{table}.parquet" for table in outputs}
    if name in ("mutations", "composition"):
        places["--counts"] = f"counts/{name}.parquet"
    reads = {
        "values": ["triggers"], "mutations": ["triggers"], "composition": ["values"],
        "gallery-tables": ["triggers", "values", "causal"],
    }[name]  # fmt: skip
    read = [word for table in reads for word in (f"--{table}", out / f"{table}.parquet")]
    in_shards(tmp_path, name, shards, places, *given, *read, *(types if name in ("values", "composition") else []))
    for place in places.values():
        assert (tmp_path / place).read_bytes() == (out / place.removeprefix("tables/")).read_bytes(), place


@pytest.mark.more
@pytest.mark.parametrize("model", ["same_sample", "untrained-2"])
def test_baselines_in_shards_have_the_bytes_of_one_job(whole, tmp_path, model):
    out, _, _ = whole
    once, thrice = (baseline(out.parent, out, model, tmp_path / str(n), shards=n) for n in (1, 3))
    for name in (*(f"{name}.parquet" for name in BASELINE), "perplexity.json"):
        assert (once / name).read_bytes() == (thrice / name).read_bytes(), name
    assert json.loads((once / "perplexity.json").read_text())["sentences"] > 30
    assert len(tables.read(thrice / "mutations.parquet")) > 20
