"""Made-up galleries: hostile tokens, several annotators, and as many keys as a test wants, without a model."""

import numpy as np
import polars as pl

from ff_memories import tables
from ff_memories.config import Settings
from ff_memories.corpus.dictionary import Dictionary
from ff_memories.corpus.store import Corpus
from ff_memories.report.gallery import TABLES, site
from ff_memories.report.gallery.material import Material
from ff_memories.report.passages import Texts

HOSTILE = [
    "<script>document.title='owned'</script>", '"><img src=x onerror="document.title=1">', "a\u202eb", "שלום",
    "👩\u200d💻", "=cmd()", "@SUM(1)", "\u200b", "\u0301acute", "no\u00a0break", "'--", "</bdi>", "&lt;", "x" * 300,
    "\u3164", "{{7*7}}",
]  # fmt: skip
CONFIG = {
    "run": "made-up",
    "triggers": {"top": 25, "per_sentence": "best", "positions": "inner", "duplicates": "keep"},
    "gallery": {"triggers": 25, "shaded": 3, "tokens": 10, "sampled": 100},
    "values": {"target": "next", "projection": "adaptive", "projection_seed": 1},
    "mutations": {
        "keys_per_layer": 2, "top": 5, "random": "any", "single_token": "skip", "mean": "of_ratios",
    },
}  # fmt: skip
CARD = {"scope": "surrogate"}


def frame(name, columns):
    schema = tables.TABLES[name]
    return tables.conform(pl.DataFrame(columns, schema_overrides=schema.columns, strict=False), schema)


