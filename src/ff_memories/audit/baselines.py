"""Recompute the tables of a run's baselines: its model on the sample of the text, and untrained models.

The weights of untrained models and the sample are drawn again from the config's seed. The engine finds the triggers
again, since a baseline records none, and the means that `causal` sets coefficients to. All labels follow from these; a
sample of the other rows is recomputed with the reference model, like rows of the run.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import islice
from pathlib import Path

import numpy as np
import polars as pl
from pydantic import BaseModel

from ff_memories import tables
from ff_memories.annotate import distance, proxy, semantic
from ff_memories.annotate.study import Prefix, SampledKey, read_keys
from ff_memories.annotate.words import train_counts
from ff_memories.audit import audit_inputs
from ff_memories.audit.audit_inputs import BATCH, BEYOND, At, AuditInputs, Ends
from ff_memories.audit.near_equal import DIFFERS, FEW, NEAR_TIE, Result, RowResult, tolerances
from ff_memories.audit.recompute import contradictions, place
from ff_memories.base import foreign
from ff_memories.base.errors import UserError
from ff_memories.config import Settings
from ff_memories.config.sections import SAME_SAMPLE
from ff_memories.corpus import store
from ff_memories.corpus.tokenizer import read_types
from ff_memories.model import drawn
from ff_memories.model.decoder import LanguageModel
from ff_memories.paper.beyond import survey
from ff_memories.paper.keys import memory_selection
from ff_memories.paper.keys.trigger_table import table as trigger_table
from ff_memories.paper.keys.triggers import trigger_examples
from ff_memories.workflow.run import Run

OWN = {name: schema for name, schema in tables.TABLES.items() if schema.of_baselines}
ROWS = tuple(name for name, schema in OWN.items() if schema.measured)  # recomputed by sample
LABELS = tuple(name for name in OWN if name not in ROWS)  # made again, all of them
OF_KEYS = tuple(name for name in LABELS if "key" in OWN[name].key)
ORDERS = 64  # of tied triggers that are tried for one key


class _Perplexity(BaseModel, extra="forbid"):
    """What one way of reading the text gives (``model.perplexity``)."""

    perplexity: float | None
    tokens: int
    context: str


class _InWindows(_Perplexity):
    windows: int
    window: int


class _BySentence(_Perplexity):
    """The content of perplexity.json, whose numbers are not recomputed."""

    sentences: int
    in_windows: _InWindows


def file(run: Run, model: str, table: str) -> str:
    """Return the file of a table of a model of the baselines."""
    return run.path("models", model, "proxy" if table in LABELS else "tables", f"{table}.parquet")


class Baseline:
    """A model of ``config.baselines.names`` as it is measured, drawn again: its sample of the text, and its triggers.

    ``own``: the run's model. ``listed``, ``unsure``: the triggers that are found here, and the ends of ``lists``. The
    model itself is not kept: it is as large as the run's.
    """

    def __init__(self, run: Run, name: str, at: At = Path):
        self.run, self.name, self.at, self.types = run, name, at, read_types(at(run.dictionary))
        self.settings = Settings(run.config.baselines.of_a_model(run.resolved))
        self.corpus = store.read(at(run.path("corpus", "corpus.safetensors")))
        self.own = model = audit_inputs.engine(run, at)
        if name != SAME_SAMPLE:
            model = drawn.model_like(self.own, name, self.settings.seed, *audit_inputs.converted(run, at))
        self.listed, self.unsure = lists(model, self.corpus, self.settings)
        self.surveyed = survey.survey(model, self.corpus, self.settings.seed, BATCH)

    def inputs(self, frames: Mapping[str, pl.DataFrame]) -> AuditInputs:
        """Return the model's tables with the reference model that has its weights."""
        fresh = None if self.name == SAME_SAMPLE else (self.own, self.settings.seed, self.name)
        known = {name: frame for name, frame in frames.items() if name in ROWS} | {"triggers": self.listed}
        oracle = audit_inputs.reference(self.run, self.types, self.at, fresh)
        inputs = AuditInputs(oracle, self.corpus, self.settings, known, lambda: self.surveyed)
        inputs.never, inputs.found_here, inputs.unsure = self.types.never_trained(), True, self.unsure
        return inputs

    def label(self, refinement: pl.DataFrame) -> dict[str, pl.DataFrame]:
        """Return the tables of ``LABELS`` that the automatic proxy makes; keep its sampled keys for ``fits``."""
        config = self.settings
        text = self.corpus.sample(config.seed, config.baselines.sentences)
        assert text.numbers is not None, "of a sample"
        sentences = np.searchsorted(text.numbers, self.listed["sentence"].to_numpy()).astype(np.uint32)
        triggers = self.listed.with_columns(pl.Series("sentence", sentences))
        keys = read_keys(triggers, text, config.patterns.keys_per_layer, config.patterns.top, config.seed)
        self.keys = {(key.layer, key.key): key for key in keys}
        self.annotator = proxy.Annotator(text, self.types, self.own.embedding.float().cpu(), triggers, config.seed)
        vectors, counts = self.own.vocabulary.word_vectors().float().cpu(), train_counts(text, len(self.types))
        closer = semantic.WordCloseness(vectors, counts, self.types.types, config.seed)
        judged = distance.label(distance.compositions(refinement, config.seed), self.types.types, closer)
        return {**self._of(keys), "distance_labels": tables.conform(judged, tables.TABLES["distance_labels"])}

    def _of(self, keys: list[SampledKey]) -> dict[str, pl.DataFrame]:
        labels = zip(OF_KEYS, proxy.annotate(self.annotator, keys), strict=True)
        return {name: tables.conform(frame, tables.TABLES[name]) for name, frame in labels}

    def fits(self, layer: int, key: int, frames: Mapping[str, pl.DataFrame]) -> bool:
        """Return whether some order of a key's tied triggers gives the labels that ``frames`` has of it.

        Of more than ``ORDERS`` orders, none is ruled out.
        """
        if (sampled_key := self.keys.get((layer, key))) is None:
            return False
        at = (pl.col("layer") == layer) & (pl.col("key") == key)
        recorded = {name: frames[name].filter(at) for name in OF_KEYS}
        rows = self.listed.filter(at)
        if (layer, key) in self.unsure:
            rows = pl.concat([rows, self.unsure[layer, key][1].select(rows.columns)])
        places = rows.select("sentence", "position").iter_rows()
        texts = [tuple(self.corpus.sentence(sentence)[:position].tolist()) for sentence, position in places]
        limits = tolerances(self.settings.precision)
        noise = limits.noise * audit_inputs.largest(self.listed)[layer]
        every = orders(rows["coefficient"].to_list(), texts, len(sampled_key.ranks), limits.tie, noise)
        for prefixes in islice(every, ORDERS):
            again = self._of([replace(sampled_key, prefixes=prefixes)])
            if all(again[name].equals(recorded[name]) for name in OF_KEYS):
                return True
        return next(every, None) is not None


