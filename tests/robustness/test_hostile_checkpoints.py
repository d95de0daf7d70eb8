"""Checkpoints and archives made to do harm: refused by name, nothing executed, memory bounded."""

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
from factories import convert, words, write_checkpoint, write_dictionary
from hostile import PROGRAMS, Touch, legacy, zipped

from ff_memories.base.errors import UserError
from ff_memories.base.text import SafeStream
from ff_memories.cli import main
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
@pytest.mark.parametrize("program", PROGRAMS)
def test_no_opcode_that_could_run_code_is_followed(folder, program, write):
    write(folder / "model.pt", PROGRAMS[program])
    refused(folder / "model.pt")


PLACES: dict[str, Callable[[Any], dict[Any, Any]]] = {
    "in the legacy options": lambda evil: {"args": argparse.Namespace(arch="transformer_lm", criterion=evil)},
    "deep in the legacy options": lambda evil: {"args": argparse.Namespace(a=[{"b": (argparse.Namespace(c=evil),)}])},
    "in the current options": lambda evil: {"cfg": {"model": {"arch": "transformer_lm", "activation_fn": evil}}},
    "as a key of a dictionary": lambda evil: {"model": {}, evil: 1},
    "in an ordered dictionary": lambda evil: {"model": OrderedDict(weight=evil)},
    "as an attribute of the state": lambda evil: {"model": with_metadata(evil)},
    "in the optimizer's state": lambda evil: {"model": {}, "last_optimizer_state": {"state": {0: {"step": evil}}}},
    "in the meters": lambda evil: {"model": {}, "extra_state": {"train_meters": OrderedDict(loss=evil)}},
}


def with_metadata(evil):
    state: Any = OrderedDict()
    state._metadata = OrderedDict(version=evil)
    return state


@pytest.mark.parametrize("is_zip", [True, False])
@pytest.mark.parametrize("place", PLACES)
def test_code_nested_anywhere_is_not_run(folder, place, is_zip):
    torch.save({"model": {}, **PLACES[place](Touch())}, "model.pt", _use_new_zipfile_serialization=is_zip)
    assert "could run code" in refused(folder / "model.pt")


def test_no_environment_variable_turns_the_refusal_off(folder, monkeypatch):
    monkeypatch.setenv("TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD", "1")
    torch.save({"model": {}, "extra": Touch()}, "model.pt")
    assert "could run code" in refused(folder / "model.pt")


def test_a_persistent_id_of_our_own_is_no_way_in(folder):
    persistent = b"\x80\x02(X\x06\x00\x00\x00modulecos\nsystem\nX\x03\x00\x00\x00a.pyX\x01\x00\x00\x00bt\x51."
    for write in (zipped, legacy):
        write(folder / "model.pt", persistent)
        refused(folder / "model.pt")
        write(folder / "model.pt", b"\x80\x02}X\x05\x00\x00\x00modelX\x04\x00\x00\x00evil\x51s.")
        refused(folder / "model.pt")


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
from ff_memories.base.errors import UserError
from ff_memories.model.files import checkpoint
peak = lambda: resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
before = peak()
try:
    {call}
except UserError as error:
    said = str(error)
else:
    said = None
