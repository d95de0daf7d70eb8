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
from ff_memories.base.text import SafeStream
from ff_memories.corpus import store
from ff_memories.inputs.fetching.unpack import unpack
from ff_memories.model.files import checkpoint, converted

pytestmark = pytest.mark.more

TYPES = words(44)


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
    persistent = b"\x80\x02(X\x06\x00\x00\x00modulecos\nsystem\nX\x03\x00\x00\x00a.pyX\x01\x00\x00\x00bt\x51."
    for program in (*PROGRAMS.values(), persistent, b"\x80\x02}X\x05\x00\x00\x00modelX\x04\x00\x00\x00evil\x51s."):
        write(folder / "model.pt", program)
        refused(folder / "model.pt")


PLACES: dict[str, Callable[[Any], dict[Any, Any]]] = {
    "deep in the legacy options": lambda evil: {"args": argparse.Namespace(a=[{"b": (argparse.Namespace(c=evil),)}])},
    "in the current options": lambda evil: {"cfg": {"model": {"arch": "transformer_lm", "activation_fn": evil}}},
    "as a key of a dictionary": lambda evil: {"model": {}, evil: 1},
    "in an ordered dictionary": lambda evil: {"model": OrderedDict(weight=evil)},
    "in the optimizer's state": lambda evil: {"model": {}, "last_optimizer_state": {"state": {0: {"step": evil}}}},
}


@pytest.mark.parametrize("is_zip", [True, False])
def test_code_nested_anywhere_is_not_run_whatever_the_environment_says(folder, monkeypatch, is_zip):
    monkeypatch.setenv("TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD", "1")
    for place in PLACES.values():
        torch.save({"model": {}, **place(Touch())}, "model.pt", _use_new_zipfile_serialization=is_zip)
        assert "could run code" in refused(folder / "model.pt")


def test_formats_that_torch_cannot_read_without_code_are_refused(folder):
    class Script(torch.nn.Module):
        def forward(self, x: torch.Tensor):
            return x

    torch.jit.script(Script()).save("model.pt")
    refused(folder / "model.pt")
    with tarfile.open("model.pt", "w") as archive:  # torch's oldest format
        for name in ("sys_info", "pickle", "storages", "tensors"):
            info = tarfile.TarInfo(name)
            content = pickle.dumps(Touch(), protocol=2)
            info.size = len(content)
            archive.addfile(info, io.BytesIO(content))
    refused(folder / "model.pt")


# -- memory ------------------------------------------------------------------------------------------------------------

READ = """
import json, resource, sys
from pathlib import Path
from ff_memories.base.errors import UserError
from ff_memories.inputs.fetching.unpack import unpack
from ff_memories.model.files import checkpoint
said, before = [], resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
for path in sys.argv[1:]:
    kind = {".zip": "zip", ".bz2": "tar.bz2"}.get(Path(path).suffix)
    try:
        unpack(Path(path), kind, ["model.pt"], Path("out"), 10**6) if kind else checkpoint.read(path)
        said.append("")
    except UserError as error:
        said.append(str(error))
print(json.dumps([said, (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024]))
"""
MOST = 200  # MB that looking at hostile files of a few kilobytes may take


def rewrite(path, change):
    content = checkpoint.load_pickle(path)
    change(content)
    torch.save(content, path)


def changed(path, change):
    write_checkpoint(path, TYPES)
    rewrite(path, change)


def overlapping(path):
    """Every entry of the zip's list is the same place in the file: small on the disk, large once read."""
    zipped(path, b"\x80\x02}.", [(f"data/{n}", bytes([n]) * 4000) for n in range(2)])
    with zipfile.ZipFile(path, "a") as archive:
        for n in range(2, 60):
            archive.filelist.append(info := zipfile.ZipInfo(f"archive/data/{n}"))
            first = archive.getinfo("archive/data/0")
            info.header_offset, info.file_size, info.compress_size = first.header_offset, 4000, 4000
            info.CRC = first.CRC
            archive.NameToInfo[info.filename] = info
        archive._didModify = True  # type: ignore[attr-defined]


