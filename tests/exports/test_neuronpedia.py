"""Neuronpedia's features and activations: its columns and types, and the tables' values."""

import gzip
import json
from collections import defaultdict
from contextlib import chdir

import polars as pl
import pytest
from contributed import says, use
from tokenizers import Tokenizer

from contrib.neuronpedia import export as neuronpedia
from ff_memories import tables
from ff_memories.corpus import store

RESULTS, KEYS, LAYERS = "results/small", 160, 3

# The columns of Neuronpedia's tables (apps/webapp/prisma/schema.prisma) that we write, by the type of one value;
# "!": one without a default, which must be given; "[]": a list of such values.
TABLES: dict[str, dict[type | tuple[type, ...], str]] = {
    "neuron": {str: "modelId! layer! index! sourceSetName creatorId neg_str[] pos_str[]",
               (int, float): "maxActApprox neg_values[] pos_values[] frac_nonzero freq_hist_data_bar_heights[] "
                             "freq_hist_data_bar_values[]", bool: "hasVector"},
    "activation": {str: "id! tokens[] dataIndex index! layer! modelId! dataSource creatorId!",
                   (int, float): "maxValue! minValue! values[]", int: "maxValueTokenIndex!"},
    "model": {str: "id! displayNameShort displayName creatorId! owner! visibility", int: "layers! neuronsPerLayer!",
              bool: "instruct"},
    "sourceset": {str: "modelId! name! description! creatorName! urls[] creatorId! releaseName visibility type"},
    "source": {str: "id! modelId! setName! creatorId! dataset visibility"},
    "release": {str: "name! description! urls[] creatorName! creatorId! visibility"},
}  # fmt: skip


def fits(row, table):
    """Return the names of columns in which a row does not fit a table of Neuronpedia's database."""
    columns = {name.rstrip("![]"): (name, kind) for kind, names in TABLES[table].items() for name in names.split()}
    lacking = [name for name, (told, _) in columns.items() if told.endswith("!") and name not in row]
    wrong = []
    for name, value in row.items():
        told, kind = columns.get(name, (name, ()))
        values = value if told.endswith("[]") else [value]
        wrong += [] if isinstance(values, list) and all(isinstance(one, kind) for one in values) else [name]
    return lacking + wrong


def lines(path):
    with gzip.open(path, "rt", encoding="utf-8") as file:
        return [json.loads(line) for line in file.read().splitlines()]


def export(out, *more):
    use("neuronpedia", "export", "--configfile", "my.yaml", "--out", out, *more)
    return out


def refused(capsys, *more):
    return says(capsys, "neuronpedia", "export", "--configfile", "my.yaml", "--out", *more)


@pytest.fixture(scope="module")
def exported(llama, tmp_path_factory):
    with chdir(llama):
        yield export(tmp_path_factory.mktemp("neuronpedia") / "tables") / "model"


def raw(run, name):
    """A table as it is on disk, with its column `sign`, read without the package."""
    return pl.read_parquet(run / RESULTS / "tables" / f"{name}.parquet")


def test_every_layer_and_sign_is_a_source_with_the_rows_it_refers_to(exported):
    found = {path.name: path for path in exported.iterdir()}
    assert set(found) == {f"{layer}-ff-memories{end}" for layer in range(LAYERS) for end in ("", "-neg")}
    for name, folder in found.items():
        held = {path.stem: json.loads(path.read_text(encoding="utf-8")) for path in folder.glob("*.jsonl")}
        assert set(held) == {"model", "release", "source", "sourceset"}
        for kind in held:
            assert not fits(held[kind], kind), kind
            assert held[kind]["visibility"] == "PUBLIC", "without it, the database hides the row from visitors"
        assert (held["model"]["layers"], held["model"]["neuronsPerLayer"]) == (LAYERS, KEYS)
        features = lines(folder / "features" / "batch-0.jsonl.gz")
        assert held["source"]["id"] == name == features[0]["layer"]
        assert held["source"]["setName"] == held["sourceset"]["name"] == features[0]["sourceSetName"]
        assert held["sourceset"]["releaseName"] == held["release"]["name"]
        assert {row["modelId"] for row in features} == {held["model"]["id"]} == {"model"}


def test_features_have_neuronpedias_columns_and_the_tables_values(llama, exported):
    types, memory = Tokenizer.from_file(str(llama / "model" / "tokenizer.json")), ["layer", "key", "sign"]
    of = lambda frame, *columns: frame.select(*memory, *columns).rows_by_key(memory)
    promoted, demoted = (of(raw(llama, n).sort("token_rank"), "token", "logit") for n in ("promoted", "demoted"))
    rates, bins = of(raw(llama, "firing"), "fired", "prefixes"), of(raw(llama, "histogram"), "bin", "n")
    best, seen = of(raw(llama, "triggers").filter(rank=1), "coefficient"), set()
    for folder in exported.iterdir():
        columns = None
        for row in lines(folder / "features" / "batch-0.jsonl.gz"):
            assert not fits(row, "neuron")
            assert columns in (None, list(row)), "the importer reads the columns off the first line"
            columns = list(row)
            layer, sign = int(row["layer"][0]) + 1, -1 if row["layer"].endswith("-neg") else 1
            at = layer, int(row["index"]), sign
            assert at not in seen
            seen.add(at)
            assert row["maxActApprox"] == (best[at][0][0] if at in best else 0.0)
            up, down, [(fired, prefixes)] = promoted[at], demoted[at], rates[at]
            assert row["pos_values"] == [logit for _, logit in up] and row["neg_values"] == [logit for _, logit in down]
            assert min(row["pos_values"]) >= max(row["neg_values"]) and row["frac_nonzero"] == fired / prefixes
            assert row["freq_hist_data_bar_heights"] == [n for _, n in bins.get(at, [])]
            middles = [20 * middle / row["maxActApprox"] - 0.5 for middle in row["freq_hist_data_bar_values"]]
            assert middles == pytest.approx([number for number, _ in bins.get(at, [])], abs=1e-5)
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
            assert not fits(row, "activation")
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


def test_a_run_without_shading_has_no_activations(here, capsys, tmp_path):
    path = here / RESULTS / "tables" / "shading.parquet"
    before = path.read_bytes()
    try:
        tables.write(tables.read(path).clear(), path)
        told = refused(capsys, tmp_path / "x")
    finally:
        path.write_bytes(before)
    assert "has no rows" in told and "gallery.shaded" in told and not list(tmp_path.iterdir())


def test_a_bad_id_is_refused(here, capsys, tmp_path):
    told = refused(capsys, tmp_path / "x", "--model-id", "a b")
    assert "not an id" in told and "such as a-b" in told and not list(tmp_path.iterdir())


def test_batches_hold_1024_features_and_no_empty_file_is_written(tmp_path):
    rows = [{"index": str(i), "n": i} for i in (0, 5, 1023, 1024, 4096)]
    assert neuronpedia.write_batches(tmp_path / "f", iter(rows)) == 5
    found = {path.name: [row["n"] for row in lines(path)] for path in (tmp_path / "f").iterdir()}
    assert found == {"batch-0.jsonl.gz": [0, 5, 1023], "batch-1.jsonl.gz": [1024], "batch-4.jsonl.gz": [4096]}
    assert neuronpedia.write_batches(tmp_path / "g", iter([])) == 0 and not (tmp_path / "g").exists()


def test_ids_are_what_the_database_takes():
    assert neuronpedia.identifier("Qwen2.5-0.5B (base)") == "qwen2-5-0-5b-base"
    assert neuronpedia.identifier("模型") == "model"