print(json.dumps([said, peak() - before]))
"""
MOST = 200  # MB that looking at a hostile file of a few kilobytes may take


def read_apart(path, call="checkpoint.read(sys.argv[1])"):
    """Read a file in a process of its own; return what it says of it, once it took little memory and time."""
    done = subprocess.run(
        [sys.executable, "-c", READ.format(call=call), str(path)], text=True, capture_output=True, timeout=60
    )
    assert done.returncode == 0, done.stderr[-2000:]
    said, grown = json.loads(done.stdout)
    assert said is not None, "read without a word"
    assert str(path) in said and len(said) < 2000
    assert grown < MOST, f"{grown:.0f} MB"
    return said


def rewrite(path, change):
    content = checkpoint.load_pickle(path)
    change(content)
    torch.save(content, path)


def test_a_zip_bomb_is_refused_before_it_is_unpacked(folder):
    pickled = pickle.dumps({"model": {}}, protocol=2)
    bomb = ("data/0", bytes(4 * 10**8))
    zipped("model.pt", pickled, [bomb], zipfile.ZIP_DEFLATED)
    assert os.path.getsize("model.pt") < 1e6
    assert "compressed" in read_apart(folder / "model.pt")


def test_a_pickle_that_unfolds_is_refused(folder):
    zipped("model.pt", b"\x80\x02X\xff\xff\xff\x70" + bytes(4 * 10**8), compression=zipfile.ZIP_DEFLATED)
    assert "compressed" in read_apart(folder / "model.pt")


def test_records_that_overlap_are_refused(folder):
    """Every entry of the zip's list is the same place in the file: small on the disk, large once read."""
    zipped("model.pt", b"\x80\x02}.", [(f"data/{n}", bytes([n]) * 4000) for n in range(2)])
    with zipfile.ZipFile("model.pt", "a") as archive:
        for n in range(2, 60):
            archive.filelist.append(info := zipfile.ZipInfo(f"archive/data/{n}"))
            first = archive.getinfo("archive/data/0")
            info.header_offset, info.file_size, info.compress_size = first.header_offset, 4000, 4000
            info.CRC = first.CRC
            archive.NameToInfo[info.filename] = info
        archive._didModify = True  # type: ignore[attr-defined]
    assert "more bytes than the file" in read_apart(folder / "model.pt")


def test_a_tensor_larger_than_what_is_stored_of_it_is_refused(folder):
    write_checkpoint("model.pt", TYPES)
    rewrite("model.pt", lambda c: c["model"].update(
        {"decoder.layers.0.fc1.weight": torch.ones(1).expand(10**6, 16)}
    ))  # fmt: skip
    assert "decoder.layers.0.fc1.weight" in read_apart(folder / "model.pt")


@pytest.mark.parametrize("is_zip", [True, False])
def test_a_storage_said_to_be_huge_is_refused(folder, is_zip):
    torch.save({"model": {"a": torch.zeros(7)}}, "model.pt", _use_new_zipfile_serialization=is_zip)
    huge = b"\x8a\x06" + (10**13).to_bytes(6, "little")  # LONG1 in place of the 7
    content = (folder / "model.pt").read_bytes()
    if is_zip:
        with zipfile.ZipFile("model.pt") as archive:
            content = archive.read("model/data.pkl")
    assert content.count(b"q\x08K\x07") == 1
    content = content.replace(b"q\x08K\x07", b"q\x08" + huge)
    if is_zip:
        zipped("model.pt", content, [("data/0", bytes(28))])
    else:
        (folder / "model.pt").write_bytes(content)
    read_apart(folder / "model.pt")


@pytest.mark.parametrize("write", [zipped, legacy])
def test_a_buffer_said_to_be_huge_takes_no_memory(folder, write):
    write("model.pt", b"\x80\x02cbuiltins\nbytearray\n\x8a\x06" + (10**13).to_bytes(6, "little") + b"\x85R.")
    read_apart(folder / "model.pt")


def test_options_that_unfold_when_shown_are_not_shown(folder):
    """Forty lists, each holding the one before twice: small as a pickle, endless as text."""
    nested = ["x" * 1000]
    for _ in range(40):
        nested = [nested, nested]
    for options in ({"arch": nested}, {"arch": "transformer_lm", "activation_fn": nested}, {"decoder_layers": nested}):
        write_checkpoint("model.pt", TYPES)
        rewrite("model.pt", lambda c, o=options: c["args"].__dict__.update(o))
        read_apart(folder / "model.pt")


def test_nesting_deeper_than_the_stack_is_refused(folder):
    zipped("model.pt", b"\x80\x02" + b"]" * 200_000 + b"a" * 199_999 + b".")
    read_apart(folder / "model.pt")


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
    content["model"]["decoder.layers.0.fc1.weight"] = TENSORS[what]()
    torch.save(content, "model.pt")
    assert "decoder.layers.0.fc1.weight" in refused(folder / "model.pt")


def test_what_a_checkpoint_says_of_itself_cannot_steer_a_terminal(folder, capsys):
    write_checkpoint("model.pt", TYPES)
    rewrite("model.pt", lambda c: setattr(c["args"], "arch", "\x1b[2J\x1b]0;evil\x07\u202eml"))
    with pytest.raises(UserError) as error:
        checkpoint.read("model.pt")
    print(error.value, file=SafeStream(sys.stderr))
    said = capsys.readouterr().err
    assert "[U+001B]" in said and "[U+202E]" in said and "\x1b" not in said


