"""Neuronpedia's features and activations: its columns and types, and the tables' values."""

import gzip
import json
from collections import defaultdict
from contextlib import chdir

import polars as pl
import pytest
from pipeline import step
from refusing import says
from tokenizers import Tokenizer

from ff_memories import tables
from ff_memories.corpus import store
from ff_memories.exports import neuronpedia

pytestmark = pytest.mark.slow

RESULTS, KEYS, LAYERS = "results/small", 160, 3

# Columns of Neuronpedia's tables (apps/webapp/prisma/schema.prisma) and their types: a list's item type in a list.
# Those without a default must be given: "!".
NEURON = {
    "modelId": "str!", "layer": "str!", "index": "str!", "sourceSetName": "str", "creatorId": "str",
    "maxActApprox": "float", "hasVector": "bool", "vector": ["float"], "vectorLabel": "str", "hookName": "str",
    "vectorDefaultSteerStrength": "float", "topkCosSimIndices": ["int"], "topkCosSimValues": ["float"],
    "neuron_alignment_indices": ["int"], "neuron_alignment_values": ["float"], "neuron_alignment_l1": ["float"],
    "correlated_neurons_indices": ["int"], "correlated_neurons_pearson": ["float"],
    "correlated_neurons_l1": ["float"], "neg_str": ["str"], "neg_values": ["float"], "pos_str": ["str"],
    "pos_values": ["float"], "frac_nonzero": "float", "freq_hist_data_bar_heights": ["float"],
    "freq_hist_data_bar_values": ["float"], "logits_hist_data_bar_heights": ["float"],
    "logits_hist_data_bar_values": ["float"], "decoder_weights_dist": ["float"],
}  # fmt: skip
ACTIVATION = {
    "id": "str!", "tokens": ["str"], "dataIndex": "str", "index": "str!", "layer": "str!", "modelId": "str!",
    "dataSource": "str", "maxValue": "float!", "maxValueTokenIndex": "int!", "minValue": "float!",
    "values": ["float"], "dfaValues": ["float"], "dfaTargetIndex": "int", "dfaMaxValue": "float",
    "creatorId": "str!", "lossValues": ["float"], "logitContributions": "str", "binMin": "float", "binMax": "float",
    "binContains": "float", "qualifyingTokenIndex": "int",
}  # fmt: skip
MODEL = {
    "id": "str!", "displayNameShort": "str", "displayName": "str", "creatorId": "str!", "layers": "int!",
    "neuronsPerLayer": "int!", "owner": "str!", "instruct": "bool", "visibility": "str",
}  # fmt: skip
SET = {
    "modelId": "str!", "name": "str!", "description": "str!", "creatorName": "str!", "urls": ["str"],
    "creatorId": "str!", "releaseName": "str", "visibility": "str", "type": "str",
}  # fmt: skip
SOURCE = {
    "id": "str!", "modelId": "str!", "setName": "str!", "creatorId": "str!", "dataset": "str", "visibility": "str",
}  # fmt: skip
RELEASE = {
    "name": "str!", "description": "str!", "urls": ["str"], "creatorName": "str!", "creatorId": "str!",
    "visibility": "str",
}  # fmt: skip
KINDS: dict[str, type | tuple[type, ...]] = {"str": str, "float": (int, float), "int": int, "bool": bool}


def fits(row, schema):
    """Say what of a row does not fit a table of Neuronpedia's database."""
    wrong = [name for name in row if name not in schema]
    wrong += [n for n, kind in schema.items() if not isinstance(kind, list) and kind.endswith("!") and n not in row]
    for name, value in row.items():
        kind = schema.get(name, "str")
        given = value if isinstance(kind, list) else [value]
        of = KINDS[kind[0] if isinstance(kind, list) else kind.rstrip("!")]
        if not isinstance(given, list) or not all(isinstance(one, of) for one in given):
            wrong.append(name)
    return wrong


def lines(path):
    with gzip.open(path, "rt", encoding="utf-8") as file:
        return [json.loads(line) for line in file.read().splitlines()]


def export(out, *more):
    step("export", "neuronpedia", "--configfile", "my.yaml", "--out", out, *more)
    return out


