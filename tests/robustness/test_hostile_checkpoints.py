"""Checkpoints, safetensors and archives made to do harm: refused by name, nothing executed, memory bounded."""

import argparse
import io
import json
import os
import pickle
import struct
import subprocess
import sys
import tarfile
import zipfile
from collections import OrderedDict
from collections.abc import Callable
from typing import Any

import pytest
import torch
from factories import convert, words, write_checkpoint
from hostile import PROGRAMS, Touch, legacy, zipped

from ff_memories.base.errors import UserError
from ff_memories.corpus import store
from ff_memories.inputs.unpack import unpack
from ff_memories.model.files import checkpoint, converted

TYPES = words(44)
FC1 = "decoder.layers.0.fc1.weight"


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """An empty folder to stand in, where whatever is executed leaves a file."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


def refused(path):
    """Return what is said of a checkpoint that must be refused."""
    with pytest.raises(UserError) as error:
        checkpoint.read(path)
    assert str(path) in str(error.value)
    assert not os.path.exists("ran")
    return str(error.value)


@pytest.mark.parametrize("write", [zipped, legacy])
def test_no_opcode_that_could_run_code_is_followed(folder, write):
    for program in PROGRAMS.values():
        write(folder / "model.pt", program)
        refused(folder / "model.pt")


PLACES: list[Callable[[Any], dict[Any, Any]]] = [
    lambda evil: {"args": argparse.Namespace(a=[{"b": (argparse.Namespace(c=evil),)}])},
    lambda evil: {"model": OrderedDict(weight=evil)},
]


@pytest.mark.parametrize("is_zip", [True, False])
def test_code_nested_anywhere_is_not_run_whatever_the_environment_says(folder, monkeypatch, is_zip):
    monkeypatch.setenv("TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD", "1")
    for place in PLACES:
        torch.save({"model": {}, **place(Touch())}, "model.pt", _use_new_zipfile_serialization=is_zip)
        assert "could run code" in refused(folder / "model.pt")


# -- memory ------------------------------------------------------------------------------------------------------------

READ = """
import json, resource, sys
from ff_memories.base.errors import UserError
from ff_memories.model.files import checkpoint
said, before = [], resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
for path in sys.argv[1:]:
    try:
        checkpoint.read(path)
        said.append("")
    except UserError as error:
        said.append(str(error))
print(json.dumps([said, (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024]))
"""
MOST = 200  # MB that looking at hostile files of a few kilobytes may take


def changed(path, change):
    write_checkpoint(path, TYPES)
    content = checkpoint.load_pickle(path)
    change(content)
    torch.save(content, path)


def huge_storage(path):
    torch.save({"model": {"a": torch.zeros(7)}}, path)
    with zipfile.ZipFile(path) as archive:
        content = archive.read(f"{path.stem}/data.pkl")
    content = content.replace(b"q\x08K\x07", b"q\x08\x8a\x06" + (10**13).to_bytes(6, "little"))  # LONG1 for the 7
    zipped(path, content, [("data/0", bytes(28))])


def sparse(content):
    content["model"][FC1] = torch.sparse_coo_tensor(torch.zeros(2, 0).long(), torch.zeros(0), (24, 16))


def endless():
    """Forty lists, each holding the one before twice: small as a pickle, endless as text."""
    nested = ["x" * 1000]
    for _ in range(40):
        nested = [nested, nested]
    return nested


LARGE: dict[str, tuple[Callable[[Any], object], str]] = {  # by file: what writes it, and what is said of it
    "bomb.pt": (
        lambda p: zipped(p, pickle.dumps({"model": {}}, 2), [("data/0", bytes(4 * 10**8))], zipfile.ZIP_DEFLATED),
        "compressed",
    ),
    "expanded.pt": (lambda p: changed(p, lambda c: c["model"].update({FC1: torch.ones(1).expand(10**6, 16)})), FC1),
    "storage.pt": (huge_storage, ""),
    "nested.pt": (lambda p: zipped(p, b"\x80\x02" + b"]" * 200_000 + b"a" * 199_999 + b"."), ""),
    "sparse.pt": (lambda p: changed(p, sparse), FC1),
    "endless-arch.pt": (lambda p: changed(p, lambda c: c["args"].__dict__.update(arch=endless())), ""),
}


@pytest.mark.more
@pytest.mark.filterwarnings("ignore")  # of torch, on sparse tensors
def test_what_unfolds_when_it_is_read_is_refused_in_little_memory(folder):
    paths = [folder / name for name in LARGE]
    for path in paths:
        LARGE[path.name][0](path)
    done = subprocess.run([sys.executable, "-c", READ, *paths], text=True, capture_output=True, timeout=120)
    assert done.returncode == 0, done.stderr[-2000:]
    said, grown = json.loads(done.stdout)
    for path, line in zip(paths, said, strict=True):
        assert str(path) in line and LARGE[path.name][1] in line and len(line) < 2000, path
    assert grown < MOST, f"{grown:.0f} MB"


# -- the converted model ---------------------------------------------------------------------------------------------


LYING = {"a": {"dtype": "F32", "shape": [2**40], "data_offsets": [0, 2**42]}}
DESCRIPTIONS = [{"layers": 10**9}, {"aliases": {"a": "nowhere"}}]


def test_a_converted_model_that_is_not_what_it_says_is_refused_by_name(folder):
    write_checkpoint("model.pt", TYPES)
    convert("model.pt", "model.safetensors", "model.json")
    header = json.dumps(LYING).encode()
    for content in (b"", struct.pack("<Q", 2**40) + b"{}", struct.pack("<Q", len(header)) + header + bytes(16)):
        (folder / "evil.safetensors").write_bytes(content)
        with pytest.raises(UserError, match=r"evil\.safetensors: not a readable model"):
            converted.load("evil.safetensors", "model.json")
        with pytest.raises(UserError, match=r"evil\.safetensors: cannot be read as a corpus"):
            store.read("evil.safetensors")
    plain = json.loads((folder / "model.json").read_text())
    for said in DESCRIPTIONS:
        (folder / "evil.json").write_text(json.dumps(plain | said))
        with pytest.raises(UserError, match=r"evil\.json|not a readable model"):
            converted.load("model.safetensors", "evil.json")


@pytest.mark.parametrize("kind, linkname", [(tarfile.SYMTYPE, "/etc/passwd"), (tarfile.LNKTYPE, "../../secret")])
def test_of_a_tar_only_files_are_taken(folder, kind, linkname):
    with tarfile.open("a.tar.bz2", "w:bz2") as archive:
        info = tarfile.TarInfo("d/model.pt")
        info.type, info.linkname = kind, linkname
        archive.addfile(info, io.BytesIO())
    with pytest.raises(UserError, match=r"does not contain model\.pt"):
        unpack(folder / "a.tar.bz2", "tar.bz2", ["model.pt"], folder / "out", 100)
    assert not (folder / "out").exists()
