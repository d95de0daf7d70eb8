"""The dataset for the Hugging Face hub: tables as they are, a card that the hub reads, and no text unless asked."""

import hashlib
import importlib
import re
import shutil

import polars as pl
import pytest
import yaml
from contributed import says, use
from huggingface_hub import DatasetCard

from contrib.hf_dataset import export as dataset
from ff_memories import tables
from ff_memories.corpus import store
from ff_memories.corpus.tokenizer import read_types

RESULTS = "results/small"
CONFIG = {"run": "r"}


def head(folder):
    """Return the card's YAML as plain data, read as the hub does, and the Markdown below it."""
    found = re.fullmatch(r"---\n(.*?)\n---\n(.*)", (folder / "README.md").read_text(encoding="utf-8"), re.DOTALL)
    return yaml.safe_load(found[1]), found[2]


@pytest.fixture(scope="module")
def exported(llama, tmp_path_factory):
    """The run's dataset without text and with it; the proxy's descriptions quote words that occur nowhere else."""
    monkeypatch = pytest.MonkeyPatch()
    monkeypatch.chdir(llama)
    path = llama / RESULTS / "tables" / "annotations.parquet"
    rows = [("proxy", 1, 200, 1, 'ends with "quoted-from-the-text"', "shallow", [1, 2, 3])]
    frame = pl.DataFrame(rows, schema=tables.TABLES["annotations"].columns, orient="row")
    tables.write(frame, path, neurons=160)
    out = tmp_path_factory.mktemp("datasets")
    export = ("hf_dataset", "export", "--configfile", "my.yaml", "--out")
    use(*export, out / "plain")
    use(*export, out / "texts", "--with-text", "--licence", "cc0-1.0")
    yield llama, out / "plain", out / "texts"
    path.unlink()
    monkeypatch.undo()


def test_every_table_is_a_config_of_the_card_and_keeps_its_bytes(exported):
    run, plain, _ = exported
    card, _ = head(plain)
    own = {path.stem: path for path in (run / RESULTS / "tables").glob("*.parquet")}
    assert {one["config_name"] for one in card["configs"]} == set(own)
    assert [one["config_name"] for one in card["configs"] if one.get("default")] == ["triggers"]
    assert {path.stem for path in (plain / "data").glob("*")} == set(own)
    for one in card["configs"]:  # the documented form: a name, and files by split
        assert set(one) <= {"config_name", "data_files", "default"}
        [only] = one["data_files"]
        assert only == {"split": "train", "path": f"data/{one['config_name']}.parquet"}
        if one["config_name"] not in ("annotations", "sentences"):
            assert (plain / only["path"]).read_bytes() == own[one["config_name"]].read_bytes()
    assert card["license"] == "unknown" and "license_name" not in card and len(card["tags"]) == 5


def test_without_text_nothing_quotes_it_and_the_card_says_what_is_left_out(exported):
    run, plain, _ = exported
    frame = pl.read_parquet(plain / "data" / "annotations.parquet")
    assert frame.columns == ["annotator", "layer", "key", "pattern", "type", "ranks", "sign"]
    assert (frame["key"][0], frame["sign"][0]) == (40, -1)
    everything = b"".join(path.read_bytes() for path in plain.rglob("*") if path.is_file())
    words = {word for line in (run / "train.txt").read_text(encoding="utf-8").split("\n") for word in line.split()}
    assert b"quoted-from-the-text" not in everything
    quoted = [pl.read_parquet(p).select(pl.col(pl.String)) for p in (plain / "data").glob("*") if p.stem != "sentences"]
    cells = {str(cell) for frame in quoted for column in frame for cell in column if cell is not None}
    assert len(words) > 20 and not cells & {word for word in words if len(word) > 4}
    _, said = head(plain)
    assert "No table contains text" in said and "the column `description` of `annotations`" in said


