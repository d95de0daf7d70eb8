"""Downloads from a real web server that fails as real ones do, and archives that were made to do harm."""

import hashlib
import io
import json
import random
import shutil
import tarfile
import time
import zipfile
from pathlib import Path

import polars as pl
import pytest
from mirror import serving
from refusing import ended as run

from ff_memories.base.errors import UserError
from ff_memories.inputs import download, fetch, registry
from ff_memories.inputs.unpack import unpack

TEXT = {
    "wiki.train.tokens": " \n = Robert = \n \n A film , by <unk> . \n The 2 @.@ 5 m é . \n",
    "wiki.valid.tokens": " \n = Valid = \n It . \n",
    "wiki.test.tokens": " \n One . \n",
}


def payload(n=3_000_000):
    return random.Random(1).randbytes(n)


@pytest.fixture
def web(tmp_path, monkeypatch):
    """A folder that is served, an empty project to fetch into, and no waiting between attempts."""
    (tmp_path / "web").mkdir()
    (tmp_path / "project").mkdir()
    monkeypatch.chdir(tmp_path / "project")
    monkeypatch.setattr(time, "sleep", lambda seconds: None)
    with serving(tmp_path / "web") as (address, faults, asked):
        yield tmp_path / "web", address, faults, asked


def part(web, content, *paths, **known):
    folder, address, _, _ = web
    (folder / "file.bin").write_bytes(content)
    return registry.Part(name="file.bin", urls=[f"{address}/{p}/file.bin" for p in paths or ("a",)], **known)


def get(wanted, **options):
    return download.download(wanted, Path("got"), wait=0, **options) | {"content": Path("got/file.bin").read_bytes()}


def test_a_run_that_was_stopped_goes_on_from_its_partial_file(web):
    wanted = part(web, payload())
    web[2]["/a/file.bin"] = [("cut", 2_000_000)] * download.ATTEMPTS
    web[2]["/a/file.bin"][1:] = [503] * (download.ATTEMPTS - 1)
    with pytest.raises(UserError, match="every mirror failed"):
        get(wanted)
    web[3].clear()
    assert get(wanted)["content"] == payload()
    assert web[3][0][1] is not None and len(web[3]) == 1


def test_a_file_that_changed_between_two_tries_is_no_mixture_of_both(web):
    wanted = part(web, payload())
    web[2]["/a/file.bin"] = [("cut", 2_000_000), *[503] * (download.ATTEMPTS - 1)]
    with pytest.raises(UserError, match="every mirror failed"):
        get(wanted)
    part(web, payload()[::-1])
    assert get(wanted)["content"] == payload()[::-1]


@pytest.mark.parametrize("fault", [404, ("wrong",)])
def test_mirrors_are_tried_in_order(web, fault):
    wanted = part(web, payload(), "a", "b", sha256=hashlib.sha256(payload()).hexdigest())
    web[2]["/a/file.bin"] = [fault] * 9
    got = get(wanted)
    assert got["url"] == wanted.urls[1]
    assert got["content"] == payload()


def test_passing_faults_are_tried_again_and_lasting_ones_told(web):
    web[2]["/a/file.bin"] = [500, 429]
    get(part(web, payload()))
    web[2]["/a/file.bin"] = [503] * 99
    Path("got/file.bin").unlink()
    with pytest.raises(UserError, match=r"(?s)every mirror failed.*HTTP 503.*download the file yourself to got/file"):
        get(part(web, payload(), sha256="a" * 64))
    assert not Path("got/file.bin").exists()


@pytest.mark.parametrize("fault, left", [(None, 2_500_000), (None, 3_000_001), (("other range",), 1000)])
def test_what_cannot_be_continued_is_begun_again(web, fault, left):
    """A beginning that is taken up, one longer than the file is now, and a server that answers with another part."""
    wanted = part(web, payload(), sha256=hashlib.sha256(payload()).hexdigest())
    Path("got").mkdir()
    Path("got/file.bin.partial").write_bytes((payload() + b"x")[:left])
    web[2]["/a/file.bin"] = [fault]
    assert get(wanted)["content"] == payload()
    began_again = [asked for _, asked in web[3]][1:]
    assert began_again == ([] if (fault, left) == (None, 2_500_000) else [None])


