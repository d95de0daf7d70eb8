"""Made-up galleries: hostile tokens, several annotators, and as many keys as a test wants, without a model."""

import numpy as np
import polars as pl

from ff_memories import tables
from ff_memories.config import Settings
from ff_memories.corpus.dictionary import Dictionary
from ff_memories.corpus.store import Corpus
from ff_memories.report.gallery import site
from ff_memories.report.gallery.material import Material
from ff_memories.report.passages import Texts

HOSTILE = [
    "<script>document.title='owned'</script>", '"><img src=x onerror="document.title=1">', "a\u202eb", "שלום",
    "👩\u200d💻", "=cmd()", "@SUM(1)", "\u200b", "\u0301acute", "no\u00a0break", "'--", "</bdi>", "&lt;", "x" * 300,
    "\u3164", "{{7*7}}",
]  # fmt: skip
CONFIG = {
    "run": "made-up",
    "gallery": {"triggers": 25, "shaded": 3, "tokens": 10},
    "values": {"target": "next", "projection": "adaptive", "projection_seed": 1},
    "mutations": {
        "keys_per_layer": 2, "top": 5, "random": "any", "single_token": "skip", "mean": "of_ratios",
    },
}  # fmt: skip
CARD = {"scope": "surrogate"}


def frame(name, columns):
    schema = tables.TABLES[name]
    return tables.conform(pl.DataFrame(columns, schema_overrides=schema.columns, strict=False), schema)


def material(layers=2, keys=70, top=6, sentences=400, vocabulary=300, seed=0, shaded=3, hostile=True):
    """Return a gallery's material: key 0 of each layer fires on nothing, key 1 is annotated by two who differ."""
    rng = np.random.default_rng(seed)
    types = (HOSTILE if hostile else []) + [f"{'aeiou'[i % 5]}word{i}" for i in range(vocabulary)]
    types[len(HOSTILE) : len(HOSTILE) + 4] = ["the", "The", "of", "cat"]
    weights = 1 / (np.arange(len(types)) + 3)
    lengths = rng.integers(2, 60, sentences)
    tokens = 4 + rng.choice(len(types), int(lengths.sum()), p=weights / weights.sum())
    corpus = Corpus(tokens.astype(np.int32), np.concatenate([[0], lengths.cumsum()]), sentences)
    fires = np.tile(np.arange(keys) > 0, layers)
    ordinal = np.repeat(np.flatnonzero(fires), top)
    n = len(ordinal)
    sentence = rng.integers(0, sentences, n)
    position = rng.integers(1, lengths[sentence])
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
        for who, label in (("ann", "semantic"), ("proxy", "shallow"))
        for la in range(1, layers + 1) for r in (1, 2, 3)
    ]  # fmt: skip
    found = [
        {"annotator": "ann", "layer": la, "key": 1, "pattern": 1, "description": f"<b>{HOSTILE[2]}", "type": "semantic",
         "ranks": [1, 2, 3]} for la in range(1, layers + 1)
    ]  # fmt: skip
    where = {"sentence": np.arange(sentences), "split": ["train"] * sentences, "file": ["texts/train.txt"] * sentences,
             "line": np.arange(sentences) + 1, "first_token": np.zeros(sentences), "tokens": lengths}  # fmt: skip
    shown = triggers.filter(pl.col("rank") <= shaded)
    lengths = shown["position"].cast(pl.Int64).to_numpy()
    shading = shown.select("layer", "key", "rank")[np.repeat(np.arange(len(shown)), lengths)].with_columns(
        pl.Series("position", np.concatenate([np.arange(0), *(np.arange(1, n + 1) for n in lengths)])),
        pl.Series("coefficient", rng.random(int(lengths.sum())).astype(np.float32)),
    )
    value, place = (a.ravel() for a in np.indices(tops.shape))
    promoted = frame("promoted", {
        "layer": value // keys + 1, "key": value % keys, "token_rank": place, "token": tops.ravel(),
        "probability": probabilities.ravel(),
    })  # fmt: skip
    return Material(
        layers, keys, Texts(corpus, Dictionary(types)), triggers, values,
        tables.conform(mutations, tables.TABLES["mutations"]), frame("annotations", found),
        frame("pattern_labels", labels), frame("sentences", where),
        tables.conform(shading, tables.TABLES["shading"]), promoted, top, shaded,
    )  # fmt: skip


def build(folder, made=None, card=CARD):
    """Write a made-up gallery; return what it is made of."""
    made = made or material()
    site.build(folder, made, Settings(CONFIG), card)
    return made