def refused(capsys, *more):
    return says(capsys, "export", "neuronpedia", "--configfile", "my.yaml", "--out", *more)


@pytest.fixture(scope="module")
def exported(llama, tmp_path_factory):
    with chdir(llama):
        yield export(tmp_path_factory.mktemp("neuronpedia") / "tables") / "model"


def raw(run, name):
    """A table as it is on disk, with its column `sign`, read without the package."""
    return pl.read_parquet(run / RESULTS / "tables" / f"{name}.parquet")


def sources(folder):
    return {path.name: path for path in folder.iterdir()}


def test_every_layer_and_sign_is_a_source_with_the_rows_it_refers_to(exported):
    found = sources(exported)
    names = {f"{layer}-ff-memories{end}" for layer in range(LAYERS) for end in ("", "-neg")}
    assert set(found) == names
    for name, folder in found.items():
        held = {path.stem: json.loads(path.read_text(encoding="utf-8")) for path in folder.glob("*.jsonl")}
        assert set(held) == {"model", "release", "source", "sourceset"}
        for kind, schema in (("model", MODEL), ("release", RELEASE), ("source", SOURCE), ("sourceset", SET)):
            assert not fits(held[kind], schema), kind
            assert held[kind]["visibility"] == "PUBLIC", "without it, the database hides the row from visitors"
        assert (held["model"]["layers"], held["model"]["neuronsPerLayer"]) == (LAYERS, KEYS)
        features = lines(folder / "features" / "batch-0.jsonl.gz")
        assert held["source"]["id"] == name == features[0]["layer"]
        assert held["source"]["setName"] == held["sourceset"]["name"] == features[0]["sourceSetName"]
        assert held["sourceset"]["releaseName"] == held["release"]["name"]
        assert {row["modelId"] for row in features} == {held["model"]["id"]} == {"model"}


def test_features_have_neuronpedias_columns_and_the_tables_values(llama, exported):
    types = Tokenizer.from_file(str(llama / "model" / "tokenizer.json"))
    lists, best, rates, bins = {"promoted": defaultdict(list), "demoted": defaultdict(list)}, {}, {}, defaultdict(dict)
    for name, of in lists.items():
        rows = raw(llama, name).sort("token_rank")
        for layer, key, sign, token, logit in rows.select("layer", "key", "sign", "token", "logit").iter_rows():
            of[layer, key, sign].append((token, logit))
    for layer, key, sign, fired, n in raw(llama, "firing").select(
        "layer", "key", "sign", "fired", "prefixes").iter_rows():  # fmt: skip
        rates[layer, key, sign] = fired / n
    for layer, key, sign, at, n in raw(llama, "histogram").select("layer", "key", "sign", "bin", "n").iter_rows():
        bins[layer, key, sign][at] = n
    for layer, key, sign, top in raw(llama, "triggers").filter(rank=1).select(
        "layer", "key", "sign", "coefficient").iter_rows():  # fmt: skip
        best[layer, key, sign] = top
    seen = set()
    for folder in exported.iterdir():
        columns = None
        for row in lines(folder / "features" / "batch-0.jsonl.gz"):
            assert not fits(row, NEURON)
            assert columns in (None, list(row)), "the importer reads the columns off the first line"
            columns = list(row)
            layer, sign = int(row["layer"][0]) + 1, -1 if row["layer"].endswith("-neg") else 1
            at = layer, int(row["index"]), sign
            assert at not in seen
            seen.add(at)
            assert row["maxActApprox"] == best.get(at, 0.0)
            up, down = lists["promoted"][at], lists["demoted"][at]
            assert row["pos_values"] == [logit for _, logit in up] and row["neg_values"] == [logit for _, logit in down]
            assert min(row["pos_values"]) >= max(row["neg_values"]) and row["frac_nonzero"] == rates[at]
            assert row["freq_hist_data_bar_heights"] == list(bins[at].values())
            middles = [20 * middle / row["maxActApprox"] - 0.5 for middle in row["freq_hist_data_bar_values"]]
            assert middles == pytest.approx(list(bins[at]), abs=1e-5)
            whole = [types.decode([token]) for token, _ in [*up, *down]]
            for text, known in zip([*row["pos_str"], *row["neg_str"]], whole, strict=True):
                assert text == known or "\ufffd" in known or not known, "a token's text, with its leading blank"
    assert seen == {(lay, k, s) for lay in range(1, LAYERS + 1) for k in range(KEYS) for s in (1, -1)}