def test_an_answer_of_unknown_length_is_bounded_and_taken_up_where_it_ended(web):
    web[2]["/a/file.bin"] = [("no length", 70_000)]
    assert get(part(web, payload(), bytes=len(payload())))["content"] == payload()
    assert [asked for _, asked in web[3]] == [None, "bytes=70000-"]
    Path("got/file.bin").unlink()
    web[2]["/a/file.bin"] = [("no length", 500_000)]
    with pytest.raises(UserError, match="more than 100,000 bytes"):
        get(part(web, payload(), at_most=100_000))
    assert Path("got/file.bin.partial").stat().st_size == 0
    with pytest.raises(UserError, match="bytes"):
        get(part(web, payload(), bytes=2_999_999))
    assert not Path("got/file.bin").exists()


def test_a_file_put_there_by_hand_is_taken_if_its_hash_is_right(web):
    wanted = part(web, payload(), sha256=hashlib.sha256(payload()).hexdigest())
    Path("got").mkdir()
    Path("got/file.bin").write_bytes(payload())
    assert get(wanted)["url"] == "file already there"
    Path("got/file.bin").write_bytes(b"other")
    with pytest.raises(UserError, match="expected"):
        get(wanted)


def zip_of(path, files):
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, text in files.items():
            archive.writestr(name, text)


def tar_of(path, files):
    with tarfile.open(path, "w:bz2") as archive:
        for name, data in files.items():
            info = tarfile.TarInfo(name)
            info.size = len(data)
            archive.addfile(info, io.BytesIO(data))


@pytest.mark.parametrize("name", ["../model.pt", "/tmp/model.pt", "..\\model.pt"])
@pytest.mark.parametrize("kind", ["zip", "tar.bz2"])
def test_names_that_lead_out_of_the_folder_are_refused(tmp_path, name, kind):
    path = tmp_path / "archive"
    (zip_of if kind == "zip" else tar_of)(path, {name: b"x"})
    with pytest.raises(UserError, match="leads out"):
        unpack(path, kind, ["model.pt"], tmp_path / "in" / "out", 100)
    assert [p.name for p in tmp_path.rglob("*") if p != path] in ([], ["in"])


@pytest.mark.parametrize("kind", ["zip", "tar.bz2"])
def test_an_archive_that_grows_too_large_or_is_cut_short_leaves_nothing(tmp_path, kind):
    path, out = tmp_path / "archive", tmp_path / "out"
    (zip_of if kind == "zip" else tar_of)(path, {"d/model.pt": bytes(10**6), "d/dict.txt": b"x"})
    with pytest.raises(UserError, match="unpacks to more than"):
        unpack(path, kind, ["model.pt", "dict.txt"], out, 1000)
    path.write_bytes(path.read_bytes()[:-40])
    with pytest.raises(UserError, match="damaged"):
        unpack(path, kind, ["model.pt", "dict.txt"], out, 10**7)
    with pytest.raises(UserError, match=r"damaged|holds no other.txt"):
        unpack(path, kind, ["other.txt"], out, 10**7)
    assert not out.exists()


def test_of_a_wheel_the_folder_of_a_pipeline_is_taken_whole(tmp_path):
    path, out = tmp_path / "en.whl", tmp_path / "out"
    files = {"config.cfg": "a", "vocab/b.json": "b"}
    zip_of(path, {f"en/en-1/{name}": text for name, text in files.items()} | {"en/__init__.py": "raise SystemExit"})
    unpack(path, "zip", ["config.cfg"], out, 100, "en/en-1")
    assert {p.relative_to(out).as_posix(): p.read_text() for p in out.rglob("*.*")} == files


