"""Everything that runs a model, on a device that is not the CPU: nothing is mixed, and the CPU's results come out."""

import os
import tempfile
from contextlib import ExitStack, nullcontext
from functools import partial
from typing import Any

import numpy as np
import polars as pl
import pytest
import torch
import torch.nn.functional as F
import yaml
from contributed import use
from factories import words, write_checkpoint, write_dictionary
from pipeline import baseline, config, run_steps, step, write_inputs
from polars.testing import assert_frame_equal
from second_device import MEMORY, SecondDevice, another_job

from ff_memories import api, tables
from ff_memories.base import machine
from ff_memories.base.errors import UserError
from ff_memories.base.parameters import Execution
from ff_memories.cli import main
from ff_memories.config import Settings, parse
from ff_memories.config.sections import Composition, Mutations, Triggers, Values
from ff_memories.corpus.store import POSITIONS, Corpus
from ff_memories.model import decoder as decoders
from ff_memories.model.batches import batching
from ff_memories.model.decoder import Decoder
from ff_memories.model.files import checkpoint, converted
from ff_memories.model.loading import load_decoder
from ff_memories.paper.keys import mutations, trigger_table, triggers
from ff_memories.paper.keys.topk import TopTriggers
from ff_memories.paper.layers import composition
from ff_memories.paper.values import values
from ff_memories.plan import speed
from ff_memories.report.gallery import TABLES, parts

TYPES = words(40)
MODELS: dict[str, dict[str, Any]] = {
    "adaptive softmax": {},
    "untied": {"tie_adaptive_proj": False, "scale": 2.0},
    "one softmax after a norm": {"adaptive": False, "no_decoder_final_norm": False},
}
PRODUCTS = ("linear", "addmm", "layer_norm", "matmul", "__matmul__")
BATCH = 150  # rows of a forward pass: several batches of the text


@pytest.fixture(scope="module", params=MODELS, ids=str)
def weights(request, tmp_path_factory):
    """Small models' descriptions and weights."""
    return written(tmp_path_factory, **MODELS[request.param])


@pytest.fixture(scope="module")
def paper(tmp_path_factory):
    """The same of the paper's architecture alone."""
    return written(tmp_path_factory)


def written(folders, **options):
    path = folders.mktemp("model") / "model.pt"
    write_checkpoint(path, TYPES, seed=5, **options)
    return checkpoint.read(path)


def model(weights, place="cpu"):
    description, tensors = weights
    decoder = Decoder(description, tensors, place)
    decoder.vocabulary.leave_out([0, 1, 15, 40])  # of the head and of both tails
    return decoder


def text(train=260):
    """Return 300 sentences of 1 to 11 tokens; some occur again, and some begin alike."""
    rng = np.random.default_rng(0)
    drawn = [rng.integers(4, 44, n).astype(np.int32) for n in rng.integers(1, 12, 200)]
    drawn += drawn[:60] + [np.concatenate([s[:3], rng.integers(4, 44, 4).astype(np.int32)]) for s in drawn[100:140]]
    shuffled = [drawn[i] for i in rng.permutation(len(drawn))]
    return Corpus(np.concatenate(shuffled), np.cumsum([0, *map(len, shuffled)], dtype=np.int64), train)


TEXT = text()


def same(there, here, rel=1e-5, off=1e-6):
    """Fail where a result is not the CPU's; floats may differ in their last bits."""
    if isinstance(here, pl.DataFrame):
        assert_frame_equal(there, here, rel_tol=rel, abs_tol=off)
    elif isinstance(here, dict):
        assert there.keys() == here.keys()
        same(list(there.values()), list(here.values()), rel, off)
    elif isinstance(here, list | tuple):
        assert len(there) == len(here)
        for one, other in zip(there, here, strict=True):
            same(one, other, rel, off)
    elif isinstance(here, np.ndarray):
        np.testing.assert_allclose(there, here, rtol=rel, atol=off)
    else:
        assert there == (pytest.approx(here, rel=rel, abs=off) if isinstance(here, float) else here)


def both(work, off=1e-6):
    """Run work on the CPU, on a GPU if there is one, and on the second device; return the CPU's result.

    ``off``: how far numbers may lie apart there, where padded attention changes last bits.
    """
    here = work("cpu")
    if torch.cuda.is_available():  # a real one, whose kernels add up in another order
        same(work("cuda"), here, rel=1e-4, off=1e-5)
    with SecondDevice() as device:
        there = work("cuda:1")
    assert used(device) == {"cuda:1"}, "the model did not run on its device"
    same(there, here, off=off)
    return here


def used(device):
    """Return the devices on which a model ran."""
    return {place for place, name in device.calls if name in PRODUCTS}


