"""E3, section 3.2, Figure 3: what removing the first, the last or a random token does to a trigger's coefficient.

The coefficient of a prefix w_1..w_j without its token u is read at its last position. With ``mutations.unit: word``, u
stands for all tokens of a word, and the prefix's last word may be cut short. Mutated prefixes begin alike more
often than not: removing the last token leaves a prefix of the sentence itself, removing token u the sentence's first
u - 1 tokens. So every distinct prefix runs once, and only up to the highest layer that is read at it or behind it.
"""

from functools import partial
from itertools import zip_longest

import numpy as np
import polars as pl
import torch

from ff_memories import tables
from ff_memories.base.draws import generator
from ff_memories.base.parameters import WHOLE, Execution, Input, Output, Shard, share
from ff_memories.base.progress import Progress
from ff_memories.config import Settings
from ff_memories.config.sections import Mutations
from ff_memories.corpus import store
from ff_memories.corpus.store import Corpus, Words
from ff_memories.model.batches import prefix_tree
from ff_memories.model.batches.batching import retry_smaller
from ff_memories.model.decoder import LanguageModel, signed_coefficients
from ff_memories.model.loading import load_model
from ff_memories.model.matmul import require_finite
from ff_memories.paper.keys import memory_selection, trigger_table
from ff_memories.paper.keys.tables import relative_change

NOTHING = 0  # `removed` of the sentence as it is
Trees = prefix_tree.PrefixTree | prefix_tree.PlainPaths


def sample_keys(triggers: pl.DataFrame, layers: int, keys: int, per_layer: int, seed: int) -> pl.DataFrame:
    """Draw keys with triggers that can be mutated, ``per_layer`` of each layer without replacement: ``layer``, ``key``.

    Other keys are passed over, as if drawn again; layers with fewer keys give all of them.
    """
    rng = generator(seed, "mutation keys")
    fires = set(triggers.select("layer", "key").unique().iter_rows())
    sampled = []
    for layer in range(1, layers + 1):
        order = [int(key) for key in rng.permutation(keys) if (layer, int(key)) in fires]
        sampled += [(layer, key) for key in sorted(order[:per_layer])]
    return pl.DataFrame(sampled, schema={"layer": pl.UInt8, "key": pl.UInt16}, orient="row")