def own_registry(web):
    """A registry of one text: a zip at one place, parquet at another."""
    folder, address, _, _ = web
    zip_of(folder / "wt.zip", {f"wikitext/{name}": text for name, text in TEXT.items()})
    for name, text in TEXT.items():  # as the parquet mirror has it: blank lines are empty rows
        rows = [row if row.strip() else "" for row in text.splitlines(keepends=True)]
        pl.DataFrame({"text": rows}).write_parquet(folder / f"{name}.parquet")
    parts = "".join(
        f'{{ split = "{split}", name = "{name}.parquet", urls = ["{address}/p/{name}.parquet"] }}, '
        for split, name in zip(("train", "validation", "test"), TEXT, strict=True)
    )
    text = f"""
[tiny]
kind = "text"
folder = "data/tiny"
files = {{ train = "wiki.train.tokens", validation = "wiki.valid.tokens", test = "wiki.test.tokens" }}
unpacked_bytes = 1000
licence = "none"
citation = "nobody"
[[tiny.downloads]]
format = "zip"
[[tiny.downloads.parts]]
name = "wt.zip"
urls = ["{address}/z/wt.zip"]
[[tiny.downloads]]
format = "parquet"
parts = [{parts}]
"""
    Path("registry.toml").write_text(text)
    registry.sources.cache_clear()
    return ["--registry", "registry.toml"]


def texts():
    return {name: Path("data/tiny", name).read_text(encoding="utf-8") for name in TEXT}


def test_a_source_is_fetched_unpacked_and_recorded(web):
    assert run("fetch", "tiny", *own_registry(web)) == 0
    assert texts() == TEXT
    lock = json.loads(fetch.LOCK.read_text())
    assert lock["wt.zip"]["sha256"] == hashlib.sha256((web[0] / "wt.zip").read_bytes()).hexdigest()
    assert not any(fetch.DOWNLOADS.iterdir())


def test_the_first_download_is_trusted_and_another_one_later_refused(web, capsys):
    options = own_registry(web)
    assert run("fetch", "tiny", *options) == 0
    shutil.rmtree("data/tiny")
    zip_of(web[0] / "wt.zip", {f"wikitext/{name}": "changed\n" for name in TEXT})
    for name in TEXT:
        (web[0] / f"{name}.parquet").unlink()
    assert run("fetch", "tiny", *options) == 2
    assert "wrong content" in capsys.readouterr().err
    assert not Path("data/tiny").exists()


def test_offline_says_what_is_missing_and_takes_what_was_put_there(web, capsys):
    options = own_registry(web)
    assert run("fetch", "tiny", "--offline", *options) == 2
    assert "data/tiny/wiki.train.tokens" in capsys.readouterr().err
    assert web[3] == []
    fetch.DOWNLOADS.mkdir(parents=True)
    shutil.copy(web[0] / "wt.zip", fetch.DOWNLOADS)
    assert run("fetch", "tiny", "--offline", *options) == 0
    assert texts() == TEXT and web[3] == []
    shutil.rmtree("data/tiny")
    for name in TEXT:  # the other way to have it
        shutil.copy(web[0] / f"{name}.parquet", fetch.DOWNLOADS)
    assert run("fetch", "tiny", "--offline", *options) == 0
    assert texts() == TEXT and web[3] == []


def test_without_a_name_nothing_is_fetched_and_all_sources_can_be_listed(web, capsys):
    assert run("fetch") == 2 and "no source given" in capsys.readouterr().err
    options = own_registry(web)
    assert run("fetch", "--list", *options) == 0
    assert "tiny\ttext\tdata/tiny\tmissing\tnone\tnobody\n" in capsys.readouterr().out
    assert run("fetch", "tiny", *options) == 0 and run("fetch", "--list", *options) == 0
    assert "tiny\ttext\tdata/tiny\tpresent" in capsys.readouterr().out
    assert run("fetch", "tinny") == 2 and "unknown source 'tinny'; expected one of" in capsys.readouterr().err


def test_the_registry_that_comes_with_it_names_what_the_paper_needs():
    for name in ("wikitext-103", "wikitext-2", "adaptive_lm_wiki103.v2", "en_core_web_sm"):
        source = registry.source(name)
        assert source.licence and source.citation and source.downloads
        parts = [part for way in source.downloads for part in way.parts]
        assert all(part.sha256 or part.at_most for part in parts)
        assert all(url.startswith("https://") for part in parts for url in part.urls)