def huge_storage(path, is_zip):
    torch.save({"model": {"a": torch.zeros(7)}}, path, _use_new_zipfile_serialization=is_zip)
    content = path.read_bytes()
    if is_zip:
        with zipfile.ZipFile(path) as archive:
            content = archive.read(f"{path.stem}/data.pkl")
    assert content.count(b"q\x08K\x07") == 1
    content = content.replace(b"q\x08K\x07", b"q\x08\x8a\x06" + (10**13).to_bytes(6, "little"))  # LONG1 for the 7
    zipped(path, content, [("data/0", bytes(28))]) if is_zip else path.write_bytes(content)


def endless():
    """Forty lists, each holding the one before twice: small as a pickle, endless as text."""
    nested = ["x" * 1000]
    for _ in range(40):
        nested = [nested, nested]
    return nested


class Zeros(io.RawIOBase):
    def __init__(self, size):
        self.left = size

    def read(self, n=-1):
        n = min(self.left, n)
        self.left -= n
        return bytes(n)


def tar_bomb(path):
    with tarfile.open(path, "w:bz2") as archive:
        info = tarfile.TarInfo("unwanted")
        info.size = 3 * 10**8
        archive.addfile(info, Zeros(info.size))
        archive.addfile(tarfile.TarInfo("model.pt"), io.BytesIO())


def zip_bomb(path):
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive, archive.open("model.pt", "w") as file:
        for _ in range(300):
            file.write(bytes(10**6))


FC1 = "decoder.layers.0.fc1.weight"
BUFFER = b"\x80\x02cbuiltins\nbytearray\n\x8a\x06" + (10**13).to_bytes(6, "little") + b"\x85R."
LARGE: dict[str, tuple[Callable[[Any], object], str]] = {  # by file: what writes it, and what is said of it
    "bomb.pt": (
        lambda p: zipped(p, pickle.dumps({"model": {}}, 2), [("data/0", bytes(4 * 10**8))], zipfile.ZIP_DEFLATED),
        "compressed",
    ),
    "unfolding.pt": (
        lambda p: zipped(p, b"\x80\x02X\xff\xff\xff\x70" + bytes(4 * 10**8), compression=zipfile.ZIP_DEFLATED),
        "compressed",
    ),
    "overlapping.pt": (overlapping, "more bytes than the file"),
    "expanded.pt": (lambda p: changed(p, lambda c: c["model"].update({FC1: torch.ones(1).expand(10**6, 16)})), FC1),
    "storage.pt": (lambda p: huge_storage(p, True), ""),
    "old-storage.pt": (lambda p: huge_storage(p, False), ""),
    "buffer.pt": (lambda p: zipped(p, BUFFER), ""),
    "old-buffer.pt": (lambda p: legacy(p, BUFFER), ""),
    "nested.pt": (lambda p: zipped(p, b"\x80\x02" + b"]" * 200_000 + b"a" * 199_999 + b"."), ""),
    "endless-arch.pt": (lambda p: changed(p, lambda c: c["args"].__dict__.update(arch=endless())), ""),
    "endless-layers.pt": (lambda p: changed(p, lambda c: c["args"].__dict__.update(decoder_layers=endless())), ""),
    "bomb.zip": (zip_bomb, "unpacks to more than"),
    "bomb.tar.bz2": (tar_bomb, "unpacks to more than"),
}


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
    assert not (folder / "out").exists()


TENSORS = {
    "sparse": lambda: torch.sparse_coo_tensor(torch.zeros(2, 0).long(), torch.zeros(0), (24, 16)),
    "on the meta device": lambda: torch.zeros(24, 16, device="meta"),
    "of complex numbers": lambda: torch.zeros(24, 16, dtype=torch.complex64),
    "of whole numbers": lambda: torch.zeros(24, 16, dtype=torch.int64),
    "quantised": lambda: torch.quantize_per_tensor(torch.zeros(24, 16), 0.1, 0, torch.qint8),
    "no tensor": lambda: "weights",
}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("what", TENSORS)
def test_weights_of_another_kind_are_refused_by_name(folder, what):
    write_checkpoint("model.pt", TYPES)
    content = checkpoint.load_pickle("model.pt")
    content["model"][FC1] = TENSORS[what]()
    torch.save(content, "model.pt")
    assert FC1 in refused(folder / "model.pt")


