"""``extraction.precision``: what it rounds, that every step computes in it, and that no two are ever mixed."""

import shutil
import tempfile
from contextlib import nullcontext
from pathlib import Path

import numpy as np
import pytest
import torch
import torch.nn.functional as F
import yaml
from audited import audit
from factories import convert, words, write_checkpoint
from pipeline import config, run_steps, step, write_inputs
from second_device import SecondDevice, another_job

from ff_memories import api, tables
from ff_memories.audit import compare
from ff_memories.audit.audit import LEFT_OUT
from ff_memories.audit.audit_inputs import AuditInputs
from ff_memories.audit.near_equal import tolerances
from ff_memories.audit.recompute import ROWS, faults
from ff_memories.audit.sampling import Aim
from ff_memories.base.arithmetic import ROUNDOFF
from ff_memories.base.errors import UserError
from ff_memories.base.parameters import Execution
from ff_memories.config import parse
from ff_memories.model.decoder import Batch, Decoder
from ff_memories.model.files import checkpoint
from ff_memories.model.loading import load_decoder, use_precision
from ff_memories.model.matmul import attention, linear, with_bias
from ff_memories.paper.keys import topk
from ff_memories.paper.keys.topk import TopTriggers
from ff_memories.paper.keys.triggers import fired
from ff_memories.workflow.run import Run

TYPES = words(44)
ALL = Aim(0.95, 0.0005)  # more rows than these tables have
MEASURED = {name for name, schema in tables.TABLES.items() if schema.measured}
ROUNDED = ("tf32", "bfloat16")
KINDS = [("tf32", "cuda"), ("bfloat16", "cpu"), pytest.param(("bfloat16", "cuda"), marks=pytest.mark.more)]


def measured(folder, precision, place="cpu", **changes):
    """Run all steps in a precision; return settings and the folder of the tables.

    Where there is no GPU the second device stands for it, which rounds as one does.
    """
    settings = config(extraction__precision=precision, execution__device="auto", **changes)
    write_inputs(folder, TYPES)
    if place == "cpu":
        return settings, run_steps(folder, settings)
    device = nullcontext() if torch.cuda.is_available() else SecondDevice()
    with device, pytest.MonkeyPatch.context() as patch, another_job():
        patch.setattr(tempfile, "tempdir", str(folder))  # of the locks
        return settings, run_steps(folder, settings, device="cuda")


def read(out):
    return {path.stem: tables.read(path) for path in out.glob("*.parquet") if path.stem in MEASURED}


def named(out):
    return {f"tables/{name}": frame for name, frame in read(out).items()}


def basis(folder, settings, out):
    made = lambda path: out / Path(path).name if path.startswith("results/") else folder / path
    return AuditInputs.read(Run(settings), ROWS, made)


@pytest.fixture(scope="module", params=KINDS, ids="-".join)
def rounded(request, tmp_path_factory):
    folder = tmp_path_factory.mktemp("-".join(request.param))
    return request.param, folder, *measured(folder, *request.param)


@pytest.fixture(scope="module")
def exact(tmp_path_factory):
    return measured(tmp_path_factory.mktemp("float32"), "float32")[1]


# -- products ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("bias", [True, False])
def test_a_product_of_bfloat16_factors_is_summed_in_float32(bias):
    made = torch.Generator().manual_seed(1)
    x, weight = torch.randn(40, 300, generator=made), torch.randn(70, 300, generator=made).bfloat16()
    added = torch.randn(70, generator=made) if bias else None
    wanted = F.linear(x.bfloat16().double(), weight.double(), None if added is None else added.double())
    kept = torch.empty(40, 70)
    for found in (linear(x, weight, added), linear(x, weight, added, kept), kept):
        assert found.dtype == torch.float32
        assert (found - wanted).abs().max() < 1e-4 < (F.linear(x, weight.float(), added) - wanted).abs().max()


def test_a_bias_among_a_weights_columns_is_the_same_bias():
    made = torch.Generator().manual_seed(4)
    x, weight = torch.randn(40, 64, generator=made), torch.randn(72, 64, generator=made).bfloat16()
    bias = 100 * torch.randn(72, generator=made)
    wanted = F.linear(x.bfloat16().double(), weight.double(), bias.double())
    with SecondDevice():
        there = lambda tensor: tensor.to("cuda")
        for kept in (there(weight), there(weight.t().contiguous()).t()):
            wide = with_bias(kept, there(bias))
            assert wide.shape == (72, 72) and wide.stride(0) in (72, 1)
            assert (linear(there(x), wide, there(bias)).cpu() - wanted).abs().max() < 1e-4
    assert with_bias(weight, bias) is weight