def sample(
    triggers: pl.DataFrame,
    layers: int,
    keys: int,
    options: Mutations,
    seed: int,
    looked_at: int,
    words: Words | None = None,
) -> tuple[pl.DataFrame, dict[str, int]]:
    """Choose keys, triggers and the tokens, or words, to remove.

    Return rows of the ``mutations`` table without ``mutated``, all with ``removed_tokens``, how many tokens are
    removed; and what the ``counts`` table says of what is left out.

    Args:
        triggers: the ``triggers`` table.
        layers, keys: L and d_m.
        options: the config's section ``mutations``; with ``single_token: bos``, the coefficient of a prefix of one
            token is read at the first token (``</s>``).
        seed: of keys and random tokens.
        looked_at: how many keys have a list of triggers, which may be empty.
        words: of the triggers' corpus, to remove them instead of tokens: a prefix then has as many parts as it has
            words.
    """
    shortest, unit = 2 if options.single_token == "skip" else 1, "token" if words is None else "word"
    shown = triggers.filter(pl.col("rank") <= options.top)
    at = [shown[name].cast(pl.Int64).to_numpy() for name in ("sentence", "position")]
    shown = shown.with_columns(pl.Series("parts", at[1] if words is None else words.count(at[0], at[1])))
    mutable = shown.filter(pl.col("parts") >= shortest)
    chosen = sample_keys(mutable, layers, keys, options.keys_per_layer, seed)
    rows = shown.join(chosen, on=["layer", "key"]).sort("layer", "key", "rank")
    immutable = shown.join(mutable, on=["layer", "key"], how="anti")
    counts = {
        "keys_without_triggers": looked_at - triggers.select("layer", "key").n_unique(),
        "keys_without_mutable_prefix": immutable.select("layer", "key").n_unique(),
        "keys_missing": layers * options.keys_per_layer - len(chosen),
        "prefixes_of_no_token": rows.filter(pl.col("position") == 0).height,
        f"prefixes_of_one_{unit}": rows.filter(pl.col("parts") == 1).height,
    }
    rows = rows.filter(pl.col("parts") >= shortest)
    length = rows["parts"].to_numpy()
    draw = generator(seed, "mutation tokens").random(len(rows))
    if options.random == "any":
        removed = 1 + np.floor(draw * length).astype(np.int64)
    else:
        removed = np.where(length > 2, 2 + np.floor(draw * (length - 2)).astype(np.int64), 0)
    counts[f"prefixes_without_inner_{unit}"] = int((removed == 0).sum())
    plain = rows.select("layer", "key", "rank", "coefficient", "sentence", pl.col("position").cast(pl.Int64))
    plain = plain.with_columns(removed_tokens=pl.lit(1))
    parts = [
        plain.with_columns(pl.lit(name).alias("mutation"), pl.Series("removed", token, dtype=pl.Int64))
        for name, token in (("first", np.ones_like(length)), ("last", length), ("random", removed))
    ]
    mutated = pl.concat(parts).filter(pl.col("removed") > 0).sort("layer", "key", "rank", "mutation")
    if words is not None:
        places = (mutated[name].cast(pl.Int64).to_numpy() for name in ("sentence", "position", "removed"))
        first, tokens = words.span(*places)
        mutated = mutated.with_columns(pl.Series("removed", first), pl.Series("removed_tokens", tokens))
    if options.random == "earlier":
        rest = pl.when(pl.col("mutation") == "random").then(pl.col("position") - pl.col("removed") + 1)
        mutated = mutated.with_columns(removed_tokens=rest.otherwise("removed_tokens"))
    return mutated, counts


def table(
    decoder: LanguageModel,
    corpus: Corpus,
    rows: pl.DataFrame,
    options: Mutations,
    batch_tokens: int,
    shard: Shard = WHOLE,
) -> pl.DataFrame:
    """Return a shard of the ``mutations`` table, of rows of ``sample``: ``change`` = mutated / coefficient − 1.

    Every mutated trigger's memory coefficient is read at its last position. A shard has whole batches, which run as
    they would with all.
    """
    paths, path = mutated_paths(corpus, rows)
    parts = share(list(prefix_tree.cut(paths, batch_tokens, decoder.forests)), shard)
    first, end = (parts[0].start, parts[-1].stop) if parts else (0, 0)
    in_shard = (path >= first) & (path < end)
    rows, path = rows.filter(in_shard), path[in_shard]
    position = (rows["position"].cast(pl.Int64) - rows["removed_tokens"].cast(pl.Int64)).to_numpy()
    layer, key = (rows[c].to_numpy().astype(np.int64) for c in ("layer", "key"))
    mutated = np.empty(len(rows), dtype=np.float32)
    by_path = np.argsort(path, kind="stable")

    def run(part: range) -> None:
        indices = by_path[slice(*np.searchsorted(path[by_path], [part.start, part.stop]))]
        reads = path[indices] - part.start, position[indices], layer[indices]
        texts = paths[part.start : part.stop]
        trees: Trees
        if decoder.forests:
            trees = prefix_tree.PrefixTree(texts, *reads, decoder.device, decoder.start)
            x = decoder.embed(trees)
        else:
            trees = prefix_tree.PlainPaths(*decoder.pack_unsorted(texts), *reads)
            x = decoder.embed(trees.batch)
        mutated[indices] = _read(decoder, x, trees, layer[indices], key[indices])
        progress.step(len(indices))

    with torch.inference_mode(), Progress(len(rows), "mutated triggers", "mutations") as progress:
        for part in parts:
            retry_smaller(run, part, "text")
    require_finite("memory coefficients of mutated triggers", torch.from_numpy(mutated))
    several = ["removed_tokens"] if options.unit == "word" or options.random == "earlier" else []
    change = relative_change(*(pl.col(name).cast(pl.Float64) for name in ("mutated", "coefficient")))
    return rows.with_columns(mutated=mutated).select(
        "layer", "key", "rank", "mutation", "removed", *several, "coefficient", "mutated", change.alias("change")
    )


