"""GGUF files that are cut, lie or hold what is not known: one clear line, in a second and in little memory."""

import struct
import time
import tracemalloc

import gguf
import gguf_files
import pytest

from ff_memories.base.errors import UserError
from ff_memories.model.files import gguf_file

pytestmark = pytest.mark.more
HUGE = 1 << 60


@pytest.fixture(scope="module")
def small(tmp_path_factory):
    path = tmp_path_factory.mktemp("gguf") / "m.gguf"
    gguf_files.save(path)
    return path.read_bytes()


def text(value):
    raw = value if isinstance(value, bytes) else value.encode()
    return struct.pack("<Q", len(raw)) + raw


def begin(tensors=0, entries=0, *rest, version=3):
    return b"GGUF" + struct.pack("<IQQ", version, tensors, entries) + b"".join(rest)


def array(kind, count, *rest):
    return text("a") + struct.pack("<IIQ", 9, kind, count) + b"".join(rest)


def tensor(name="output.weight", shape=(32,), kind=0, offset=0, dimensions=None):
    n = len(shape) if dimensions is None else dimensions
    return text(name) + struct.pack(f"<I{len(shape)}QIQ", n, *shape, kind, offset)


WRONG = {
    "not a GGUF file": b"GGML" + bytes(100),
    "no tensors, and more than memory": begin(HUGE, 1),
    "entries beyond count": begin(0, HUGE),
    "big-endian": begin(version=3 << 24),
    "a key of 2^60 bytes": begin(0, 1, struct.pack("<Q", HUGE)),
    "a key that is a path": begin(0, 1, text("../../etc/passwd"), struct.pack("<IB", 0, 1)),
    "an array of 2^60 strings": begin(0, 1, array(8, HUGE)),
    "a tensor of 2^120 numbers": begin(1, 0, tensor(shape=(HUGE, HUGE))),
    "tensors on each other": begin(2, 0, tensor("a"), tensor("b", (8,), 0, 32), bytes(400)),
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


# what is changed: a key and its new value, or the name of a tensor and its new one
CHANGED = {
    "architecture": ("general.architecture", "mamba", "architecture 'mamba'; of GGUF files, llama"),
    "layers": ("llama.block_count", 4, "tensor blk.3.attn_norm.weight is missing"),
    "width": ("llama.embedding_length", 2**24, "by the metadata"),
    "number": ("llama.rope.freq_base", float("nan"), "expected a finite number"),
    "scaled": ("llama.rope.scaling.type", "yarn", "rope.scaling.type is yarn, which is not read"),
    "experts": ("llama.expert_count", 8, "expert_count is 8, which is not read"),
    "something new": ("llama.own", "yes", "llama.own is yes, which is not read"),
    "a part": ("split.count", 2, "a part of a model in 2 parts\n  fix: merge them: llama-gguf-split --merge "),
    "token": ("tokenizer.ggml.bos_token_id", 2**31, "none of 300 types"),
    "missing": ("blk.1.ffn_up.weight", None, "tensor blk.1.ffn_up.weight is missing"),
}  # fmt: skip


def rewrite(path, out, key, value):
    """Copy a GGUF file with one key or the name of one tensor changed; ``None``: left out."""
    there, kinds = gguf.GGUFReader(path), {int: gguf.GGUFValueType.UINT32, float: gguf.GGUFValueType.FLOAT32}
    made = gguf.GGUFWriter(out, "llama")
    del made.kv_data[0]["general.architecture"]
    own = {f.name: (f.contents(), f.types[0], f.types[-1]) for f in there.fields.values() if "GGUF." not in f.name}
    if key in own or key.startswith(("llama.", "split.", "general.")):
        kind = own.get(key, (0, kinds.get(type(value), gguf.GGUFValueType.STRING), None))
        own[key] = (value, *kind[1:])
    for name, (content, kind, sub) in own.items():
        if content is not None:
            made.add_key_value(name, content, kind, sub)
    for t in there.tensors:
        name = value if t.name == key else t.name
        if name is not None:
            made.add_tensor(name, t.data, raw_dtype=t.tensor_type)
    made.write_header_to_file()
    made.write_kv_data_to_file()
    made.write_tensors_to_file()
    made.close()


@pytest.mark.parametrize("case", CHANGED)
def test_what_is_not_known_is_refused_by_its_name(case, small, tmp_path):
    key, value, said = CHANGED[case]
    (tmp_path / "a.gguf").write_bytes(small)
    rewrite(tmp_path / "a.gguf", tmp_path / "m.gguf", key, value)
    with pytest.raises(UserError, match=said):
        gguf_file.read(tmp_path / "m.gguf")


def test_a_large_file_of_nonsense_takes_a_second_and_200_mb_at_most(tmp_path):
    path, most = tmp_path / "m.gguf", 1 << 20
    path.write_bytes(begin(0, 1, array(8, most, text("") * most)) + bytes(1 << 20))
    tracemalloc.start()
    began = time.monotonic()
    with pytest.raises(UserError, match="architecture"):
        gguf_file.read(path)
    assert time.monotonic() - began < 10 and tracemalloc.get_traced_memory()[1] < 200 << 20
    tracemalloc.stop()
