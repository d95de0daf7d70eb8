"""GGUF files that are cut, lie or hold what is not known: one clear line, in a second and in little memory."""

import struct
import subprocess
import sys
import tempfile
import time
from functools import cache
from pathlib import Path

import gguf
import gguf_files
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from running import ROOT

from ff_memories.base.errors import UserError
from ff_memories.inputs.models import from_gguf
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
    "version 77": begin(version=77),
    "big-endian": begin(version=3 << 24),
    "a key of 2^60 bytes": begin(0, 1, struct.pack("<Q", HUGE)),
    "a key that is a path": begin(0, 1, text("../../etc/passwd"), struct.pack("<IB", 0, 1)),
    "a key twice": begin(0, 2, *2 * [text("a") + struct.pack("<IB", 0, 1)]),
    "a key that is no UTF-8": begin(0, 1, text(b"\xff\xfe")),
    "a value that is no UTF-8": begin(0, 1, text("a"), struct.pack("<I", 8), text(b"\xed\xa0\x80")),
    "a value of no type": begin(0, 1, text("a"), struct.pack("<I", 13)),
    "an array of 2^60": begin(0, 1, array(4, HUGE)),
    "an array of 2^60 strings": begin(0, 1, array(8, HUGE)),
    "arrays in arrays": begin(0, 1, array(9, 1, struct.pack("<IQ", 9, 1) * 10_000)),
    "a tensor that is a path": begin(1, 0, tensor("../x.weight")),
    "a tensor of 2^32 dimensions": begin(1, 0, tensor(dimensions=2**32 - 1)),
    "a tensor of 2^120 numbers": begin(1, 0, tensor(shape=(HUGE, HUGE))),
    "a tensor outside": begin(1, 0, tensor(offset=HUGE)),
    "a tensor of no type": begin(1, 0, tensor(kind=4)),
    "half a block": begin(1, 0, tensor(shape=(33,), kind=2), bytes(100)),
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


def test_a_file_that_was_cut_anywhere_is_refused(small, tmp_path):
    path = tmp_path / "m.gguf"
    for end in [*range(0, 400), *range(400, len(small), 997), len(small) - 1]:
        path.write_bytes(small[:end])
        with pytest.raises(UserError, match=r"not a GGUF file|it was cut"):
            gguf_file.read(path)