def test_a_gpu_counts_the_copies_of_a_sentence_exactly():
    with SecondDevice():
        use_precision("tf32", "cuda:0")
        copies, m = torch.tensor([2049.0, 0, 70001], device="cuda"), torch.tensor([[1.0], [1], [-1]], device="cuda")
        assert fired(m, copies, 2).tolist() == [2049, 70001]  # tf32 has 11 bits


def test_attention_rounds_its_factors_and_its_result_to_bfloat16():
    made = torch.Generator().manual_seed(2)
    q, k, v = (torch.randn(3, 2, 9, 8, generator=made).bfloat16() for _ in range(3))
    found = attention(q, k, v)
    wanted = F.scaled_dot_product_attention(q.double(), k.double(), v.double(), is_causal=True)
    assert found.dtype == torch.bfloat16
    assert 0 < (found.double() - wanted).abs().max() < 3 * ROUNDOFF["bfloat16"] * v.abs().max()


def test_weights_that_are_multiplied_by_are_held_rounded_and_nothing_else(tmp_path):
    write_checkpoint(tmp_path / "model.pt", TYPES)
    decoder = Decoder(*checkpoint.read(tmp_path / "model.pt"), precision="bfloat16")
    block = decoder.layers[0]
    assert {t.dtype for t in (block.keys, block.values, block.qkv[0], block.attention_out[0])} == {torch.bfloat16}
    assert {c.embedding.dtype for c in decoder.vocabulary.clusters} == {torch.bfloat16}
    plain = (decoder.embedding, decoder.positions, block.key_bias, block.qkv[1], *block.norm, *block.attention_norm)
    assert {t.dtype for t in plain} == {torch.float32}
    batch = Batch.pack([np.array([5, 6, 7])])
    residual = block.attend(decoder.embed(batch), batch)
    coefficients = block.coefficients(residual)
    assert {t.dtype for t in (residual, coefficients, block.combine(coefficients))} == {torch.float32}


def test_no_tail_of_the_vocabulary_is_left_out_that_holds_the_top(tmp_path):
    write_checkpoint(tmp_path / "model.pt", TYPES, scale=2.0)
    decoder = Decoder(*checkpoint.read(tmp_path / "model.pt"), precision="bfloat16")
    h = torch.randn(4000, decoder.description.model, generator=torch.Generator().manual_seed(4))
    said = decoder.vocabulary.log_probabilities(h)
    found = decoder.vocabulary.predict(h)
    best = said.max(1).values
    assert (said.gather(1, found.top[:, None]).squeeze(1) > best - 1e-5).all()
    torch.testing.assert_close(found.probability, best.exp(), rtol=1e-4, atol=0)
    assert len(decoder.vocabulary.clusters) > 1 and (found.top >= decoder.vocabulary.clusters[1].first).any()


# -- runs --------------------------------------------------------------------------------------------------------------


def test_every_row_matches_the_exact_model_within_the_precision(rounded):
    _, folder, settings, out = rounded
    found = audit(given := basis(folder, settings, out), ALL)
    assert faults(given) == []
    assert [(f.what, f.differ) for f in found] == [(name, []) for name in [*ROWS, LEFT_OUT]]
    assert max(f.largest_difference for f in found) > 10 * tolerances("float32").coefficient, "nothing was rounded"


def test_every_measured_table_says_its_precision(rounded, exact):
    (precision, _), _, _, out = rounded
    found = {path.stem: tables.precision_of(path) for path in out.glob("*.parquet")}
    assert {name for name, said in found.items() if said != "float32"} == MEASURED & found.keys()
    assert {found[name] for name in MEASURED if name in found} == {precision}
    assert {tables.precision_of(path) for path in exact.glob("*.parquet")} == {"float32"}


@pytest.mark.parametrize("change", [{"execution__batch_tokens": 37}, {"execution__shards": 3}], ids=str)
def test_batches_and_shards_change_no_more_than_the_precision_allows(rounded, change, tmp_path):
    (precision, place), _, _, out = rounded
    _, other = measured(tmp_path, precision, place, **change)
    found = compare.compare_tables(named(out), named(other), tolerances(precision))
    assert {name: outcome.different for name, outcome in found.items() if outcome.different} == {}
    if "execution__shards" in change:
        assert not any(any(outcome.cells.values()) for outcome in found.values())


