"""Recompute the tables of a run's baselines: its model on the sample of the text, and untrained models.

The weights of untrained models and the sample are drawn again from the config's seed. The engine finds the triggers
again, since a baseline records none. All labels and the perplexity follow from these; a sample of the other rows is
recomputed with the reference model, like rows of the run.
"""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import polars as pl

from ff_memories import tables
from ff_memories.audit import closeness, structure, tolerances
from ff_memories.audit.closeness import DIFFERS, NEAR_TIE, Result
from ff_memories.audit.evidence import At, Evidence, reference
from ff_memories.audit.rows import look
from ff_memories.base.parameters import Execution
from ff_memories.config import Settings
from ff_memories.corpus import store
from ff_memories.corpus.store import Corpus
from ff_memories.corpus.types import Types, read_types
from ff_memories.memories import chosen, untrained
from ff_memories.memories import perplexity as perplexities
from ff_memories.memories.trigger_table import table as trigger_table
from ff_memories.memories.triggers import trigger_examples
from ff_memories.model.decoder import LanguageModel
from ff_memories.model.loading import load_model
from ff_memories.patterns import distance, proxy
from ff_memories.patterns.embedding import train_counts
from ff_memories.patterns.sample import read_keys
from ff_memories.workflow.run import Run

ROWS = ("values", "mutations", "examples", "composition", "refinement")  # recomputed by sample
LABELS = ("annotations", "pattern_labels", "distance_labels")  # made again, all of them
PERPLEXITY = "perplexity"
BATCH = 4096  # tokens in one pass of the engine
Found = tuple[str, str, Result]  # table, place, result


def models(run: Run) -> list[str]:
    """Return the names of the models that a run's baselines have."""
    return sorted(path.name for path in Path(run.path("baselines")).glob("*") if path.is_dir())


@dataclass
class Baseline:
    """A model of a run's baselines as it is measured: with the sample of the text and its triggers in it."""

    run: Run
    name: str
    at: At
    types: Types
    settings: Settings
    corpus: Corpus
    own: LanguageModel  # the run's
    model: LanguageModel
    listed: pl.DataFrame
    unsure: dict[tuple[int, int], int]

    @classmethod
    def of(cls, run: Run, name: str, at: At = Path) -> "Baseline":
        """Draw the model again and find its triggers.

        Args:
            name: ``same_sample``, or ``untrained-1`` and so on.
            at: from a file of the run to the place to read it from.
        """
        settings = Settings(untrained.smaller(run.resolved))
        corpus = store.read(at(run.path("corpus", "corpus.safetensors")))
        weights, description = (at(run.path("model", f"model.{end}")) for end in ("safetensors", "json"))
        own = load_model(weights, description, Execution(device="cpu", threads=1), settings.precision)
        made = untrained.model_of(name, own, settings.seed, weights, description)
        return cls(run, name, at, read_types(at(run.dictionary)), settings, corpus, own, made,
                   *lists(made, corpus, settings))  # fmt: skip

    def evidence(self, frames: Mapping[str, pl.DataFrame]) -> Evidence:
        """Return the model's tables with the reference model that has its weights."""
        draw = None if self.name == untrained.SAME_SAMPLE else int(self.name.removeprefix(untrained.UNTRAINED))
        drawn = None if draw is None else (self.own, self.settings.seed, draw)
        own = {name: frame for name, frame in frames.items() if name in ROWS}
        return Evidence(
            reference(self.run, self.types, self.at, drawn), self.corpus, self.settings,
            own | {"triggers": self.listed}, None, self.types.never_trained(), None, True, self.unsure,
        )  # fmt: skip


def evidence(run: Run, model: str, frames: Mapping[str, pl.DataFrame], at: At = Path) -> Evidence:
    """Return what rows of a baseline are recomputed from."""
    return Baseline.of(run, model, at).evidence(frames)


def labels(run: Run, model: str, frames: Mapping[str, pl.DataFrame]) -> Iterator[Found]:
    """Yield the result of every label of a baseline, given those tables and its ``refinement``."""
    return _labels(Baseline.of(run, model), frames)


def recompute(run: Run, model: str, rows: Mapping[str, np.ndarray], at: At) -> Iterator[Found]:
    """Yield the result of every row that is looked at, and of every contradiction.

    Args:
        model: ``same_sample``, or ``untrained-1`` and so on.
        rows: {table: which of its rows to recompute}.
        at: from a file of the run to the place to read it from.
    """
    frames = {name: tables.read(at(run.path("baselines", model, f"{name}.parquet"))) for name in (*ROWS, *LABELS)}
    recorded = json.loads(at(run.path("baselines", model, "perplexity.json")).read_text(encoding="utf-8"))
    baseline = Baseline.of(run, model, at)
    yield PERPLEXITY, model, _perplexity(recorded, baseline)
    yield from _labels(baseline, frames)
    known = baseline.evidence(frames)
    del baseline
    for said in structure.faults(known):
        yield "structure", model, Result(DIFFERS, said)
    for name, part in rows.items():
        for place, result in look(known, name, part):
            yield name, f"{model} {place}", result


