"""GGUF files that are cut, lie or hold what is not known: one clear line, in a second and in little memory."""

import struct
import time
import tracemalloc

import gguf
import gguf_files
import pytest

from ff_memories.base.errors import UserError
from ff_memories.inputs import from_gguf
from ff_memories.model.files import gguf_file

pytestmark = pytest.mark.more
HUGE = 1 << 60


@pytest.fixture(scope="module")
def small(tmp_path_factory):
    path = tmp_path_factory.mktemp("gguf") / "m.gguf"
    gguf_files.save(path)
    return path.read_bytes()


def text(value):
    return struct.pack("<Q", len(value)) + value.encode()


def begin(tensors=0, entries=0, *rest):
    return b"GGUF" + struct.pack("<IQQ", 3, tensors, entries) + b"".join(rest)


def array(kind, count, *rest):
    return text("a") + struct.pack("<IIQ", 9, kind, count) + b"".join(rest)


def tensor(name, shape, offset=0):
    return text(name) + struct.pack(f"<I{len(shape)}QIQ", len(shape), *shape, 0, offset)


WRONG = {
    "not a GGUF file": b"GGML" + bytes(100),
    "no tensors, and more than memory": begin(HUGE, 1),
    "a key of 2^60 bytes": begin(0, 1, struct.pack("<Q", HUGE)),
    "a key that is a path": begin(0, 1, text("../../etc/passwd"), struct.pack("<IB", 0, 1)),
    "an array of 2^60 strings": begin(0, 1, array(8, HUGE)),
    "a tensor of 2^120 numbers": begin(1, 0, tensor("output.weight", (HUGE, HUGE))),
    "tensors on each other": begin(2, 0, tensor("a", (32,)), tensor("b", (8,), 32), bytes(400)),
    "an odd alignment": begin(0, 1, text("general.alignment"), struct.pack("<II", 4, 33)),
}


@pytest.mark.parametrize("name", WRONG)
def test_a_file_that_lies_is_refused_at_once(name, tmp_path):
    path, began = tmp_path / "m.gguf", time.monotonic()
    path.write_bytes(WRONG[name])
    with pytest.raises(UserError) as found:
        gguf_file.read(path)
    assert str(path) in str(found.value) and "\n  fix: " in str(found.value) and len(str(found.value)) < 500
    assert time.monotonic() - began < 1


# what is changed: a key and its new value, or a tensor that is left out
CHANGED = {
    "architecture": ("general.architecture", "mamba", "architecture 'mamba'; of GGUF files, llama"),
    "layers": ("llama.block_count", 4, "tensor blk.3.attn_q.weight is missing"),
    "width": ("llama.embedding_length", 2**24, "by the metadata"),
    "scaled": ("llama.rope.scaling.type", "yarn", "rope.scaling.type is yarn, which is not read"),
    "experts": ("llama.expert_count", 8, "expert_count is 8, which is not read"),
    "something new": ("llama.own", "yes", "llama.own is yes, which is not read"),
    "a part": ("split.count", 2, "a part of a model in 2 parts\n  fix: merge them: llama-gguf-split --merge"),
    "token": ("tokenizer.ggml.bos_token_id", 2**31, "none of 300 types"),
    "missing": ("blk.1.ffn_up.weight", None, "tensor blk.1.ffn_up.weight is missing"),
}  # fmt: skip


@pytest.mark.parametrize("case", CHANGED)
def test_what_is_not_known_is_refused_by_its_name(case, small, tmp_path):
    key, value, said = CHANGED[case]
    (tmp_path / "a.gguf").write_bytes(small)
    kind = {int: gguf.GGUFValueType.UINT32, float: gguf.GGUFValueType.FLOAT32}
    keys = {key: (value, kind.get(type(value), gguf.GGUFValueType.STRING), None)} if value is not None else {}
    gguf_files.copy(tmp_path / "a.gguf", tmp_path / "m.gguf", keys, without=key)
    with pytest.raises(UserError, match=said):
        from_gguf.model(gguf_file.read(tmp_path / "m.gguf"))


def test_a_large_file_of_nonsense_takes_a_second_and_200_mb_at_most(tmp_path):
    path, most = tmp_path / "m.gguf", 1 << 20
    path.write_bytes(begin(0, 1, array(8, most, text("") * most)) + bytes(1 << 20))
    tracemalloc.start()
    began = time.monotonic()
    with pytest.raises(UserError, match="architecture"):
        gguf_file.read(path)
    assert time.monotonic() - began < 10 and tracemalloc.get_traced_memory()[1] < 200 << 20
    tracemalloc.stop()