def test_with_text_triggers_can_be_read_and_the_licence_is_said(exported):
    run, _, texts = exported
    card, said = head(texts)
    assert card["license"] == "cc0-1.0" and "quote the run's text" in said
    read = lambda name: pl.read_parquet(texts / "data" / f"{name}.parquet")
    assert "description" in read("annotations").columns
    sentences = {number: (tokens, text) for number, tokens, text in read("texts").iter_rows()}
    types = read_types(run / RESULTS / "model" / "types.json")
    corpus = store.read(run / RESULTS / "corpus" / "corpus.safetensors")
    named = set(read("triggers")["sentence"]) | set(read("examples")["sentence"])
    named |= set(read("samples")["sentence"])
    assert set(sentences) == named and len(named) > 50
    for number, (tokens, text) in sentences.items():
        assert tokens == corpus.sentence(number).tolist()
        assert text == " ".join(types.words(tokens))
    assert read("token_types")["text"].to_list() == [types[token] for token in range(len(types))]


def test_the_card_says_where_everything_comes_from(exported):
    run, plain, _ = exported
    _, said = head(plain)
    info = (run / RESULTS / "model" / "info.json").read_text(encoding="utf-8")
    sha = hashlib.sha256((run / "model" / "model.safetensors").read_bytes()).hexdigest()
    assert sha in info and f"| SHA-256 of `model.safetensors` | `{sha}` |" in said
    assert "| scope | `model`:" in said and "| keys per layer | 160, of both signs |" in said
    config = yaml.safe_load(re.search(r"```yaml\n(.*?)```", said, re.DOTALL)[1])
    assert config["run"] == "small" and config["triggers"]["positions"] == "inner"  # resolved
    for path in (plain / "data").glob("*"):
        assert f"| `data/{path.name}` | `{hashlib.sha256(path.read_bytes()).hexdigest()}` |" in said
    heights = dict(re.findall(r"^\| `(\w+)` \| ([\d,]+) \|", said, re.MULTILINE))
    assert int(heights["triggers"].replace(",", "")) == pl.read_parquet(plain / "data" / "triggers.parquet").height


def test_the_hub_library_reads_the_card(exported):
    card = DatasetCard.load(exported[1] / "README.md")
    assert card.data.license == "unknown" and card.data.pretty_name.endswith("small")
    assert card.data.to_dict()["configs"][0]["config_name"] == "sentences"


@pytest.mark.parametrize("kind", [1, 2], ids=["plain", "texts"])
def test_datasets_reads_every_row_of_every_config(exported, tmp_path, kind):
    library, folder = importlib.import_module("datasets"), str(exported[kind])
    names = library.get_dataset_config_names(folder)
    assert {"triggers", "texts"} & set(names) == ({"triggers"} if kind == 1 else {"triggers", "texts"})
    assert set(names) == {path.stem for path in (exported[kind] / "data").iterdir()}
    for name in (None, *names):
        found = library.load_dataset(folder, name, split="train", cache_dir=str(tmp_path))
        own = pl.read_parquet(exported[kind] / "data" / f"{name or 'triggers'}.parquet")
        assert found.column_names == own.columns and found.to_list() == own.to_dicts()
        assert next(iter(library.load_dataset(folder, name, split="train", streaming=True))) == own.row(0, named=True)


@pytest.mark.more
def test_saebench_reads_the_texts(exported, reader, tmp_path):
    shutil.copy(exported[2] / "data" / "texts.parquet", tmp_path)  # it takes no config's name
    read = reader("sae_bench.sae_bench_utils.dataset_utils").get_dataset_list_of_strs
    own = pl.read_parquet(tmp_path / "texts.parquet")["text"].to_list()
    assert read(str(tmp_path), "text", min_row_chars=0, total_chars=10**6) == own