# -- never mixed -------------------------------------------------------------------------------------------------------


def test_a_run_of_two_precisions_is_refused(rounded, exact, tmp_path):
    _, _, _, out = rounded
    (tmp_path / "tables").mkdir()
    for name, source in (("triggers", exact), ("mutations", out)):
        (tmp_path / "tables" / f"{name}.parquet").write_bytes((source / f"{name}.parquet").read_bytes())
    with pytest.raises(UserError, match="measured in different precisions"):
        shutil.copytree(tmp_path / "tables", tmp_path / "other" / "tables")
        compare.compare(tmp_path, tmp_path / "other", None)


def test_a_step_does_not_read_what_was_measured_in_another_precision(rounded, tmp_path, capsys):
    *_, out = rounded
    (tmp_path / "config.yaml").write_text(yaml.safe_dump(config()))
    with pytest.raises(AssertionError, match="values ended with 2"):
        step("values", "--config", tmp_path / "config.yaml", "--weights", out / "model.safetensors", "--description",
             out / "model.json", "--corpus", out / "corpus.safetensors", "--triggers", out / "triggers.parquet",
             "--values", tmp_path / "values.parquet", "--device", "cpu", "--threads", 1)  # fmt: skip
    assert "one run cannot mix them" in capsys.readouterr().err and not (tmp_path / "values.parquet").exists()


def test_lists_of_two_precisions_do_not_merge(tmp_path):
    one, other = TopTriggers(1, 3, 2), TopTriggers(1, 3, 2, precision="bfloat16")
    with pytest.raises(ValueError, match="lists in bfloat16 do not merge with lists in float32"):
        one.merge(other)
    topk.save(other, tmp_path / "1-of-1.safetensors")
    assert topk.load(tmp_path / "1-of-1.safetensors").precision == "bfloat16"


# -- refused -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"extraction__precision": "tf32", "execution__device": "cpu"}, "tf32 needs a GPU"),
        ({"extraction__precision": "bfloat16", "fidelity": "released"}, "the released code has no"),
        ({"extraction__precision": "tf32", "values__projection": "random"}, "the released code has no"),
        ({"extraction__precision": "float16"}, "'float32', 'tf32' or 'bfloat16'"),
    ],
)
def test_a_config_that_cannot_be_is_refused(changes, says):
    with pytest.raises(UserError, match=says):
        parse(config(**changes))


def test_tf32_is_refused_where_there_is_no_gpu(tmp_path):
    write_inputs(tmp_path, TYPES)
    convert(tmp_path / "model.pt", tmp_path / "model.safetensors", tmp_path / "model.json")
    with pytest.raises(UserError, match="which only GPUs compute in"):
        api.load_model(tmp_path / "model.pt", tmp_path / "dict.txt", precision="tf32")
    with pytest.raises(UserError, match="which only GPUs compute in"):
        load_decoder(tmp_path / "model.safetensors", tmp_path / "model.json", Execution("auto", threads=1), "tf32")


@pytest.mark.parametrize("precision", ROUNDED)
def test_an_old_gpu_is_refused(precision, monkeypatch):
    with SecondDevice():
        monkeypatch.setattr(torch.cuda, "get_device_capability", lambda device: (7, 5))
        with pytest.raises(UserError, match=f"does not compute in {precision}"):
            use_precision(precision, "cuda:0")
        use_precision("float32", "cuda:0")


@pytest.mark.parametrize(("precision", "forced"), [("float32", "1"), ("bfloat16", "1"), ("tf32", "0")])
def test_an_environment_that_forces_another_arithmetic_is_refused(precision, forced, monkeypatch):
    monkeypatch.setenv("NVIDIA_TF32_OVERRIDE", forced)
    with SecondDevice(), pytest.raises(UserError, match=r"contradicts extraction\.precision"):
        use_precision(precision, "cuda:0")


def test_float32_after_tf32_in_one_process_is_float32_again():
    with SecondDevice():
        use_precision("tf32", "cuda:0")
        assert torch.get_float32_matmul_precision() == "high"
        use_precision("bfloat16", "cuda:0")
        assert torch.get_float32_matmul_precision() == "highest"