# -- safetensors -------------------------------------------------------------------------------------------------------


def safetensors(header, data=b"", length=None):
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return struct.pack("<Q", len(text) if length is None else length) + text + data


def tensor(shape, start, end, kind="F32"):
    return {"dtype": kind, "shape": shape, "data_offsets": [start, end]}


SAFETENSORS = {
    "a header longer than the file": safetensors(b"{}", length=2**40),
    "a header longer than memory": safetensors(b"{}", length=2**63 - 1),
    "a header of blanks": safetensors(b" " * 10**6),
    "no JSON": safetensors(b"{" * 10**6),
    "overlapping tensors": safetensors({"a": tensor([4], 0, 16), "b": tensor([4], 8, 24)}, bytes(24)),
    "a hole between tensors": safetensors({"a": tensor([1], 0, 4), "b": tensor([1], 8, 12)}, bytes(12)),
    "data beyond the file": safetensors({"a": tensor([2**40], 0, 2**42)}, bytes(16)),
    "a shape that overflows": safetensors({"a": tensor([2**33, 2**33], 0, 4)}, bytes(4)),
    "a shape that is not its size": safetensors({"a": tensor([1000], 0, 4)}, bytes(4)),
    "offsets that run backwards": safetensors({"a": tensor([1], 4, 0)}, bytes(4)),
    "an unknown type": safetensors({"a": tensor([1], 0, 4, "F99")}, bytes(4)),
    "a tensor without a shape": safetensors({"a": {"dtype": "F32", "data_offsets": [0, 4]}}, bytes(4)),
    "nothing": b"",
}


@pytest.mark.parametrize("fault", SAFETENSORS)
def test_absurd_safetensors_are_refused_by_name(folder, fault):
    write_checkpoint("model.pt", TYPES)
    convert("model.pt", "model.safetensors", "model.json")
    (folder / "evil.safetensors").write_bytes(SAFETENSORS[fault])
    with pytest.raises(UserError, match=r"evil\.safetensors: not a readable model"):
        converted.load("evil.safetensors", "model.json")
    with pytest.raises(UserError, match=r"evil\.safetensors: cannot be read as a corpus"):
        store.read("evil.safetensors")


DESCRIPTIONS: dict[str, str | bytes] = {
    "a list": "[]",
    "numbers that are text": '{"layers": "3"}',
    "nested beyond the stack": "[" * 100_000,
    "a number beyond all": '{"layers": 1e999}',
    "no UTF-8": b"\xff\xfe{}",
}


@pytest.mark.parametrize("fault", DESCRIPTIONS)
def test_absurd_descriptions_are_refused_by_name(folder, fault):
    write_checkpoint("model.pt", TYPES)
    convert("model.pt", "model.safetensors", "model.json")
    content = DESCRIPTIONS[fault]
    (folder / "evil.json").write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(UserError, match="not a readable model"):
        converted.load("model.safetensors", "evil.json")


@pytest.mark.parametrize(
    "change",
    [
        {"aliases": []}, {"aliases": {"input.0.embedding": "nowhere"}}, {"layers": -1}, {"layers": 10**9},
        {"heads": 0}, {"input_cutoffs": 3}, {"output_cutoffs": [5, 4, 1]}, {"vocab": 10**12}, {"embedding_scale": None},
    ],
)  # fmt: skip
def test_a_description_that_is_not_the_weights_is_refused(folder, change):
    write_checkpoint("model.pt", TYPES)
    convert("model.pt", "model.safetensors", "model.json")
    plain = json.loads((folder / "model.json").read_text()) | change
    (folder / "model.json").write_text(json.dumps(plain))
    with pytest.raises(UserError, match="not a readable model"):
        converted.load("model.safetensors", "model.json")


# -- archives ----------------------------------------------------------------------------------------------------------