def lists(decoder: LanguageModel, corpus: Corpus, config: Settings) -> tuple[pl.DataFrame, dict[tuple[int, int], int]]:
    """Find a model's triggers in a baseline's sample of the text.

    Returns:
        The ``triggers`` table, by the run's sentence numbers; and, for keys whose last trigger and the next one are a
        near-tie, how many triggers are near-ties with the last.
    """
    (text, numbers), options = untrained.sample(corpus, config.seed), config.triggers
    best = trigger_examples(
        decoder, text, [(0, text.train)], top=options.top + 1, positions=options.positions,
        per_sentence=options.per_sentence, duplicates=options.duplicates, batch_tokens=BATCH,
        keys=chosen.of_model(options.keys, decoder, config),
    )  # fmt: skip
    found = tables.conform(trigger_table(best, text), tables.TABLES["triggers"])
    found = found.with_columns(pl.Series("sentence", numbers[found["sentence"].to_numpy()].astype(np.uint32)))
    listed = found.filter(pl.col("rank") <= options.top)
    beyond = found.filter(pl.col("rank") > options.top).select("layer", "key", beyond="coefficient")
    tie = tolerances.of(config.precision).tie
    last = pl.col("coefficient").last().over("layer", "key")
    at_end = listed.join(beyond, on=["layer", "key"]).filter(
        (pl.col("coefficient") <= last * (1 + tie)) & (last <= pl.col("beyond") * (1 + tie))
    )
    counted = at_end.group_by("layer", "key").len()
    return listed, {(layer, key): n for layer, key, n in counted.iter_rows()}


def _perplexity(recorded: dict[str, object], baseline: Baseline) -> Result:
    """Measure a model's perplexity again."""
    whole = baseline.name == untrained.SAME_SAMPLE
    sentences = perplexities.SENTENCES if whole else untrained.PREDICTED_SENTENCES
    again = perplexities.perplexity(baseline.model, baseline.corpus, baseline.settings.seed, BATCH, sentences)
    limit = tolerances.of(baseline.settings.precision).probability
    number = "perplexity"
    results = [closeness.same(name, recorded.get(name), value) for name, value in again.items() if name != number]
    one, other = recorded.get(number), again[number]
    if isinstance(one, float) and isinstance(other, float):  # limits are of log-probabilities
        close = abs(np.log(one) - np.log(other)) <= limit * max(1.0, abs(float(np.log(other))))
        results.append(Result() if close else Result(DIFFERS, f"perplexity is {one:g}, recomputed {other:g}"))
    else:
        results.append(closeness.same(number, one, other))
    return closeness.together(results)


def _labels(baseline: Baseline, frames: Mapping[str, pl.DataFrame]) -> Iterator[Found]:
    """Label again with the automatic proxy, as the step does; keys with near-ties may have other labels."""
    config, corpus, types, model = baseline.settings, baseline.corpus, baseline.types, baseline.name
    own, listed = baseline.own, baseline.listed
    text, numbers = untrained.sample(corpus, config.seed)
    place = np.zeros(len(corpus), np.int64)
    place[numbers] = np.arange(len(numbers))
    triggers = listed.with_columns(pl.Series("sentence", place[listed["sentence"].to_numpy()].astype(np.uint32)))
    keys = read_keys(triggers, text, config.patterns.keys_per_layer, config.patterns.top, config.seed)
    annotator = proxy.Annotator.of(text, types, own.embedding.float().cpu(), triggers, config.seed)
    found, labelled = proxy.annotate(annotator, keys)
    vectors, counts = own.vocabulary.word_vectors().float().cpu(), train_counts(text, len(types))
    closer = distance.Closeness.of(vectors, counts, types.types, config.seed)
    judged = distance.label(distance.compositions(frames["refinement"], config.seed), types.types, closer)
    close = _near_ties(listed, corpus, tolerances.of(config.precision).tie)
    for name, again in (("annotations", found), ("pattern_labels", labelled), ("distance_labels", judged)):
        again = tables.conform(again, tables.TABLES[name])
        key, recorded = list(tables.TABLES[name].key), frames[name]
        wrong = pl.concat([
            recorded.join(again, on=recorded.columns, how="anti", nulls_equal=True),
            again.join(recorded, on=recorded.columns, how="anti", nulls_equal=True),
        ]).unique(subset=key, maintain_order=True)  # fmt: skip
        for row in wrong.iter_rows(named=True):
            where = " ".join(f"{column} {row[column]}" for column in key)
            tie = (row.get("layer"), row.get("key")) in close
            yield name, f"{model} {where}", Result(NEAR_TIE if tie else DIFFERS, "not the label that the proxy gives")
        for _ in range(len(recorded) - len(wrong)):
            yield name, model, Result()


def _near_ties(listed: pl.DataFrame, corpus: Corpus, tie: float) -> set[tuple[int, int]]:
    """Return the (layer, key) with neighbouring triggers of almost equal coefficients and unlike texts."""
    before = [pl.col(name).shift(1).over("layer", "key").alias(f"before_{name}") for name in ("sentence", "position")]
    gap = pl.col("coefficient").shift(1).over("layer", "key") - pl.col("coefficient")
    near = listed.with_columns(*before, gap=gap).filter(pl.col("gap") <= tie * pl.col("coefficient"))
    text = lambda sentence, position: corpus.sentence(sentence)[:position].tobytes()
    return {
        (row["layer"], row["key"])
        for row in near.iter_rows(named=True)
        if text(row["sentence"], row["position"]) != text(row["before_sentence"], row["before_position"])
    }