def read(run: Run, model: str, at: At = Path) -> tuple[AuditInputs, list[RowResult], list[str]]:
    """Return what rows of a model are recomputed from, the result of every label, and what contradicts other tables."""
    frames = {name: audit_inputs.read_table(at(file(run, model, name))) for name in OWN}
    baseline = Baseline(run, model, at)
    inputs = baseline.inputs(frames)
    lines = contradictions(inputs, {name: at(file(run, model, name)) for name in OWN})
    lines += odd_perplexity(at(run.path("models", model, "perplexity.json")))
    return inputs, list(labelled(baseline, frames)), lines


def odd_perplexity(path: Path) -> Iterator[str]:
    """Yield what is missing in a perplexity.json, of another type, or further than what the step writes."""
    try:
        foreign.read_json(path, _BySentence)
    except UserError as error:
        yield f"perplexity: {str(error).removeprefix(f'{path}: ')}"


def lists(decoder: LanguageModel, corpus: store.Corpus, config: Settings) -> tuple[pl.DataFrame, Ends]:
    """Find a model's triggers in a baseline's sample of the text; return them by the run's sentence numbers.

    Also return the ends of lists whose last trigger and the next one are a near-tie.
    """
    text, options = corpus.sample(config.seed, config.baselines.sentences), config.triggers
    more = options.model_copy(update={"top": options.top + BEYOND})
    keys = memory_selection.of_model(options.keys, decoder, config)
    best = trigger_examples(decoder, text, [(0, text.train)], more, BATCH, keys)
    ranked = tables.conform(trigger_table(best, text), tables.TABLES["triggers"])
    assert text.numbers is not None, "of a sample"
    ranked = ranked.with_columns(pl.Series("sentence", text.numbers[ranked["sentence"].to_numpy()].astype(np.uint32)))
    listed = ranked.filter(pl.col("rank") <= options.top)
    last = listed.group_by("layer", "key").agg(last=pl.col("coefficient").last())
    limits, most = tolerances(config.precision), audit_inputs.largest(listed)
    noise = limits.noise * pl.col("layer").replace_strict(most, return_dtype=pl.Float64)
    gap = (pl.col("coefficient") - pl.col("last")).abs()
    close = gap <= limits.tie * pl.max_horizontal("coefficient", "last") + noise
    near = ranked.join(last, on=["layer", "key"], maintain_order="left").filter(close)
    near = near.filter((pl.col("rank") > options.top).any().over("layer", "key"))
    ends: Ends = {}
    for (layer, key), part in near.partition_by("layer", "key", as_dict=True, maintain_order=True).items():
        inside, beyond = part.filter(pl.col("rank") <= options.top), part.filter(pl.col("rank") > options.top)
        ends[layer, key] = len(inside), beyond
    return listed, ends