def test_paths_of_this_machine_are_cut(tmp_path):
    plain = {"a": ["/home/somebody/train.txt", "data/train.txt", "~/x/y"], "b": {"c": "C:\\texts\\v.txt"}, "d": "</s>"}
    assert dataset.without_folders(plain) == {
        "a": ["train.txt", "data/train.txt", "y"],
        "b": {"c": "v.txt"},
        "d": "</s>",
    }
    rows = [(0, "train", "/home/somebody/train.txt", 1, 0, 4)]
    frame = pl.DataFrame(rows, schema=tables.TABLES["sentences"].columns, orient="row")
    tables.write(frame, tmp_path / "sentences.parquet")
    dataset.write_tables({"sentences": tmp_path / "sentences.parquet"}, tmp_path, with_text=False)
    assert tables.read(tmp_path / "data" / "sentences.parquet")["file"].to_list() == ["train.txt"]


def test_text_without_a_known_licence_is_not_published(here, capsys, tmp_path):
    told = says(capsys, "hf_dataset", "export", "--configfile", "my.yaml", "--out", tmp_path / "x", "--with-text")
    assert "nobody recorded the licence of this run's text" in told and not (tmp_path / "x").exists()
    assert "already exists" in says(capsys, "hf_dataset", "export", "--configfile", "my.yaml", "--out", tmp_path)


def test_a_damaged_table_leaves_nothing_behind(here, capsys, tmp_path):
    path = here / RESULTS / "tables" / "triggers.parquet"
    before = path.read_bytes()
    try:
        path.write_bytes(b"x")
        told = says(capsys, "hf_dataset", "export", "--configfile", "my.yaml", "--out", tmp_path / "x")
    finally:
        path.write_bytes(before)
    assert "cannot be read as" in told and not list(tmp_path.iterdir())


def test_a_known_texts_licence_is_named_in_the_card():
    contents = dataset.Contents({"triggers": (1, ["layer"], "about", "0")})
    told = dataset.card(contents, [], CONFIG, ("other", "bsd-numpy"), "BSD (numpy)")
    assert "license: other\nlicense_name: bsd-numpy\n" in told and "The licence of that text: BSD (numpy)." in told


def test_people_are_called_by_number(tmp_path):
    names = ["Ada Lovelace", "Zoe", "model-x", "proxy", "simulated-1"]
    rows = [(name, 0, "distant") for name in names]
    labels = pl.DataFrame(rows, schema=tables.TABLES["distance_labels"].columns, orient="row")
    tables.write(labels, tmp_path / "distance_labels.parquet")
    rows = [(who, "alpha", 0.5, 0.4, 0.6, 9) for who in ("Zoe", "people", "proxy")]
    scores = pl.DataFrame(rows, schema=tables.TABLES["annotation_scores"].columns, orient="row")
    tables.write(scores, tmp_path / "annotation_scores.parquet")
    found = {name: tmp_path / f"{name}.parquet" for name in ("distance_labels", "annotation_scores")}
    (tmp_path / "out").mkdir()
    contents = dataset.write_tables(found, tmp_path / "out", with_text=False)
    assert "called `person-1`" in dataset.card(contents, [], CONFIG, ("unknown", None), None)
    read = lambda name: tables.read(tmp_path / "out" / "data" / f"{name}.parquet")
    assert read("distance_labels")["annotator"].to_list() == ["person-1", "person-2", *names[2:]]
    assert read("annotation_scores")["who"].to_list() == ["person-2", "people", "proxy"]


def test_results_of_another_model_than_the_configs_are_refused(here, capsys, tmp_path):
    settings = yaml.safe_load((here / "my.yaml").read_text(encoding="utf-8"))
    settings["model"]["files"] = {"model.safetensors": "0" * 64}
    (tmp_path / "other.yaml").write_text(yaml.safe_dump(settings), encoding="utf-8")
    told = says(capsys, "hf_dataset", "export", "--configfile", tmp_path / "other.yaml", "--out", tmp_path / "x")
    assert "its model differs from the one in results/small/model/info.json" in told and not (tmp_path / "x").exists()
