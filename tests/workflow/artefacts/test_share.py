"""A run shared as an archive: verified in another empty folder, refused where it is hostile."""

import base64
import hashlib
import json
import re
import shutil
import stat
import zipfile
from pathlib import Path

import polars as pl
import pytest
import yaml
from running import command, snakemake
from transformers_run import prepare

from ff_memories import tables
from ff_memories.base.errors import UserError
from ff_memories.workflow import constraints, share
from ff_memories.workflow.share import receive

RECORD, TABLES = "runs/small/dvc.lock", "results/small/tables"
COUNT, ALL = ("--share", "0.0005", "--seed", "1"), ("--only", "record", "files", "rebuilt", "audit")


@pytest.fixture(scope="module")
def inputs(tmp_path_factory):
    """A folder with a model, and texts whose paths name a person."""
    folder = tmp_path_factory.mktemp("anna")
    settings = prepare(folder, "llama", train=120, validation=40)
    settings["model"]["folder"] = str(folder / "model")
    for split in ("train", "validation"):
        settings["corpus"][split]["files"] = [str(folder / f"{split}.txt")]
    settings |= {"baselines": {"models": 1}, "gallery": {"keys": 4}}
    (folder / "my.yaml").write_text(f"# Anna's\n{yaml.safe_dump(settings, sort_keys=False)}")
    return folder


@pytest.fixture(scope="module")
def archive(inputs, tmp_path_factory):
    """The archive of a run by Snakemake, in a folder that holds neither model nor text."""
    folder = tmp_path_factory.mktemp("made")
    shutil.move(inputs / "my.yaml", folder)
    snakemake(folder)
    told = command("ff-memories", "share", "results/small", cwd=folder).stdout
    assert "ff-memories verify small.zip --model PATH --text PATH" in told
    return folder / "small.zip"


def verify(folder, archive, inputs, *options):
    given = ["--model", inputs / "model", "--text", inputs / "train.txt", inputs / "validation.txt"]
    return command("ff-memories", "verify", archive, *given, *options, cwd=folder, check=False)


def changed(archive, to, change, signed=True):
    """Write an archive whose files, {path: bytes}, a function changed, and sign them anew in SHA256SUMS."""
    with zipfile.ZipFile(archive) as held:
        files = {name: held.read(name) for name in held.namelist()}
    change(files)
    head, *rows = files["SHA256SUMS"].decode().splitlines()
    sums = {path: digest for digest, _, path in (row.partition("  ") for row in rows)}
    sums |= {path: hashlib.sha256(data).hexdigest() for path, data in files.items()} if signed else {}
    rows = [f"{digest}  {path}" for path, digest in sums.items() if path != "SHA256SUMS"]
    files["SHA256SUMS"] = "".join(f"{row}\n" for row in [head, *rows]).encode()
    with zipfile.ZipFile(to, "w") as out:
        for name, data in files.items():
            out.writestr(name, data)
    return to


def forge(files, name, row):
    """Change a row of a table, and its digest in the record."""
    path, file = f"{TABLES}/{name}.parquet", Path(f"{name}.parquet")
    file.write_bytes(files[path])
    frame = tables.read(file)
    rows = frame.to_dicts()
    rows[3] |= row(rows[3])
    tables.write(pl.DataFrame(rows, schema=frame.schema), file)
    old, files[path] = hashlib.md5(files[path]).hexdigest(), file.read_bytes()
    files[RECORD] = files[RECORD].replace(old.encode(), hashlib.md5(files[path]).hexdigest().encode())