def found(decoder, batch_tokens=BATCH, **options):
    """Return the triggers table of the text."""
    kinds: dict[str, Any] = {"top": 5, "positions": "inner"} | options
    blocks = batching.blocks(TEXT.lengths[: TEXT.train])
    best = triggers.trigger_examples(decoder, TEXT, blocks, Triggers(**kinds), batch_tokens)
    return trigger_table.table(best, TEXT)


def examples():
    """Return prefixes of the text's other sentences."""
    options = Composition(examples=30, positions="0..N")
    return composition.sample_examples(TEXT.lengths[TEXT.train :], TEXT.train, options, 1)


def observed(decoder, tops, layer_prediction="ffn", memories="active"):
    """Return what the model does at the examples."""
    options = Composition(layer_prediction=layer_prediction, memories=memories)
    settings = Settings({"composition": options, "values": Values()})
    return composition.observe(decoder, TEXT, examples(), lambda _: tops, settings, BATCH)


# -- the device itself -------------------------------------------------------------------------------------------------

MIXED = {
    "sum": lambda here, there: here + there,
    "other number": lambda here, there: there + torch.ones(3, 3, device="cuda:0"),
    "product": lambda here, there: F.linear(there, here),
    "norm": lambda here, there: F.layer_norm(there, there.shape[1:], here[0], here[0]),
    "concatenation": lambda here, there: torch.cat([there, here]),
    "one number there": lambda here, there: here * there.sum(),
    "index": lambda here, there: there[torch.arange(2)],
    "index of the CPU's": lambda here, there: here[there.long()],
    "filling in": lambda here, there: there.__setitem__(slice(1), here[:1]),
    "drawing": lambda here, there: torch.randn(3, device="cuda", generator=torch.Generator()),
    "no such number": lambda here, there: here.to("cuda:2"),
}


@pytest.mark.parametrize("mix", MIXED.values(), ids=list(MIXED))
def test_what_mixes_devices_is_refused(mix):
    with SecondDevice(), pytest.raises(RuntimeError, match=r"same device|a generator of cuda|device ordinal"):
        mix(torch.ones(3, 3), torch.ones(3, 3, device="cuda:1"))


@pytest.mark.parametrize("left", ["positions", "embedding"])
def test_weights_that_stay_behind_are_found(paper, left):
    with SecondDevice():
        decoder = model(paper, "cuda:1")
        setattr(decoder, left, getattr(decoder, left).cpu())
        with pytest.raises(RuntimeError, match="same device, but found cpu and cuda:1"):
            found(decoder)


# -- what is measured --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("duplicates", ["keep", "drop"])
@pytest.mark.parametrize("per_sentence", ["best", "all"])
@pytest.mark.parametrize("positions", POSITIONS)
def test_triggers_of_all_kinds(paper, positions, per_sentence, duplicates):
    kinds = {"positions": positions, "per_sentence": per_sentence, "duplicates": duplicates}
    table = both(lambda place: found(model(paper, place), **kinds))
    assert len(table) > 300


@pytest.mark.parametrize("per_sentence", ["best", "all"])
def test_triggers_whose_lists_overflow(weights, monkeypatch, per_sentence):
    """More candidates than a list's log holds: lists are cut in the middle of the pass."""
    cuts, cut = [], TopTriggers._cut

    def counted(self, layer):
        cuts.append(str(self.gate.device))
        cut(self, layer)

    monkeypatch.setattr(TopTriggers, "_cut", counted)
    both(lambda place: found(model(weights, place), per_sentence=per_sentence, top=60, batch_tokens=90))
    assert cuts.count("cuda:1") == cuts.count("cpu") > 3


@pytest.mark.parametrize("random, single_token", [("any", "skip"), ("any", "bos"), ("inner", "skip")])
def test_mutations(weights, random, single_token):
    description, table = weights[0], found(model(weights))
    options = Mutations(keys_per_layer=10, top=5, random=random, single_token=single_token)
    shape = description.layers, description.keys
    rows, _ = mutations.sample(table, *shape, options, 1, shape[0] * shape[1])
    both(lambda place: mutations.table(model(weights, place), TEXT, rows, options, BATCH))


@pytest.mark.parametrize(
    "projection, target", [("adaptive", "next"), ("flat", "last"), ("head", "next"), ("random", "last")]
)
def test_values_in_all_readings(weights, projection, target):
    table = found(model(weights))

    def work(place):
        decoder = model(weights, place)
        vocabulary = decoder.vocabulary.reading(projection, 7)
        made = values.table(decoder, vocabulary, table, TEXT, Values(target=target))
        return made, values.every_top(decoder, vocabulary, None, Values(), ()), vocabulary.word_vectors().cpu().numpy()

    both(work)