def test_activations_are_the_triggers_with_the_coefficient_after_each_token(llama, exported):
    corpus = store.read(llama / RESULTS / "corpus" / "corpus.safetensors")
    types = Tokenizer.from_file(str(llama / "model" / "tokenizer.json"))
    expected = {
        (row["layer"], row["key"], row["sign"], row["sentence"], row["position"]): row
        for row in raw(llama, "triggers").filter(pl.col("rank") <= 3).iter_rows(named=True)
    }
    shading = defaultdict(list)
    for row in raw(llama, "shading").sort("position").iter_rows(named=True):
        shading[row["layer"], row["key"], row["sign"], row["rank"]].append(row["coefficient"])
    ids = set()
    for source in exported.iterdir():
        for row in lines(source / "activations" / "batch-0.jsonl.gz"):
            assert not fits(row, ACTIVATION)
            layer, sign = int(row["layer"][0]) + 1, -1 if row["layer"].endswith("-neg") else 1
            key = int(row["index"])
            trigger = expected.pop((layer, key, sign, int(row["dataIndex"]), len(row["tokens"])))
            prefix = corpus.sentence(trigger["sentence"])[: trigger["position"]].tolist()
            if "\ufffd" not in types.decode(prefix):
                joined = "".join(row["tokens"])
                assert joined == types.decode(prefix, skip_special_tokens=False) or "<0x" in joined
            assert row["values"][-1] == pytest.approx(trigger["coefficient"], rel=1e-4)
            assert row["values"] == shading[layer, key, sign, trigger["rank"]]
            assert row["maxValue"] == max(row["values"]) and row["minValue"] == min(row["values"])
            assert row["values"][row["maxValueTokenIndex"]] == row["maxValue"]
            ids.add(row["id"])
            assert len(row["id"]) == 25
    assert not expected and len(ids) > 1000


def test_the_same_run_gives_the_same_bytes(exported, here, tmp_path):
    again = export(tmp_path / "again") / "model"
    for path in exported.rglob("*"):
        if path.is_file():
            assert path.read_bytes() == (again / path.relative_to(exported)).read_bytes()


def test_a_run_without_shading_has_no_activations(here, capsys, tmp_path):
    path = here / RESULTS / "tables" / "shading.parquet"
    before = path.read_bytes()
    try:
        tables.write(tables.read(path).clear(), path)
        told = refused(capsys, tmp_path / "x")
    finally:
        path.write_bytes(before)
    assert "has no rows" in told and "gallery.shaded" in told and not list(tmp_path.iterdir())


@pytest.mark.parametrize("more, said", [
    (("--model-id", "a b"), "not an id; such as a-b"), (("--source-set", "x/y"), "not an id; such as x-y"),
])  # fmt: skip
def test_bad_options_are_refused(here, capsys, tmp_path, more, said):
    told = refused(capsys, tmp_path / "x", *more)
    assert all(part in told for part in said.split("; ")) and not list(tmp_path.iterdir())


def test_batches_hold_1024_features_and_no_empty_file_is_written(tmp_path):
    rows = [{"index": str(i), "n": i} for i in (0, 5, 1023, 1024, 4096)]
    assert neuronpedia.write_batches(tmp_path / "f", iter(rows)) == 5
    found = {path.name: [row["n"] for row in lines(path)] for path in (tmp_path / "f").iterdir()}
    assert found == {"batch-0.jsonl.gz": [0, 5, 1023], "batch-1.jsonl.gz": [1024], "batch-4.jsonl.gz": [4096]}
    assert neuronpedia.write_batches(tmp_path / "g", iter([])) == 0 and not (tmp_path / "g").exists()


def test_ids_are_what_the_database_takes():
    assert neuronpedia.identifier("Qwen2.5-0.5B (base)") == "qwen2-5-0-5b-base"
    assert neuronpedia.identifier("模型") == "model"