@pytest.mark.more
@pytest.mark.workflow
def test_an_archive_is_verified_elsewhere_and_shows_neither_text_nor_paths(archive, inputs, tmp_path):
    (tmp_path / "empty").mkdir()
    done = verify(tmp_path / "empty", archive, inputs, *COUNT, "--certificate", "c.json")
    assert done.returncode == 0 and done.stdout.splitlines()[-1].startswith("VERIFIED"), done.stdout + done.stderr
    assert re.search("not recomputed, because no verdict rests on them: .*tables/firing.parquet", done.stdout)
    made = json.loads((tmp_path / "empty/c.json").read_text())
    assert made["archive"]["sha256"] == hashlib.sha256(archive.read_bytes()).hexdigest()
    assert [path.name for path in (tmp_path / "empty").iterdir()] == ["c.json"]
    with zipfile.ZipFile(archive) as held:
        held.extractall(tmp_path / "held")
    for path in (tmp_path / "held").rglob("*.*"):
        shown = pl.read_parquet(path).write_json().encode() if path.suffix == ".parquet" else path.read_bytes()
        for word in (b"anna", b"Anna's", b"a red cat", str(archive.parent).encode()):
            assert word not in shown, (path, word)


def forged(files):
    forge(files, "triggers", lambda row: {"coefficient": row["coefficient"] * 1.001})
    forge(files, "baselines", lambda row: {"measured": 0.5})


def unrecorded(files):
    record = yaml.safe_load(files[RECORD])
    claims = record["stages"]["claims"]
    claims["outs"] = [out for out in claims["outs"] if out["path"] != "results/small/claims.json"]
    files[RECORD] = yaml.safe_dump(record).encode()
    del files["results/small/claims.json"]


@pytest.mark.more
@pytest.mark.workflow
@pytest.mark.parametrize("change, only, says", [
    (forged, ALL, ("! triggers, layer", "baselines.parquet: the rebuilt file differs")),
    (unrecorded, ("--only", "record"), ("claims lacks its output results/small/claims.json",)),
])  # fmt: skip
def test_what_was_changed_is_found_by_name(archive, inputs, tmp_path, monkeypatch, change, only, says):
    monkeypatch.chdir(tmp_path)
    done = verify(tmp_path, changed(archive, tmp_path / "changed.zip", change), inputs, *COUNT, *only)
    assert done.returncode == 1 and "NOT VERIFIED" in done.stdout, done.stdout + done.stderr
    assert all(word in done.stdout for word in says), done.stdout


def hidden(files):
    files["results/small/tables/more.parquet"] = b""


def without(files):
    del files[f"{TABLES}/values.parquet"]


def elsewhere(files):
    files["my.yaml"] = files["my.yaml"].replace(b"given/train/1/train.txt", b"/etc/passwd")


def unsigned(files):
    forge(files, "values", lambda row: {"agreeing_triggers": 0})


def logged(files):
    path = "results/small/logs/a.log"
    files[path] = b"made: 5\n"
    record = yaml.safe_load(files[RECORD])
    record["stages"]["claims"]["outs"].append({"path": path, "md5": hashlib.md5(files[path]).hexdigest()})
    files[RECORD] = yaml.safe_dump(record).encode()


REFUSED = {
    logged: "'results/small/logs/a.log' does not belong to the run",
    hidden: "does not belong to the run", without: f"lacks {TABLES}/values.parquet",
    elsewhere: "an archive has nothing at the path '/etc/passwd'",
    unsigned: f"{TABLES}/values.parquet is not as SHA256SUMS says",
}  # fmt: skip