@pytest.mark.parametrize(
    "projection, layer_prediction, memories",
    [("adaptive", "ffn", "active"), ("flat", "output", "all"), ("head", "output", "active")],
)
def test_composition_and_refinement(weights, projection, layer_prediction, memories):
    def work(place):
        decoder = model(weights, place)
        decoder.vocabulary = decoder.vocabulary.reading(projection)
        tops = values.every_top(decoder, decoder.vocabulary, None, Values(), ())
        return composition.frames(examples(), observed(decoder, tops, layer_prediction, memories), TEXT)

    both(work)


def test_the_functions_for_python(tmp_path):
    write_checkpoint(tmp_path / "model.pt", TYPES)
    write_dictionary(tmp_path / "dict.txt", TYPES)
    sentences = [" ".join(TYPES[i : i + 5]) for i in range(30)]

    def work(place):
        model = api.load_model(tmp_path / "model.pt", tmp_path / "dict.txt", device=place)
        return (api.memory_coefficients(model, sentences[3], 2).numpy(),
                api.trigger_examples(model, sentences, [(1, 2), (3, 7)], top=4),
                api.value_predictions(model, 2, 5))  # fmt: skip

    both(work)


# -- memory that runs out ----------------------------------------------------------------------------------------------


def waits(longest):
    """Yield numbers from 1 to ``longest``, drawn for ever."""
    rng = np.random.default_rng(5)
    while True:
        yield int(rng.integers(1, longest + 1))


@pytest.mark.parametrize("duplicates", ["keep", "drop"])
@pytest.mark.parametrize("per_sentence", ["best", "all"])
def test_no_trigger_is_lost_where_memory_runs_out_between_layers(paper, monkeypatch, per_sentence, duplicates):
    """Batches of more than four sentences find memory for some operations and not for others, whichever they are."""
    run, select, finds = triggers.run_batch, triggers.offer_hits, waits(350)
    offered, failed, device = [], [], SecondDevice()

    def little(decoder, corpus, prefixes, part, *rest):
        offered.clear()
        try:
            with device.short(0, finds) if len(part) > 4 else nullcontext():
                run(decoder, corpus, prefixes, part, *rest)
        except torch.OutOfMemoryError:
            failed.append(len(offered))
            raise

    def counted(*a):
        select(*a)
        offered.append(1)

    monkeypatch.setattr(triggers, "run_batch", little)
    monkeypatch.setattr(triggers, "offer_hits", counted)
    kinds = {"per_sentence": per_sentence, "duplicates": duplicates, "top": 10}
    here = found(model(paper), **kinds)
    with device:
        same(found(model(paper, "cuda:1"), **kinds), here)
    assert device.emptied == len(failed) > 15
    assert {0, 1, 2} <= set(failed) <= {0, 1, 2, 3}  # layers that had offered theirs
    assert "__getitem__" in device.refused and {"linear", "_addmm_activation"} & set(device.refused)


def test_a_sentence_that_no_memory_holds_is_named(paper):
    with SecondDevice() as device:
        decoder = model(paper, "cuda")
        with device.short(600, waits(1)), pytest.raises(UserError, match="out of memory with a single sentence"):
            found(decoder)


# -- the command line --------------------------------------------------------------------------------------------------


@pytest.fixture
def locks(tmp_path_factory, monkeypatch):
    """The folder of the devices' locks; what is held at the end is let go."""
    folder = tmp_path_factory.mktemp("locks")
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    with another_job():
        yield folder


def later_steps(folder, out, device):
    """Run the steps that ``run_steps`` leaves out and that need the model, on the tables in ``out``."""
    t = lambda name: out / f"{name}.parquet"
    model = ["--weights", out / "model.safetensors", "--description", out / "model.json"]
    there, text = ["--device", device, "--threads", 1], ["--corpus", out / "corpus.safetensors"]
    of_run = ["--config", folder / "config.yaml", *model, *there]
    baseline(folder, out, "untrained-1", out / "untrained-1", device)
    use("released_code", "seeds", *of_run, "--values", t("values"), "--seeds", 2, "--out", out / "seeds.csv")
    for name in ("annotations", "pattern_labels"):
        tables.write(pl.DataFrame(schema=tables.TABLES[name].columns), t(name))
    step("gallery", "--config", folder / "config.yaml", *text, "--tables", *map(t, TABLES),
         "--dictionary", folder / "dict.txt", "--info", out / "info.json", "--site", out / "gallery")  # fmt: skip