def mutated_paths(corpus: Corpus, rows: pl.DataFrame) -> tuple[list[np.ndarray], np.ndarray]:
    """Return the texts that run, in lexicographic order, none the beginning of another, and each row's text (rows,).

    of the sentence a b c d        what is left    text that runs   its number
    prefix of 4, without its last  a b c           a b c            0
    prefix of 2, without its last  a               a b c            0
    prefix of 4, without its first b c d           b c d            1
    """
    rows = rows.with_columns(pl.col("position", "removed", "removed_tokens").cast(pl.Int64))
    last = pl.col("removed") + pl.col("removed_tokens") - 1 == pl.col("position")
    runs = rows.select(
        "sentence",
        (pl.col("position") - pl.col("removed_tokens")).alias("length"),
        pl.when(last).then(NOTHING).otherwise("removed").alias("removed"),
        pl.when(last).then(NOTHING).otherwise("removed_tokens").alias("removed_tokens"),
    )
    which = ["sentence", "removed", "removed_tokens"]
    every = runs.group_by(which).agg(pl.col("length").max()).with_row_index("text")
    texts = []
    for sentence, removed, many, length in every.select(*which, "length").iter_rows():
        tokens = corpus.sentence(sentence)
        if removed != NOTHING:
            tokens = np.delete(tokens, slice(removed - 1, removed - 1 + many))
        texts.append(tokens[:length].astype(">u4").tobytes())  # such bytes sort as the tokens do
    order = sorted(range(len(texts)), key=texts.__getitem__)
    path_of = np.empty(len(texts), dtype=np.int64)
    paths: list[np.ndarray] = []
    for i, following in zip_longest(order, order[1:]):
        path_of[i] = len(paths)
        if following is None or not texts[following].startswith(texts[i]):
            paths.append(np.frombuffer(texts[i], dtype=">u4").astype(np.int64))
    text = runs.join(every, on=which, how="left", maintain_order="left")["text"].to_numpy()
    return paths, path_of[text]


def _read(decoder: LanguageModel, x: torch.Tensor, trees: Trees, layer: np.ndarray, key: np.ndarray) -> np.ndarray:
    """Run a forest, or plain paths, from the first layer's input (rows, d); return the coefficients of its reads."""
    send = partial(torch.as_tensor, device=decoder.device)
    out = torch.empty(len(layer), device=decoder.device, dtype=decoder.dtype)
    for index, block in enumerate(decoder.layers[: trees.depth]):
        level, rows = trees.level(index + 1), trees.level_rows[index + 1]
        last = index + 1 == trees.depth
        layer_output = block(x[:rows], level, last=last, needed=None if last else trees.level_rows[index + 2])
        here = np.flatnonzero(layer == index + 1)
        out[send(here)] = signed_coefficients(layer_output.coefficients, send(trees.row[here]), send(key[here]))
        x = layer_output.output
    return out.cpu().numpy()


def run(
    config: Settings,
    weights: Input,
    description: Input,
    corpus: Input,
    triggers: Input,
    mutations: Output,
    counts: Output,
    execution: Execution,
    shard: Shard = (1, 1),
) -> None:
    """Run one shard of the mutated triggers; the first one counts what was left out of all of them."""
    options, text = config.mutations, store.read(corpus)
    decoder = load_model(weights, description, execution, config.precision)
    listed = trigger_table.read(triggers, decoder, text, decoder.precision)
    layers, looked_at = decoder.description.layers, memory_selection.count(config.looked_at, decoder)
    words = Words(text) if options.unit == "word" else None
    chosen, left_out = sample(listed, layers, decoder.memories, options, config.seed, looked_at, words)
    mutated = table(decoder, text, chosen, options, execution.batch_tokens, shard)
    tables.write_counts("mutations", left_out, counts, shard)
    tables.write(mutated, mutations, decoder.precision, decoder.neurons)