def orders(
    coefficients: Sequence[float], texts: Sequence[Prefix], n: int, tie: float, noise: float = 0.0
) -> Iterator[tuple[Prefix, ...]]:
    """Yield the first ``n`` texts in every order in which only near-ties change places, the given order first.

    Their coefficients descend. ``tie``: the largest gap of a near-tie, relative to the larger one; ``noise``: as much
    more.
    """

    def further(left: tuple[int, ...], chosen: tuple[Prefix, ...]) -> Iterator[tuple[Prefix, ...]]:
        if len(chosen) == n or not left:
            yield chosen
            return
        most, tried = coefficients[left[0]], set()
        for i in left:
            if most - coefficients[i] > tie * most + noise:
                break
            if texts[i] not in tried:
                tried.add(texts[i])
                yield from further(tuple(j for j in left if j != i), (*chosen, texts[i]))

    yield from further(tuple(range(len(texts))), ())


def labelled(baseline: Baseline, frames: Mapping[str, pl.DataFrame]) -> Iterator[RowResult]:
    """Label again with the automatic proxy, as the step does.

    A key's labels may be those of another order of its tied triggers, but only so many may.
    """
    made, limits = baseline.label(frames["refinement"]), tolerances(baseline.settings.precision)
    wrong = {}
    for name, again in made.items():
        sides = (again, frames[name]), (frames[name], again)
        unlike = pl.concat([one.join(other, on=other.columns, how="anti", nulls_equal=True) for other, one in sides])
        wrong[name] = unlike.unique(subset=list(tables.TABLES[name].key), maintain_order=True)
    odd = sorted({pair for name in OF_KEYS for pair in wrong[name].select("layer", "key").iter_rows()})
    most = int(limits.excused * len(baseline.keys)) + FEW
    tied = {(layer, key) for layer, key in odd if len(odd) <= most and baseline.fits(layer, key, frames)}
    for name, rows in wrong.items():
        for row in rows.iter_rows(named=True):
            state = NEAR_TIE if (row.get("layer"), row.get("key")) in tied else DIFFERS
            yield name, f"{name}, {place(name, row)}", Result(state, "not the label that the proxy gives")
        yield from [(name, name, Result())] * (len(frames[name]) - len(rows))