@pytest.mark.more
@pytest.mark.workflow
def test_what_an_archive_needs_is_said_in_one_line(archive, inputs, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    cases = [([changed(archive, Path(f"{c.__name__}.zip"), c, c is not unsigned)], says) for c, says in REFUSED.items()]
    model, text = inputs / "model", inputs / "train.txt"
    for words, says in (
        *cases,
        ([archive, "--model", model], "give it with --text PATH"),
        ([archive, "--model", text, "--text", text, inputs / "validation.txt"], "not the run's model"),
        ([archive, "--model", model, "--text", text], "not the run's text"),
        (["none.zip"], "no such archive"),
    ):
        done = command("ff-memories", "verify", *words, cwd=tmp_path, check=False)
        assert done.returncode == 2 and says in done.stderr and len(done.stderr.splitlines()) <= 2, done.stderr


@pytest.mark.more
@pytest.mark.workflow
def test_a_run_that_was_stopped_is_not_shared(archive, tmp_path):
    shutil.copytree(archive.parent, tmp_path / "stopped")
    marks = tmp_path / "stopped/.snakemake/incomplete"
    marks.mkdir(exist_ok=True)
    (marks / base64.b64encode(b"results/small/claims.json").decode()).touch()
    done = command("ff-memories", "share", "my.yaml", "--out", "x.zip", cwd=tmp_path / "stopped", check=False)
    assert done.returncode == 2 and done.stderr.splitlines() == [
        "error: results/small: not finished, a job is due, at work or was stopped",
        "  fix: wait for it, or run ff-memories run my.yaml",
    ]


@pytest.mark.more
@pytest.mark.workflow
def test_a_run_on_another_text_than_the_one_here_is_not_shared(archive, inputs):
    text = inputs / "train.txt"
    whole = text.read_bytes()
    text.write_bytes(whole + b"a blue cat runs .\n")
    done = command("ff-memories", "share", "my.yaml", "--out", "x.zip", cwd=archive.parent, check=False)
    text.write_bytes(whole)
    assert done.returncode == 2 and f"its input {text} has changed since" in done.stderr, done.stderr


@pytest.mark.long
def test_an_archive_of_a_fairseq_checkpoint_is_verified_elsewhere(planted_copy, tmp_path):
    command("ff-memories", "share", "results/planted", cwd=planted_copy)
    (tmp_path / "elsewhere").mkdir()
    files = {"--model": ("model.pt", "dict.txt"), "--text": ("train.txt", "validation.txt")}
    given = [word for option, names in files.items() for word in (option, *(planted_copy / name for name in names))]
    archive = planted_copy / "planted.zip"
    done = command("ff-memories", "verify", archive, *given, *COUNT, cwd=tmp_path / "elsewhere", check=False)
    assert done.returncode == 0 and done.stdout.splitlines()[-1].startswith("VERIFIED"), done.stdout + done.stderr


def zipped(path, *files, mode=0):
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in files:
            info = zipfile.ZipInfo(name)
            info.external_attr = mode << 16
            archive.writestr(info, data, zipfile.ZIP_DEFLATED)
    return path


HEAD = "# ff-memories 0.1.0: my.yaml\n"
HOSTILE: dict[str, list[tuple[str, str | bytes]]] = {
    "leads out": [("SHA256SUMS", HEAD), ("../out", "x")],
    "SHA256SUMS cannot be read\n": [("SHA256SUMS", "/etc/passwd")],  # a link, which is unpacked as a file
    "unpacks to more": [("SHA256SUMS", HEAD), ("zeros", b"\0" * 40_000_000)],
    "has no SHA256SUMS": [("shared.json", "{}")],
    "SHA256SUMS cannot be read": [("SHA256SUMS", b"\xff")],
    "SHA256SUMS cannot": [("SHA256SUMS", HEAD.replace("my.yaml", "../my.yaml"))],
    "SHA256SUMS can": [("SHA256SUMS", HEAD.replace("my.yaml", "Snakefile"))],
    "my.yaml: corpus: missing key; model: missing key": [("SHA256SUMS", HEAD), ("my.yaml", "run: evil")],
    "contains SHA256SUMS twice": [("SHA256SUMS", HEAD), ("SHA256SUMS", HEAD)],
}


@pytest.mark.filterwarnings("ignore:Duplicate name")
@pytest.mark.parametrize("says", HOSTILE)
def test_a_hostile_archive_is_refused_and_leaves_nothing(tmp_path, says):
    link = stat.S_IFLNK if says.endswith("\n") else 0
    made = zipped(tmp_path / "bad.zip", *HOSTILE[says], mode=link)
    with pytest.raises(UserError, match=says):
        receive(made, tmp_path / "held", [], [])
    assert not (tmp_path / "out").exists() and not (tmp_path / "held.partial").exists()
    made.write_bytes(made.read_bytes()[:-30])
    with pytest.raises(UserError, match="cut off"):
        receive(made, tmp_path / "held", [], [])


ELSEWHERE = ("/etc/passwd", "given/../Snakefile", "Snakefile", "multiprocessing.py", "profiles/default/config.yaml",
             ".git/config", "data/.git/config", "results/evil/t.txt")  # fmt: skip


def of_one_step(path, corpus, listed, model="data/model", recorded="results/evil/x"):
    """Write an archive without an output; ``listed``: the digests of its inputs."""
    digest = listed.get("data/model/config.json", "0" * 64)
    config = {"run": "evil", "model": {"folder": model, "files": {"config.json": digest}}, "corpus": corpus}
    record = {"stages": {"a": {"deps": [{"path": recorded, "md5": "0" * 32}]}}}
    held = {"my.yaml": yaml.safe_dump(config), "runs/evil/dvc.lock": yaml.safe_dump(record)}
    sums = {name: hashlib.sha256(data.encode()).hexdigest() for name, data in held.items()} | listed
    head = HEAD + "".join(f"{digest}  {name}\n" for name, digest in sums.items())
    return zipped(path, ("SHA256SUMS", head), *held.items())


@pytest.mark.parametrize("place", ["text", "model", "recorded", "listed"])
def test_no_file_of_an_archive_is_where_something_looks_for_code(tmp_path, place):
    for number, path in enumerate(ELSEWHERE[: None if place in ("text", "model") else -1]):
        at = {"text": "given/t.txt", "model": "data/model", "recorded": "results/evil/x", "listed": "given/x"}
        at[place] = path
        texts = {split: {"files": [at["text"]]} for split in ("train", "validation")}
        corpus, listed = {"source": None, "sha256": None, **texts}, {at["listed"]: "0" * 64}
        made = of_one_step(tmp_path / f"{number}.zip", corpus, listed, at["model"], at["recorded"])
        with pytest.raises(UserError, match=re.escape(f"nothing at the path '{path}")):
            receive(made, tmp_path / f"held{number}", [], [])


@pytest.mark.parametrize("pin", [None, "0" * 64])
def test_text_that_is_given_may_not_be_what_the_config_names_whatever_digest_that_pins(tmp_path, pin):
    corpus = {"source": "wikitext-103", "sha256": pin, "train": {"files": []}, "validation": {"files": []}}
    listed, texts = {}, [f"wiki.{split}.{raw}" for split in ("train", "valid") for raw in ("raw", "tokens")]
    for path in ("model/config.json", *(f"wikitext-103/{text}" for text in texts)):
        (tmp_path / Path(path).name).write_text(path)
        listed[f"data/{path}"] = hashlib.sha256(path.encode()).hexdigest()
    made = of_one_step(tmp_path / "a.zip", corpus, listed)
    _, about = receive(made, tmp_path / "held", [tmp_path / "config.json"], sorted(tmp_path.glob("wiki*")))
    assert [about[kind]["known"] for kind in ("model", "text")] == [True, False]


def test_what_looks_like_a_clone_is_refused_wherever_files_may_be(tmp_path, monkeypatch):
    monkeypatch.setattr(share, "_refuse_elsewhere", lambda *_: None)
    for name in ("Snakefile", "config.json"):
        (tmp_path / name).write_text(name)
    listed = {path: hashlib.sha256(path.encode()).hexdigest() for path in ("Snakefile", "config.json")}
    listed["data/model/config.json"] = listed["src/ff_memories/config.json"] = listed.pop("config.json")
    texts = {split: {"files": ["Snakefile"]} for split in ("train", "validation")}
    made = of_one_step(tmp_path / "a.zip", {"source": None, "sha256": None, **texts}, listed, "src/ff_memories")
    with pytest.raises(UserError, match="looks like a clone"):
        receive(made, tmp_path / "held", [tmp_path / "config.json"], [tmp_path / "Snakefile"])


def test_odd_releases_of_an_archive_are_quoted_and_no_error(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    constraints.LOCK.parent.mkdir(parents=True)
    constraints.LOCK.write_bytes(b"polars==notaversion\n\xff\xfe\n")
    assert constraints.differences() == [f"polars {pl.__version__}, expected notaversion"]