KINDS: dict[str, dict[str, Any]] = {
    "a symbolic link": {"type": tarfile.SYMTYPE, "linkname": "/etc/passwd"},
    "a symbolic link within": {"type": tarfile.SYMTYPE, "linkname": "dict.txt"},
    "a hard link": {"type": tarfile.LNKTYPE, "linkname": "../../secret"},
    "a named pipe": {"type": tarfile.FIFOTYPE},
    "a character device": {"type": tarfile.CHRTYPE, "devmajor": 1, "devminor": 3},
    "a block device": {"type": tarfile.BLKTYPE, "devmajor": 8, "devminor": 0},
    "an unknown kind": {"type": b"Z"},
}


@pytest.mark.parametrize("kind", KINDS)
def test_a_tar_of_anything_but_files_and_folders_is_refused(folder, kind):
    with tarfile.open("a.tar.bz2", "w:bz2") as archive:
        for name, special in (("d/other", KINDS[kind]), ("d/model.pt", {})):
            info = tarfile.TarInfo(name)
            for key, value in special.items():
                setattr(info, key, value)
            archive.addfile(info, io.BytesIO())
    with pytest.raises(UserError, match="link or a device"):
        unpack(folder / "a.tar.bz2", "tar.bz2", ["model.pt"], folder / "out", 100)
    assert not (folder / "out").exists()


def test_archives_that_unfold_take_neither_memory_nor_disk(folder):
    with zipfile.ZipFile("bomb.zip", "w", zipfile.ZIP_DEFLATED) as archive, archive.open("model.pt", "w") as file:
        for _ in range(300):
            file.write(bytes(10**6))
    with tarfile.open("bomb.tar.bz2", "w:bz2") as archive:
        info = tarfile.TarInfo("unwanted")
        info.size = 3 * 10**8
        archive.addfile(info, Zeros(info.size))
        archive.addfile(tarfile.TarInfo("model.pt"), io.BytesIO())
    call = "from pathlib import Path; from ff_memories.inputs.fetching.unpack import unpack; p = Path(sys.argv[1]); "
    call += "unpack(p, p.suffixes[-2:] == ['.tar', '.bz2'] and 'tar.bz2' or 'zip', ['model.pt'], Path('out'), 10**6)"
    for name in ("bomb.zip", "bomb.tar.bz2"):
        assert "unpacks to more than" in read_apart(folder / name, call)
        assert not (folder / "out").exists()


class Zeros(io.RawIOBase):
    def __init__(self, size):
        self.left = size

    def read(self, n=-1):
        n = min(self.left, n)
        self.left -= n
        return bytes(n)


def test_an_archive_of_too_many_files_is_refused(folder):
    with zipfile.ZipFile("many.zip", "w") as archive:
        for n in range(20_000):
            archive.writestr(f"d/{n}", b"")
        archive.writestr("d/model.pt", b"x")
    unpack(folder / "many.zip", "zip", ["model.pt"], folder / "out", 100)
    assert [p.name for p in (folder / "out").iterdir()] == ["model.pt"]
    with pytest.raises(UserError, match="more than 10,000 files"):
        unpack(folder / "many.zip", "zip", [], folder / "all", 100, inside="d")
    assert not (folder / "all").exists()


def test_an_archive_with_a_password_is_refused(folder):
    with zipfile.ZipFile("a.zip", "w") as archive:
        archive.writestr("model.pt", b"x")
    content = bytearray((folder / "a.zip").read_bytes())
    for header in (b"PK\x03\x04", b"PK\x01\x02"):
        content[content.index(header) + (6 if header[2] == 3 else 8)] |= 1
    (folder / "a.zip").write_bytes(content)
    with pytest.raises(UserError, match="damaged"):
        unpack(folder / "a.zip", "zip", ["model.pt"], folder / "out", 100)


def test_a_step_on_a_hostile_checkpoint_ends_with_one_sentence(folder, capsys):
    torch.save({"model": {}, "extra": Touch()}, "model.pt")
    write_dictionary("dict.txt", TYPES)
    with pytest.raises(SystemExit) as end:
        main(
            [
                "step",
                "model",
                "--config",
                '{"model": {"source": null, "checkpoint": "model.pt", "dictionary": "dict.txt"}}',
                "--checkpoint",
                "model.pt",
                "--dictionary",
                "dict.txt",
                "--weights",
                "w",
                "--description",
                "j",
                "--info",
                "c",
            ]
        )
    assert end.value.code == 2
    assert "could run code" in capsys.readouterr().err
    assert sorted(os.listdir()) == ["dict.txt", "model.pt"]