# what is changed: a key and its new value, or the name of a tensor and its new one
CHANGED = {
    "architecture": ("general.architecture", "mamba", "architecture 'mamba'; of GGUF files, llama"),
    "tokenizer": ("tokenizer.ggml.model", "rwkv", r"tokenizer 'rwkv'; llama \(SentencePiece\)"),
    "cut": ("tokenizer.ggml.pre", "chatglm-bpe", "known ways to cut text"),
    "layers": ("llama.block_count", 4, "tensor blk.3.attn_norm.weight is missing"),
    "fewer layers": ("llama.block_count", 2, "is none of a llama model of 2 layers"),
    "no layers": ("llama.block_count", 0, "expected a whole number from 1 to 255"),
    "width": ("llama.embedding_length", 2**24, "by the metadata"),
    "heads": ("llama.attention.head_count", 5, "by the metadata"),
    "number": ("llama.rope.freq_base", float("nan"), "expected a finite number"),
    "rope": ("llama.rope.freq_base", -1.0, "expected a number above 0"),
    "scaled": ("llama.rope.scaling.type", "yarn", "rope.scaling.type is yarn, which is not read"),
    "experts": ("llama.expert_count", 8, "expert_count is 8, which is not read"),
    "window": ("llama.attention.sliding_window", 8, "only Gemma's is read"),
    "longrope": ("llama.rope.scaling.attn_factor", 1.19, "rope.scaling.attn_factor is 1.1"),
    "attention": ("llama.attention.scale", 0.5, "llama.attention.scale is 0.5, which is not read"),
    "logits": ("llama.logit_scale", 0.5, "llama.logit_scale is 0.5, which is not read"),
    "embeddings": ("llama.embedding_scale", 12.0, "llama.embedding_scale is 12.0, which is not read"),
    "residual": ("llama.residual_scale", 0.2, "llama.residual_scale is 0.2"),
    "cap": ("llama.attn_logit_softcapping", 50.0, "llama.attn_logit_softcapping is 50.0, which is not read"),
    "temperature": ("llama.attention.temperature_scale", 0.1, "attention.temperature_scale is 0.1"),
    "half a rotation": ("llama.rope.dimension_count", 6, "llama.rope.dimension_count is 6; heads are 12 wide"),
    "wide values": ("llama.attention.value_length", 6, "llama.attention.value_length is 6; heads are 12 wide"),
    "sections": ("llama.rope.dimension_sections", 4, "llama.rope.dimension_sections is 4, which is not read"),
    "something new": ("llama.own", "yes", "llama.own is yes, which is not read"),
    "a part": ("split.count", 2, "a part of a model in 2 parts\n  fix: merge them: llama-gguf-split --merge "),
    "an adapter": ("general.type", "adapter", "holds no model: general.type is adapter"),
    "token": ("tokenizer.ggml.bos_token_id", 2**31, "none of 300 types"),
    "kinds": ("tokenizer.ggml.token_type", [1, 2], "differ in length"),
    "merges": ("tokenizer.ggml.merges", None, "merges is missing"),
    "missing": ("blk.1.ffn_up.weight", None, "tensor blk.1.ffn_up.weight is missing"),
    "factors": ("output.weight", "rope_freqs.weight", "tensor rope_freqs.weight is none of a llama model"),
    "bias": ("output.weight", "blk.0.attn_q.bias", "tensor blk.0.attn_q.bias is none"),
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


def test_what_changes_nothing_is_accepted(small, tmp_path):
    (tmp_path / "a.gguf").write_bytes(small)
    harmless = {"rope.scaling.finetuned": 1, "rope.dimension_count": 12, "expert_count": 0, "logit_scale": 1.0}
    for number, (key, value) in enumerate(harmless.items()):
        rewrite(tmp_path / "a.gguf", tmp_path / f"{number}.gguf", f"llama.{key}", value)
        assert gguf_file.read(tmp_path / f"{number}.gguf").own(key) == value


def test_the_first_part_is_what_merges_a_file(small, tmp_path):
    (tmp_path / "a.gguf").write_bytes(small)
    rewrite(tmp_path / "a.gguf", tmp_path / "m-00002-of-00003.gguf", "split.count", 3)
    with pytest.raises(
        UserError, match=r"--merge \S+/m-00001-of-00003\.gguf merged\.gguf, then --model \./merged\.gguf"
    ):
        gguf_file.read(tmp_path / "m-00002-of-00003.gguf")


def test_a_tokenizer_of_no_sense_is_refused(small, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("a.gguf").write_bytes(small)
    rewrite("a.gguf", "m.gguf", "tokenizer.ggml.merges", ["nothing", "known here"])
    with pytest.raises(UserError, match="no tokenizer can be made of it"):
        from_gguf.folder(Path("m.gguf"))
    assert not list(Path().glob("data/converted/*/*"))


BIG = """
import resource, sys, time
from pathlib import Path
from ff_memories.base.errors import UserError
from ff_memories.model.files import gguf_file
gguf_file._types(Path())
used = lambda: resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
before, began = used(), time.monotonic()
try:
    gguf_file.read(Path(sys.argv[1]))
except UserError as error:
    print(used() - before, time.monotonic() - began, str(error).splitlines()[0])
"""


@pytest.mark.parametrize("kind", ["strings", "numbers", "entries"])
def test_a_large_file_of_nonsense_takes_a_second_and_200_mb_at_most(kind, tmp_path):
    path, most = tmp_path / "m.gguf", 1 << 20
    content = {
        "strings": begin(0, 1, array(8, most, text("") * most)),
        "numbers": begin(0, 1, array(12, most, bytes(8 * most))),
        "entries": begin(0, 4096, *(text(f"k{n}") + struct.pack("<I", 8) + text(bytes(16_000)) for n in range(4096))),
    }[kind]
    path.write_bytes(content + bytes(1 << 20))
    done = subprocess.run([sys.executable, "-c", BIG, path], text=True, capture_output=True, check=True, cwd=ROOT)
    memory, seconds, said = done.stdout.split(" ", 2)
    assert int(memory) < 200 and float(seconds) < 3, done.stdout  # a second, on a machine that does nothing else
    assert "architecture" in said


NUMBERS = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}  # by type
SIZES = st.one_of(st.integers(0, 400), st.sampled_from([2**k + d for k in (8, 16, 31, 32, 60, 63) for d in (-1, 0)]))
TEXTS = st.one_of(st.text(max_size=20), st.sampled_from(["llama", "gpt2", "gemma3", "none", "../x", "<0x41>", ""]))


@st.composite
def value(draw, depth=0):
    """Return a value of metadata with its type in front, as a file has it, or one that says more than it holds."""
    kind = draw(st.sampled_from([*NUMBERS, 8, 9, 13, 2**31]))
    if kind == 9 and depth < 3:
        inner = draw(st.lists(value(depth + 1), max_size=4))
        own = struct.unpack_from("<I", inner[0])[0] if inner else draw(st.sampled_from([*NUMBERS, 8]))
        count = draw(st.sampled_from([len(inner), 0, HUGE]))
        return struct.pack("<IIQ", 9, own, count) + b"".join(one[4:] for one in inner)
    if kind == 8:
        return struct.pack("<I", 8) + text(draw(TEXTS))
    if kind not in NUMBERS:
        return struct.pack("<I", kind) + draw(st.binary(max_size=24))
    form = NUMBERS[kind]
    if form in "fd":
        given = draw(st.floats(width=32))
    else:
        given = draw(SIZES) & ((1 << 8 * struct.calcsize(form) - (form.islower())) - 1)
    return struct.pack(f"<I{form}", kind, given)


@cache
def parts():
    """Return a small file in parts: the name and the bytes of each value of metadata, the tensors' table, the data."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "m.gguf")
        gguf_files.save(path)
        raw, there = path.read_bytes(), gguf.GGUFReader(path)
        own = [field for field in there.fields.values() if not field.name.startswith("GGUF.")]
        ends = [field.offset + sum(part.nbytes for part in field.parts) for field in own]
        values = [(f.name, raw[f.offset + 8 + len(f.name) : end]) for f, end in zip(own, ends, strict=True)]
        first = there.tensors[0].field.offset
        last = there.tensors[-1].field
        table = raw[first : last.offset + sum(part.nbytes for part in last.parts)]
        return len(there.tensors), values, table, raw[there.data_offset :]


@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.data())
def test_metadata_of_any_kind_is_read_or_refused_in_a_line(data):
    """Values are replaced by others of any type, left out, doubled or added, and the table of tensors is spoilt."""
    count, values, table, content = parts()
    for _ in range(data.draw(st.integers(1, 3))):
        at = data.draw(st.integers(0, len(values) - 1))
        name = data.draw(st.sampled_from([values[at][0], values[at][0] + ".x", "general.alignment", ""]))
        more = data.draw(st.sampled_from([[], [(name, data.draw(value()))], 2 * [values[at]]]))
        values = [*values[:at], *more, *values[at + 1 :]]
    if data.draw(st.booleans()):
        at = data.draw(st.integers(0, len(table)))
        table = table[:at] + data.draw(st.binary(max_size=8)) + table[at + data.draw(st.integers(0, 8)) :]
    told = data.draw(st.sampled_from([count, count, count - 1, HUGE]))
    head = begin(told, len(values), *(text(name) + held for name, held in values), table)
    with tempfile.TemporaryDirectory() as folder:
        path, began = Path(folder, "m.gguf"), time.monotonic()
        path.write_bytes(head + bytes(-len(head) % 32) + content)
        try:
            header = gguf_file.read(path)
            from_gguf.config(header)
            from_gguf.tokenizer(header)
        except UserError as error:
            assert str(path) in str(error) and len(str(error)) < 1000
        assert time.monotonic() - began < 5
