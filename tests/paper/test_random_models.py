"""Models and corpora drawn afresh, in both fidelity modes: every cell against the literal, float64 renderings.

The checks are those of test_reference, test_released and test_exports; what is drawn here are shapes, cutoffs, ties and
texts, with repeated sentences, one-token sentences, unknown words and words that Moses splits.
"""

import math
from types import SimpleNamespace

import brute_force
import pytest
import released_columns
import scorer
from contributed import use
from factories import drawn
from pipeline import config, run_steps
from reference import Reference, rule_sentences, triggers

from ff_memories import tables
from ff_memories.corpus import store

pytestmark = pytest.mark.more

SEEDS = [101, 202, 303, 404]
TOP = 4


def draw(folder, seed, fidelity):
    """Run all steps on what is drawn; return settings, reference, sentences by split, tables and the folder."""
    model, types = drawn(folder, seed)
    keys = model.decoder.layers[0].fc1.weight.shape[0]
    settings = config(fidelity=fidelity, triggers__top=TOP, patterns__top=TOP, composition__examples=20,
                      mutations__keys_per_layer=min(5, keys), patterns__keys_per_layer=1)  # fmt: skip
    out = run_steps(folder, settings)
    reference = Reference(model, types)
    read = (lambda words: words) if fidelity == "paper" else lambda words: scorer.scorer_tokens(" ".join(words))
    sentences = {
        split: [reference.encode(read(words)) for words in rule_sentences(folder / f"{split}.txt")]
        for split in ("train", "validation")
    }
    return settings, reference, sentences, {p.stem: tables.read(p) for p in out.glob("*.parquet")}, out


@pytest.fixture(scope="module", params=SEEDS)
def paper(request, tmp_path_factory):
    return draw(tmp_path_factory.mktemp("paper"), request.param, "paper")


@pytest.fixture(scope="module", params=SEEDS)
def released(request, tmp_path_factory):
    made = draw(tmp_path_factory.mktemp("released"), request.param, "released")
    out = made[-1]
    use("released_code", "triggers", "--triggers", out / "triggers.parquet", "--sentences", out / "sentences.parquet",
        "--info", out / "info.json", "--top", TOP, "--out", out / "triggers.jsonl")  # fmt: skip
    return made


def check_triggers(run, positions):
    """The best of each sentence, best first; what lies closer than float32 tells apart may change places."""
    _, reference, sentences, frames, _ = run
    every = triggers(reference, sentences["train"], None, positions)
    expected, ties = {cell: entries for cell, entries in every.items() if entries}, 0
    listed = frames["triggers"].partition_by("layer", "key", as_dict=True)
    assert set(listed) == set(expected)
    for cell, entries in expected.items():
        rows = listed[cell].sort("rank").to_dicts()
        assert [r["rank"] for r in rows] == list(range(1, min(TOP, len(entries)) + 1))
        truth = {(s, j): c for c, s, j in entries}
        for row, (coefficient, sentence, position) in zip(rows, entries, strict=False):
            assert math.isclose(row["coefficient"], coefficient, rel_tol=1e-4, abs_tol=1e-6)
            if (row["sentence"], row["position"]) != (sentence, position):
                own = truth[row["sentence"], row["position"]]
                assert math.isclose(own, coefficient, rel_tol=1e-5, abs_tol=1e-6), (cell, row)
        ties += len({e[0] for e in entries[: TOP + 1]}) < len(entries[: TOP + 1])
    assert ties


def test_triggers_in_the_papers_reading(paper):
    check_triggers(paper, "inner")


def test_triggers_in_the_released_codes_reading(released):
    check_triggers(released, "released")


def test_sentences_values_examples_and_layers_in_the_papers_reading(paper):
    settings, reference, sentences, frames, _ = paper
    run = (settings, reference, sentences, frames)
    brute_force.check_sentences(run)
    brute_force.check_values(run)
    brute_force.check_composition(run)


def test_layer_and_dim_columns(released):
    _, reference, _, _, out = released
    layer, dim = released_columns.measured(out)
    for row in layer.select("example", "sentence", "position").unique().iter_rows(named=True):
        tokens = store.read(out / "corpus.safetensors").sentence(row["sentence"])[: row["position"]]
        expected = released_columns.literal(reference, tokens.tolist())
        got = layer.filter(example=row["example"]).sort("layer").to_dicts()
        released_columns.assert_cells(got, expected)
    released_columns.check_dim_columns(reference, out, dim)


def test_values_by_the_released_scripts_softmax(released):
    """Targets are last tokens, and the softmax is the one that fairseq makes after the seed, here without dropout."""
    settings, reference, sentences, frames, _ = released
    seed = settings["values"]["projection_seed"]
    softmax = released_columns.script_softmax(reference.model.decoder.embed_tokens, seed).double().eval()
    script = SimpleNamespace(
        blocks=reference.blocks,
        log_probabilities=lambda h: softmax.get_log_prob(h.view(1, 1, -1), None).view(-1).detach(),
    )
    settings = {**settings, "values": {**settings["values"], "target": "last"}}
    brute_force.check_values((settings, script, sentences, frames))


def test_what_is_drawn_has_what_makes_reading_hard(released):
    """Else the checks above would check less than they say."""
    _, _, sentences, _, out = released
    both = [*sentences["train"], *sentences["validation"]]
    assert min(map(len, both)) == 1
    assert len(set(map(tuple, both))) < len(both)
    assert any(3 in sentence for sentence in both)
    words = sum(len(w) for split in sentences for w in rule_sentences(out.parent / f"{split}.txt"))
    assert sum(map(len, both)) > words  # Moses has split some