def material(layers=2, keys=70, top=6, sentences=400, vocabulary=300, seed=0, neurons=None, change=dict):
    """Return a gallery's material: key 0 of each layer fires on nothing, key 1 is annotated by two who differ.

    Three triggers of key 2, of ranks 1, 2 and 4, have one text, and two of key 1 of layer 1, of ranks 1 and 3.
    ``change``: a function that returns other tables for its own.
    """
    rng = np.random.default_rng(seed)
    types = HOSTILE + [f"{'aeiou'[i % 5]}word{i}" for i in range(vocabulary)]
    types[len(HOSTILE) : len(HOSTILE) + 4] = ["the", "The", "of", "cat"]
    weights = 1 / (np.arange(len(types)) + 1)
    lengths = rng.integers(2, 60, sentences)
    lengths[[0, -2, -1]] = 12
    tokens = 4 + rng.choice(len(types), int(lengths.sum()), p=weights / weights.sum())
    for place, copy in enumerate((tokens[-24:-12], tokens[-12:]), 20):
        copy[:] = tokens[:12]
        copy[5] = place  # what follows the common prefix
    corpus = Corpus(tokens.astype(np.int32), np.concatenate([[0], lengths.cumsum()]), sentences)
    fires = np.tile(np.arange(keys) > 0, layers)
    ordinal = np.repeat(np.flatnonzero(fires), top)
    n = len(ordinal)
    sentence = rng.integers(0, sentences, n)
    position = rng.integers(1, lengths[sentence])
    for key, ranks in ((2, (0, 1, 3)), *((layer * keys + 2, (0, 1, 3)) for layer in range(1, layers)), (1, (0, 2))):
        rows = np.searchsorted(ordinal, key) + np.array(ranks)
        sentence[rows], position[rows] = [0, sentences - 2, sentences - 1][: len(ranks)], 5
    following = corpus.tokens[corpus.offsets[sentence] + position]
    coefficient = np.sort(rng.gamma(3, 1, (n // top, top)) + 0.01)[:, ::-1].ravel()
    triggers = frame("triggers", {
        "layer": ordinal // keys + 1, "key": ordinal % keys, "rank": np.tile(np.arange(1, top + 1), n // top),
        "coefficient": coefficient, "sentence": sentence, "position": position, "next_token": following,
    })  # fmt: skip
    tops = np.argsort(rng.random((layers * keys, min(len(types), 40))), axis=1)[:, :10] + 4
    tops[fires & (np.arange(len(fires)) % 3 == 1), 0] = 4
    probabilities = np.sort(rng.dirichlet(np.ones(12), layers * keys)[:, :10])[:, ::-1].astype(np.float32)
    first = np.full(layers * keys, -1)
    first[fires] = following[::top]
    known = [int(x) if x >= 0 else None for x in first]
    layer, key = (a.ravel() for a in np.indices((layers, keys)))
    values = frame("values", {
        "layer": layer + 1, "key": key, "top_token": tops[:, 0], "top_probability": probabilities[:, 0],
        "next_token": known, "next_token_rank": [None if x is None else x % 97 for x in known],
        "agrees": [None if x is None else x == t for x, t in zip(known, tops[:, 0], strict=True)],
        "agreeing_triggers": np.zeros(len(key)), "triggers": fires * top,
    })  # fmt: skip
    sample = triggers.filter((pl.col("key") < 4) & (pl.col("rank") <= 5))
    mutations = pl.concat(
        [sample.select("layer", "key", "rank", pl.lit(m).alias("mutation"), pl.lit(1).alias("removed"), "coefficient",
                       (pl.col("coefficient") / 2).alias("mutated"), pl.lit(-0.5).alias("change"))
         for m in ("first", "last", "random")]
    )  # fmt: skip
    labels = [
        {"annotator": who, "layer": la, "key": 1, "rank": r, "label": label if r < 3 else "shallow"}
        for who, label in (("ann", "semantic"), ("model-gpt", "both"), ("proxy", "shallow"))
        for la in range(1, layers + 1) for r in (1, 2, 3)
    ]  # fmt: skip
    found = [
        {"annotator": "ann", "layer": la, "key": 1, "pattern": 1, "description": f"<b>{HOSTILE[2]}", "type": "semantic",
         "ranks": [1, 2, 3]} for la in range(1, layers + 1)
    ]  # fmt: skip
    where = {"sentence": np.arange(sentences), "split": ["train"] * sentences, "file": ["texts/train.txt"] * sentences,
             "line": np.arange(sentences) + 1, "first_token": np.zeros(sentences), "tokens": lengths}  # fmt: skip
    value, place = (a.ravel() for a in np.indices(tops.shape))
    logits = np.sort(rng.gamma(2, 2, tops.shape) + 0.1)[:, ::-1]
    own = {"layer": value // keys + 1, "key": value % keys, "token_rank": place}
    promoted = frame("promoted", own | {
        "token": tops.ravel(), "probability": probabilities.ravel(), "logit": logits.ravel(),
    })  # fmt: skip
    demoted = frame("demoted", own | {"token": (tops.ravel() + 7) % len(types) + 4, "logit": -logits.ravel() / 2})
    histogram, samples = sampled(rng, triggers, lengths)
    held = [
        triggers, values, tables.conform(mutations, tables.TABLES["mutations"]), frame("annotations", found),
        frame("pattern_labels", labels), frame("sentences", where), promoted, demoted,
        firing(rng, layer, key, fires), levels(rng, triggers), histogram, samples,
        similar(rng, layers, keys, neurons), without(rng, layers, len(tokens)),
    ]  # fmt: skip
    texts = Texts(corpus, Dictionary(types))
    return Material(layers, keys, texts, change(dict(zip(TABLES, held, strict=True))), top, neurons)


def without(rng, layers, tokens):
    """Return two prefixes of key 1 of each layer at which it was changed, and what a matched memory does there."""
    rows = [
        {"layer": layer, "key": 1, "prefix": prefix, "intervention": intervention, "control": control,
         "matched_key": None if control == "none" else 2, "other_prefix": None, "coefficient": coefficient,
         "set_to": 0.0, "direct": -2 * coefficient, "total": -coefficient, "total_frozen": -coefficient,
         "other_total": 0.0, "top_log_probability": -0.25, "loss": 0.5, "kl": 0.1, "top_changed": coefficient > 1}
        for layer in range(1, layers + 1)
        for prefix, coefficient in zip(rng.choice(tokens, 2, replace=False).tolist(), (0.5, 1.5), strict=True)
        for intervention, control in (("mean", "none"), ("mean", "matched"), ("zero", "none"))
    ]  # fmt: skip
    return frame("causal", {name: [row[name] for row in rows] for name in rows[0]})


def firing(rng, layer, key, fires):
    fired = np.where(fires, rng.integers(1, 5000, len(key)), 0)
    return frame("firing", {"layer": layer + 1, "key": key, "fired": fired, "prefixes": np.full(len(key), 5000)})


def levels(rng, triggers):
    """Return a level for each token of each trigger. The table is sorted as built: a large one has 40 million rows."""
    lengths = triggers["position"].cast(pl.Int64).to_numpy()
    ends = lengths.cumsum()
    position = np.arange(1, ends[-1] + 1) - np.repeat(ends - lengths, lengths)
    of = np.repeat(np.arange(len(triggers)), lengths)
    return triggers.select("layer", "key", "rank")[of].with_columns(
        pl.Series("position", position.astype(np.uint16)),
        pl.Series("level", rng.integers(0, 62, len(position)).astype(np.uint8)),
    )


def sampled(rng, triggers, lengths):
    """Return histograms and weaker examples of the keys that fire; key 3 of each layer fires on nothing sampled."""
    tops = triggers.filter((pl.col("rank") == 1) & (pl.col("key") != 3))
    bins = rng.geometric(0.35, (len(tops), 8)).clip(1, 20) - 1
    row = np.repeat(np.arange(len(tops)), 8)
    counted = pl.DataFrame({"row": row, "bin": bins.ravel()}).unique().sort("row", "bin")
    histogram = tops[counted["row"].to_numpy()].select("layer", "key").with_columns(
        counted["bin"], pl.Series("n", rng.integers(1, 300, len(counted)))
    )  # fmt: skip
    row = np.repeat(np.arange(len(tops)), 4)
    sentence = rng.integers(0, len(lengths), len(row))
    samples = tops[row].select("layer", "key").with_columns(
        pl.Series("percentile", np.tile([25, 50, 75, 95], len(tops))),
        pl.Series("coefficient", tops["coefficient"].to_numpy()[row] * np.tile([0.02, 0.1, 0.3, 0.7], len(tops))),
        pl.Series("sentence", sentence),
        pl.Series("position", rng.integers(1, lengths[sentence] + 1)),
    )  # fmt: skip
    return frame("histogram", histogram), frame("samples", samples)


def similar(rng, layers, keys, neurons, n=2):
    own = neurons or keys
    layer, key, of, place = (a.ravel() for a in np.indices((layers, own, 2, n)))
    cosine = 0.9 - 0.2 * place - 0.1 * rng.random(len(key))
    return frame("similar", {
        "layer": layer + 1, "key": key, "of": np.array(["key", "value"])[of], "place": place,
        "other_layer": rng.integers(1, layers + 1, len(key)), "other_key": rng.integers(0, own, len(key)),
        "cosine": cosine * (rng.choice([-1, 1], len(key)) if neurons else 1),
    })  # fmt: skip


def build(folder, made=None, card=CARD, configfile=None):
    """Write a made-up gallery; return what it is made of."""
    made = made or material()
    site.build(folder, made, Settings(CONFIG), card, configfile)
    return made