def test_a_run_on_a_device_of_any_number_makes_the_cpus_tables(tmp_path, locks, monkeypatch):
    monkeypatch.setattr(decoders, "band_of", lambda lengths: np.arange(len(lengths)))
    write_inputs(tmp_path, TYPES, seed=3, train=90, validation=40)
    settings = config(fidelity="released")
    here = run_steps(tmp_path, settings, out="here")
    later_steps(tmp_path, here, "cpu")
    machine.acquire_gpu(1)  # so that the run finds the first device taken
    with SecondDevice() as device, another_job():
        there = run_steps(tmp_path, settings, out="there", device="auto")
        later_steps(tmp_path, there, "cuda")
    assert used(device) == {"cuda:1", "cpu"}, "a job changed its device"  # the proxy reads weights on the CPU
    assert len(list(locks.iterdir())) == 2
    names = sorted(path.relative_to(here) for path in here.rglob("*.parquet"))
    assert len(names) > 15 and names == sorted(path.relative_to(there) for path in there.rglob("*.parquet"))
    for name in names:  # what changes do to a loss is a small difference of large numbers
        same(pl.read_parquet(there / name), pl.read_parquet(here / name))
    same(*(pl.read_csv(out / "seeds.csv") for out in (there, here)))
    shown = sorted(path.stem for path in (here / "gallery" / "data").iterdir())
    for name in shown:
        same(*(parts.read(out / "gallery", name) for out in (there, here)))


def test_a_job_loads_the_model_on_a_device_that_no_other_job_holds(tmp_path, paper, locks, monkeypatch):
    converted.write(paper[0], paper[1], tmp_path / "model.safetensors", tmp_path / "model.json")
    files = tmp_path / "model.safetensors", tmp_path / "model.json"
    load = lambda device: load_decoder(*files, Execution(device, threads=1))
    if not torch.cuda.is_available():
        assert load("auto").device.type == "cpu"
    with SecondDevice():
        assert str(load("cpu").device) == "cpu" and not list(locks.iterdir())
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "5,7")
        jobs = ExitStack()
        for device, number, name in (("auto", 0, "5"), ("cuda", 1, "7")):
            jobs.enter_context(another_job())
            decoder = load(device)
            held = [decoder.embedding, decoder.positions, *(t for layer in decoder.layers for t in layer.qkv)]
            assert {str(tensor.device) for tensor in held} == {str(decoder.device)} == {f"cuda:{number}"}
            assert (locks / f"ff-memories-gpu-{os.getuid()}-{name}.lock").exists()
        jobs.close()


def test_a_batch_fits_the_device(monkeypatch):
    monkeypatch.setattr(machine, "gpu_present", lambda: False)
    assert machine.batch_tokens("auto", "cpu") == machine.batch_tokens("auto", "auto") == machine.ON_CPU
    assert machine.batch_tokens(77, "cuda") == 77
    monkeypatch.setattr(machine, "gpu_present", lambda: True)
    for memory, fits in (
        ("81559 MiB", machine.MOST_TOKENS),
        ("24564 MiB", 25 * 1024),
        ("99 MiB", 1024),
        ("[N/A]", machine.ON_CPU),
    ):
        monkeypatch.setattr(machine, "_gpus", lambda memory=memory: [f"NVIDIA, a card, {memory}", "another, 1 MiB"])
        assert machine.batch_tokens("auto", "auto") == fits == machine.batch_tokens("auto", "cuda")
        assert machine.batch_tokens("auto", "cpu") == machine.ON_CPU
    of_run = lambda tokens: parse(config(execution__batch_tokens=tokens, execution__device="cpu")).execution.tokens
    assert (of_run("auto"), of_run(77)) == (machine.ON_CPU, 77)
    for wrong in ("all", 0, -5, 1.5):
        with pytest.raises(UserError, match=r"execution\.batch_tokens"):
            of_run(wrong)


def test_the_plan_of_a_run_looks_at_the_devices_speed_and_memory(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(speed, "_seconds", partial(speed._seconds, least=0.0))
    write_inputs(tmp_path, TYPES)
    for batch, code in ((256, 0), (4 * 10**6, 2)):
        (tmp_path / "my.yaml").write_text(
            yaml.safe_dump(config(execution__device="auto", execution__batch_tokens=batch))
        )
        with SecondDevice() as device, pytest.raises(SystemExit) as end:
            main(["plan", "--configfile", "my.yaml"])
        assert end.value.code == code and used(device) == {"cuda:0"}
    said = capsys.readouterr()
    assert "tokens/s on cuda" in said.out and "trigger_shard: needs about" in said.err
    assert f"GB of GPU memory, but the GPU has {MEMORY / 1e9:.1f} GB" in said.err
