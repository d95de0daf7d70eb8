"""A GGUF file becomes the model that it holds: weights, config and tokenizer, against `gguf` and `transformers`."""

import json
import random
import shutil
from pathlib import Path

import gguf
import gguf_files
import numpy as np
import pytest
import tiny
import tokenizers
import torch
import transformers
from pipeline import step as run
from running import ROOT, snakemake
from safetensors.torch import load_file

from ff_memories import api
from ff_memories.base.errors import UserError
from ff_memories.inputs import from_gguf, model_folder
from ff_memories.inputs.proved_model import take_in
from ff_memories.model.files import gguf_file

LINES = [line for page in ["README.md", *(f"docs/{p}.md" for p in ("index", "paper", "verify", "own-model"))]
         for line in (ROOT / page).read_text(encoding="utf-8").splitlines() if line.strip()]  # fmt: skip


@pytest.fixture(autouse=True)
def place(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    transformers.utils.logging.disable_progress_bar()


def converted(name="llama", **options):
    made = gguf_files.save("m.gguf", name, **options)
    return made, from_gguf.folder(Path("m.gguf"))


@pytest.mark.parametrize("name", gguf_files.ARCHITECTURES)
def test_a_file_in_float32_is_the_model_it_was_made_of(name):
    """Every weight has the same bits but scales of Gemma's norms, to which the file adds 1; every equation holds."""
    made, folder = converted(name)
    state, wanted = load_file(folder / "model.safetensors"), made.state_dict()
    assert state.keys() == wanted.keys() - ({"lm_head.weight"} if made.config.tie_word_embeddings else set())
    for own, weight in state.items():
        torch.testing.assert_close(weight, wanted[own], rtol=0, atol=2e-7 if "gemma" in name else 0)
    taken = take_in(folder)
    tokens = torch.tensor([[1, 7, 3, 90, 5]])
    torch.testing.assert_close(taken.model(tokens).logits, made(tokens).logits, rtol=1e-5, atol=2e-5)


WHERE_THEY_AGREE = {  # `transformers` takes these sizes from its own defaults, whatever a file says
    "llama": {"head_dim": 16}, "qwen2": {}, "qwen3": {"head_dim": 128},
    "gemma3": {"head_dim": 256, "query_pre_attn_scalar": 256},
    "gpt2": {"n_embd": 64, "n_inner": 256, "n_positions": 1024},
}  # fmt: skip


@pytest.mark.parametrize("name", WHERE_THEY_AGREE)
def test_logits_are_those_of_transformers_own_reader(name):
    wide = {} if name == "gpt2" else {"hidden_size": 64}
    _, folder = converted(name, kind="Q8_0", change=wide | WHERE_THEY_AGREE[name])
    kind, ours = getattr(transformers, tiny.family(name).architecture), take_in(folder).model
    theirs = kind.from_pretrained(".", gguf_file="m.gguf", dtype=torch.float32, attn_implementation="eager").eval()
    assert all(torch.equal(weight, theirs.state_dict()[own]) for own, weight in ours.state_dict().items())
    tokens = torch.tensor([[1, 7, 3, 90, 5]])
    wanted = theirs(tokens).logits.detach()
    torch.testing.assert_close(ours(tokens).logits, wanted, rtol=0, atol=1e-6 * float(wanted.abs().max()))


def types():
    return [name for name, _, _ in gguf_file._types().values()]


@pytest.mark.parametrize("kind", types())
def test_every_type_is_dequantised_as_gguf_does(kind):
    """The blocks are random bytes, some of them no numbers; what `gguf` reads and maps by hand is the same bits."""
    change = {"hidden_size": 256, "intermediate_size": 256, "num_hidden_layers": 1, "head_dim": 64, "vocab_size": 300}
    gguf_files.save("f32.gguf", change=change)
    block, size = gguf.GGML_QUANT_SIZES[gguf.GGMLQuantizationType[kind]]
    rng, dtype = np.random.default_rng(1), {"F32": np.float32, "F16": np.float16, "F64": np.float64}.get(kind)

    def random(t):
        if len(t.shape) == 1:
            return t.data, t.tensor_type
        columns, rows = t.shape.tolist()
        raw = rng.integers(0, 256, (rows, columns // block * size), dtype=np.uint8)
        return raw if dtype is None else raw.view(dtype), gguf.GGMLQuantizationType[kind]

    gguf_files.copy("f32.gguf", "m.gguf", {}, random)
    header, read = gguf_file.read(Path("m.gguf")), {t.name: t for t in gguf.GGUFReader("m.gguf").tensors}
    assert header.bits == [int("".join(filter(str.isdigit, kind.split("_")[0])))]
    for name, there in read.items():
        with np.errstate(all="ignore"):
            wanted = gguf.dequantize(there.data, there.tensor_type)
        if "attn_q." in name or "attn_k." in name:  # by hand: row 2 i + j of a head is its row j * 32 + i
            heads = len(wanted) // 64
            wanted = wanted[[64 * h + 2 * (n % 32) + n // 32 for h in range(heads) for n in range(64)]]
        np.testing.assert_array_equal(from_gguf.tensor(header, name), wanted)


def lines(n):
    """Return lines of this project's pages, and lines of random characters from everywhere."""
    rng = random.Random(1)
    odd = lambda: "".join(
        chr(rng.choice([rng.randrange(0x20, 0x250), rng.randrange(0x590, 0x700), rng.randrange(0x1F300, 0x1F700)]))
        for _ in range(rng.randint(1, 40))
    )
    return [" ".join((rng.choice(LINES) if rng.random() < 0.7 else odd()).split()) for _ in range(n)]


def pieces(words, text):
    """SentencePiece by its definition: merge the neighbours whose union scores highest, the leftmost first."""
    ids = {t: n for n, t in enumerate(words["tokens"])}
    found = list("▁" + text.replace(" ", "▁"))
    score = lambda n: words["scores"][i] if (i := ids.get(found[n] + found[n + 1])) is not None else -np.inf
    while len(found) > 1 and score(best := max(range(len(found) - 1), key=score)) > -np.inf:
        found[best : best + 2] = [found[best] + found[best + 1]]
    return [i for p in found for i in ([ids[p]] if p in ids else [ids[f"<0x{b:02X}>"] for b in p.encode()])]


@pytest.mark.parametrize("kind", ["byte-level", "SentencePiece"])
@pytest.mark.parametrize("n", [500, pytest.param(10_000, marks=pytest.mark.more)])
def test_a_tokenizer_cuts_as_the_one_the_file_was_made_of_and_as_the_method_does(kind, n):
    if kind == "byte-level":
        learned, words = gguf_files.byte_level("\n".join(LINES), 2000)
    else:
        words = gguf_files.sentence_piece("\n".join(LINES), 1500)
    gguf_files.save("m.gguf", words=words)
    ours = tokenizers.Tokenizer.from_str(from_gguf.tokenizer(gguf_file.read(Path("m.gguf"))))
    theirs = transformers.AutoTokenizer.from_pretrained(".", gguf_file="m.gguf").backend_tokenizer
    for number, line in enumerate(lines(n)):
        found = ours.encode(line, add_special_tokens=False).ids
        assert found == theirs.encode(line, add_special_tokens=False).ids
        if kind == "byte-level":
            assert found == learned.encode(line, add_special_tokens=False).ids
        elif number < 500 and line and "<" not in line:  # `<s>` is a special token, in a text as well
            assert found == pieces(words, line)


def test_a_file_is_converted_once_and_a_damaged_folder_again(capsys):
    _, folder = converted()
    first = (folder / "model.safetensors").stat().st_mtime_ns
    assert from_gguf.folder(Path("m.gguf")) == folder
    assert (folder / "model.safetensors").stat().st_mtime_ns == first
    (folder / "tokenizer.json").unlink()
    from_gguf.folder(Path("m.gguf"))
    assert model_folder.is_converted(folder, json.loads((folder / "made_from.json").read_text())["sha256"])


def test_a_disk_that_is_too_small_leaves_nothing(monkeypatch):
    gguf_files.save("m.gguf")
    monkeypatch.setattr(shutil, "disk_usage", lambda path: shutil._ntuple_diskusage(10**9, 10**9, 10))
    with pytest.raises(UserError, match=r"GB of disk in float32, and 0\.0 GB are free"):
        from_gguf.folder(Path("m.gguf"))
    assert not list(Path("data/converted").iterdir())


@pytest.mark.more
@pytest.mark.workflow
def test_a_run_on_a_file_names_its_types(capsys):
    """`init` pins the file, it and the model's info say what its weights are, and Snakemake converts it again."""
    gguf_files.save("m.gguf", kind="Q4_0", change={"hidden_size": 64, "head_dim": 16}, template="{{ messages }}")
    for split in ("train", "validation"):
        Path(f"{split}.txt").write_text(tiny.WORDS)
    said = "4-bit weights (Q4_0, F32): the model that people run, not the one that was trained"
    run("init", "my.yaml", "--model", "m.gguf", "--train", "train.txt", "--validation", "validation.txt")
    told = capsys.readouterr().out
    assert f"m.gguf: {said}" in told and "m.gguf: its chat template is not used" in told
    shutil.rmtree("data")
    snakemake(Path().absolute(), "results/my/model/info.json")
    info = json.loads(Path("results/my/model/info.json").read_text())
    assert info["weights"] == said and info["source"] == "m.gguf" and info["bits"] == [4]
    assert api.load_model("m.gguf").layers == 3
    shutil.rmtree("data")
    gguf_files.save("m.gguf", seed=1)
    assert "the config's model.files says" in snakemake(Path().absolute(), "-R", "convert", check=False).stderr