def test_what_a_checkpoint_says_of_itself_cannot_steer_a_terminal(folder, capsys):
    changed("model.pt", lambda c: setattr(c["args"], "arch", "\x1b[2J\x1b]0;evil\x07\u202eml"))
    with pytest.raises(UserError) as error:
        checkpoint.read("model.pt")
    print(error.value, file=SafeStream(sys.stderr))
    said = capsys.readouterr().err
    assert "[U+001B]" in said and "[U+202E]" in said and "\x1b" not in said


# -- the converted model ---------------------------------------------------------------------------------------------


def safetensors(header, data=b"", length=None):
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return struct.pack("<Q", len(text) if length is None else length) + text + data


def tensor(shape, start, end):
    return {"dtype": "F32", "shape": shape, "data_offsets": [start, end]}


WEIGHTS = {
    "a header longer than the file": safetensors(b"{}", length=2**40),
    "no JSON": safetensors(b"{" * 10**6),
    "overlapping tensors": safetensors({"a": tensor([4], 0, 16), "b": tensor([4], 8, 24)}, bytes(24)),
    "data beyond the file": safetensors({"a": tensor([2**40], 0, 2**42)}, bytes(16)),
    "a shape that overflows": safetensors({"a": tensor([2**33, 2**33], 0, 4)}, bytes(4)),
    "nothing": b"",
}
DESCRIPTIONS: dict[str, object] = {
    "a list": b"[]",
    "nested beyond the stack": b"[" * 100_000,
    "a number beyond all": b'{"layers": 1e999}',
    "no UTF-8": b"\xff\xfe{}",
    "an alias of nothing": {"aliases": {"input.0.embedding": "nowhere"}},
    "a billion layers": {"layers": 10**9},
    "no heads": {"heads": 0},
    "cutoffs that fall": {"output_cutoffs": [5, 4, 1]},
}


def test_a_converted_model_that_is_not_what_it_says_is_refused_by_name(folder):
    write_checkpoint("model.pt", TYPES)
    convert("model.pt", "model.safetensors", "model.json")
    for content in WEIGHTS.values():
        (folder / "evil.safetensors").write_bytes(content)
        with pytest.raises(UserError, match=r"evil\.safetensors: not a readable model"):
            converted.load("evil.safetensors", "model.json")
        with pytest.raises(UserError, match=r"evil\.safetensors: cannot be read as a corpus"):
            store.read("evil.safetensors")
    plain = json.loads((folder / "model.json").read_text())
    for said in DESCRIPTIONS.values():
        (folder / "evil.json").write_bytes(said if isinstance(said, bytes) else json.dumps(plain | said).encode())
        with pytest.raises(UserError, match="not a readable model"):
            converted.load("model.safetensors", "evil.json")


# -- archives ----------------------------------------------------------------------------------------------------------

LINKS: list[dict[str, Any]] = [
    {"type": tarfile.SYMTYPE, "linkname": "/etc/passwd"},
    {"type": tarfile.LNKTYPE, "linkname": "../../secret"},
    {"type": tarfile.FIFOTYPE},
    {"type": tarfile.CHRTYPE, "devmajor": 1, "devminor": 3},
    {"type": b"Z", "size": 0},
]


@pytest.mark.parametrize("special", LINKS)
def test_of_a_tar_only_files_are_taken(folder, special):
    with tarfile.open("a.tar.bz2", "w:bz2") as archive:
        info = tarfile.TarInfo("d/model.pt")
        for key, value in special.items():
            setattr(info, key, value)
        archive.addfile(info, io.BytesIO())
    with pytest.raises(UserError, match=r"does not contain model\.pt"):
        unpack(folder / "a.tar.bz2", "tar.bz2", ["model.pt"], folder / "out", 100)
    assert not (folder / "out").exists()


def test_an_archive_with_a_password_is_refused(folder):
    with zipfile.ZipFile("a.zip", "w") as archive:
        archive.writestr("model.pt", b"x")
    content = bytearray((folder / "a.zip").read_bytes())
    for header in (b"PK\x03\x04", b"PK\x01\x02"):
        content[content.index(header) + (6 if header[2] == 3 else 8)] |= 1
    (folder / "a.zip").write_bytes(content)
    with pytest.raises(UserError, match="damaged"):
        unpack(folder / "a.zip", "zip", ["model.pt"], folder / "out", 100)
