"""Portable arithmetic: the same bits whatever the environment, the threads and the number of cores, and right ones."""

import importlib
import json
import os

import pytest
import torch
import torch.nn.functional as F
import yaml
from factories import words
from pipeline import config, run_steps, write_inputs
from running import command

from ff_memories.base import arithmetic, machine
from ff_memories.model import matmul
from ff_memories.model.loading import use_precision
from ff_memories.workflow.rules import computes_on_cpu
from ff_memories.workflow.run import Run

OTHERS = (  # environments that give other bits by themselves
    {"MKL_CBWR": "COMPATIBLE", "ATEN_CPU_CAPABILITY": "default"},
    {"MKL_CBWR": "AVX2", "OPENBLAS_CORETYPE": "Nehalem"},
    {"ATEN_CPU_CAPABILITY": "default", "OPENBLAS_NUM_THREADS": "2"},
)
portable_here = pytest.mark.skipif("avx2" not in arithmetic.instructions(), reason="this CPU has no AVX2")


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A folder with a model, its corpus and its triggers."""
    folder = tmp_path_factory.mktemp("made")
    write_inputs(folder, words(60), decoder_embed_dim=64, decoder_ffn_embed_dim=96, train=200)
    return run_steps(folder, config())


def shard(out, to, *options, **env):
    """Run one shard of the trigger pass and return its bytes."""
    settings = json.dumps({name: config()[name] for name in ("triggers", "extraction")}).replace('"auto"', '"inner"')
    command("ff-memories", "step", "trigger-shard", "--config", settings, "--shard", "1-of-1", "--lists", to,
            "--device", "cpu", "--weights", out / "model.safetensors", "--description", out / "model.json",
            "--corpus", out / "corpus.safetensors", "--batch-tokens", "256", *options, **env)  # fmt: skip
    return to.read_bytes()


@portable_here
def test_portable_arithmetic_gives_the_same_bits_in_any_environment_with_any_threads(made, tmp_path):
    first = shard(made, tmp_path / "0.safetensors", "--arithmetic", "portable", "--threads", "1")
    for i, env in enumerate(OTHERS, 1):
        again = shard(made, tmp_path / f"{i}.safetensors", "--arithmetic=portable", "--threads", "2", **env)
        assert again == first, env


@pytest.mark.more
def test_fast_arithmetic_takes_what_the_environment_says(made, tmp_path):
    found = {
        shard(made, tmp_path / f"{i}.safetensors", "--arithmetic", "fast", "--threads", "1", **env)
        for i, env in enumerate(({}, OTHERS[0]))
    }
    assert len(found) == 2  # or the test above would prove nothing


@pytest.fixture
def portably(monkeypatch):
    monkeypatch.setenv(arithmetic.CHOSEN, "portable")


@pytest.mark.parametrize("rows", [1, 7, 300])
def test_portable_products_are_those_of_torch(portably, rows):
    x, weight, bias = torch.randn(rows, 64), torch.randn(40, 64), torch.randn(40)
    exact = F.linear(x.double(), weight.double(), bias.double())
    out = torch.empty(rows, 40)
    assert matmul.linear(x, weight, bias, out) is out
    for found in (out, matmul.linear(x, weight, bias), matmul.linear(x, weight) + bias):
        torch.testing.assert_close(found.double(), exact, rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(matmul.linear(x, weight.t().contiguous().t(), bias), out, rtol=0, atol=1e-5)


@pytest.mark.parametrize("shape", [(1, 2, 1, 8), (5, 4, 9, 16), (3, 1, 30, 32)])
def test_portable_attention_is_that_of_torch(portably, shape):
    sentences, heads, rows, width = shape
    qkv = torch.randn(sentences, rows, 3, heads, width).permute(2, 0, 3, 1, 4)
    q, k, v = qkv.unbind()
    exact = F.scaled_dot_product_attention(q.double(), k.double(), v.double(), is_causal=True)
    torch.testing.assert_close(matmul.attention(q, k, v).double(), exact, rtol=1e-5, atol=1e-5)


def test_a_cpu_without_avx2_computes_as_it_does(monkeypatch):
    for name in (*arithmetic.PORTABLE, *arithmetic.WITHOUT_AVX512, arithmetic.CHOSEN):
        monkeypatch.setenv(name, "")  # so that it is put back, or taken away, at the end
        monkeypatch.delenv(name)
    monkeypatch.setattr(arithmetic, "instructions", lambda: ["sse4_2", "avx"])
    os.environ.update(arithmetic.environment("portable"))
    assert not arithmetic.portable()
    assert not any(name in os.environ for name in arithmetic.PORTABLE)
    monkeypatch.setattr(arithmetic, "instructions", lambda: ["sse4_2", "avx2", "avx512f"])
    os.environ.update(arithmetic.environment("portable"))
    assert arithmetic.portable() and os.environ["NPY_DISABLE_CPU_FEATURES"].startswith("X86_V4")


def test_products_of_bfloat16_factors_round_no_other_product_of_the_process():
    setting = torch.backends.mkldnn.matmul  # type: ignore[attr-defined]
    before = setting.fp32_precision
    made = torch.Generator().manual_seed(1)
    x, weight = torch.randn(300, 200, generator=made), torch.randn(400, 200, generator=made)
    for precision in ("float32", "bfloat16", "float32"):
        use_precision(precision, "cpu")
        held = weight.to(torch.bfloat16 if precision == "bfloat16" else torch.float32)
        exact = x.to(held.dtype).double() @ held.double().T
        for out in (None, torch.empty(300, 400)):
            assert (matmul.linear(x, held, out=out).double() - exact).abs().max() < 1e-4
        assert setting.fp32_precision == before
    with pytest.raises(RuntimeError):
        matmul.linear(x, weight[:, :5].bfloat16())
    assert setting.fp32_precision == before


def test_what_numpy_is_told_to_leave_out_it_knows():
    """Numpy's names of AVX-512 have changed before: one that it does not know leaves the instructions in use."""
    own = importlib.import_module("numpy._core._multiarray_umath")
    known = {*own.__cpu_dispatch__, *own.__cpu_features__}
    assert set(arithmetic.WITHOUT_AVX512["NPY_DISABLE_CPU_FEATURES"].split()) <= known


@pytest.mark.parametrize(
    "device, gpu, local, on_cpu",
    [
        ("auto", False, True, True),
        ("auto", True, True, False),
        ("cpu", True, True, True),
        ("auto", False, False, False),
    ],
)
def test_steps_wait_for_one_gpu_only_where_there_may_be_one(tmp_path, monkeypatch, device, gpu, local, on_cpu):
    write_inputs(tmp_path, words(60), train=20, validation=10)
    (tmp_path / "my.yaml").write_text(yaml.safe_dump(config(execution__device=device)))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(machine, "gpu_present", lambda: gpu)

    class Executor:
        class common_settings:
            local_exec = local

    assert computes_on_cpu(Run(config(execution__device=device), "my.yaml"), Executor) is on_cpu


def test_a_hidden_gpu_is_not_there(monkeypatch):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    assert not machine.gpu_present()
