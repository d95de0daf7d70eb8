"""Recompute rows of the measured tables from the model and the text: one function per table."""

import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import torch

from ff_memories import tables
from ff_memories.audit import closeness as compare
from ff_memories.audit import tolerances
from ff_memories.audit.closeness import DIFFERS, NEAR_TIE, Closeness, Result
from ff_memories.audit.oracle import Oracle
from ff_memories.audit.seen import Reference, Seen
from ff_memories.config import Settings
from ff_memories.corpus import sample, store, texts
from ff_memories.corpus.dictionary import BOS, Dictionary
from ff_memories.corpus.prefixes import POSITIONS
from ff_memories.corpus.store import Corpus
from ff_memories.corpus.types import Types, folded, read_types
from ff_memories.inputs import model_folder
from ff_memories.memories import chosen
from ff_memories.memories.composition import SHARES
from ff_memories.memories.values import other
from ff_memories.tables import TOP_LEVEL
from ff_memories.workflow.run import Run

Row = dict[str, Any]


@dataclass
class Evidence:
    """What rows are recomputed from. ``given``: the examples, if the config names them in a file."""

    oracle: Reference
    corpus: Corpus
    config: Settings
    tables: dict[str, pl.DataFrame]
    given: pl.DataFrame | None = None
    lists: dict[tuple[int, int], pl.DataFrame] = field(init=False)
    near: Closeness = field(init=False)
    never: list[int] = field(default_factory=list)  # ids of the types that are never trained
    folds: np.ndarray | None = None  # the class of every type, if the run compares tokens by class also
    _tops: dict[tuple[str, int, int], list[int]] = field(init=False, default_factory=dict)
    _norms: dict[int, torch.Tensor] = field(init=False, default_factory=dict)

    def __post_init__(self) -> None:
        self.near = Closeness(tolerances.of(self.config.precision))
        if "triggers" in self.tables:
            self.lists = self.tables["triggers"].partition_by("layer", "key", as_dict=True, maintain_order=True)

    @classmethod
    def read(cls, run: Run, names: Iterable[str], at: Callable[[str], Path]) -> "Evidence":
        """Read a run's model, corpus and tables; ``at`` maps a file of the run to the place to read it from."""
        types = read_types(at(run.dictionary))
        oracle = _reference(run, types, at)
        frames = {name: tables.read(at(run.table(name))) for name in names}
        corpus, file = store.read(at(run.path("corpus", "corpus.safetensors"))), run.config.composition.sample_file
        given = sample.read(at(file), _validation(run, types, at), corpus.lengths) if file else None
        return cls(oracle, corpus, Settings(run.resolved), frames, given, types.never_trained(), folded(types))

    @cached_property
    def looked_at(self) -> list[tuple[int, int]] | None:
        """(layer, key) of the keys that the run looks at, drawn again from its seed; ``None`` for all."""
        (layers, keys), signs = self.oracle.keys, self.oracle.signs
        found = chosen.memories(self.config.looked_at, layers, keys // signs, self.config)
        return None if found is None else chosen.keys(found, keys // signs, signs)

    def prefix(self, row: Row) -> np.ndarray:
        return self.corpus.sentence(row["sentence"])[: row["position"]]

    def parts(self, row: Row) -> list[tuple[int, int]]:
        """Return what mutations may remove from a prefix: the first token, from 1, and number of tokens of each."""
        starts, length = np.arange(row["position"]), row["position"]
        if self.config.mutations.unit == "word" and self.corpus.begins is not None:
            first = self.corpus.offsets[row["sentence"]]
            starts = np.flatnonzero(self.corpus.begins[first : first + length])
        return [(int(a) + 1, int(b - a)) for a, b in zip(starts, [*starts[1:], length], strict=True)] if length else []

    def following(self, row: Row) -> int | None:
        """Return the token after a prefix; ``None`` at the end of its sentence."""
        tokens = self.corpus.sentence(row["sentence"])
        return int(tokens[row["position"]]) if row["position"] < len(tokens) else None

    def trigger(self, row: Row) -> Row:
        """Return the trigger of a (layer, key, rank)."""
        return self.lists[row["layer"], row["key"]].row(row["rank"] - 1, named=True)

    def among(self, types: str, log_probabilities: torch.Tensor) -> torch.Tensor:
        """Return log-probabilities, with -inf for types that ``values.types`` excludes."""
        if types == "all" or not self.never:
            return log_probabilities
        return log_probabilities.index_fill(0, torch.tensor(self.never), -torch.inf)

    def norms(self, layer: int) -> torch.Tensor:
        """Return (d_m,) the lengths of a layer's values."""
        if layer not in self._norms:
            keys = range(self.oracle.keys[1] // self.oracle.signs)
            self._norms[layer] = torch.stack([self.oracle.value(layer, key).norm() for key in keys])
        return self._norms[layer]

    def tops(self, types: str, layer: int, key: int) -> list[int]:
        """Return the token that a value predicts among the given types, then the tokens too close to it to call."""
        if (types, layer, key) not in self._tops:
            said = self.among(types, self.oracle.of_memory(self.oracle.value(layer, key)))
            best = int(said.argmax())
            close = torch.nonzero(said >= said[best] - self.near.limits.probability).flatten().tolist()
            self._tops[types, layer, key] = [best, *(token for token in close if token != best)]
        return self._tops[types, layer, key]


def _reference(run: Run, types: Types, at: Callable[[str], Path]) -> Reference:
    """Load the run's model from its original files with the library that it is of."""
    values, model = run.resolved["values"], run.config.model
    if isinstance(types, Dictionary):
        return Oracle(at(run.checkpoint), types, values["projection"], values["projection_seed"])
    from ff_memories.audit.transformers_oracle import TransformersOracle  # the library takes seconds to load

    folder = at(run.model_folder)
    model_folder.check_digests(folder, model.files)
    signs, residual = run.resolved["triggers"]["signs"], run.resolved["composition"]["residual"]
    return TransformersOracle(folder, model.start, signs, values["projection"], residual)


def _validation(run: Run, types: Types, at: Callable[[str], Path]) -> dict[int, str]:
    """Return the validation sentences as text, by number."""
    here = pl.col("file").map_elements(lambda file: str(at(file)), return_dtype=pl.String)
    sentences = tables.read(at(run.table("sentences"))).filter(pl.col("split") == "validation")
    return texts.of_sentences(sentences.with_columns(here), types if run.is_transformer else None)


def lengths(evidence: Evidence, sentence: int) -> range:
    """Return the prefix lengths of a sentence that ``triggers.positions`` allows."""
    low, high = POSITIONS[evidence.config.triggers.positions]
    return range(low, len(evidence.corpus.sentence(sentence)) + high + 1)


def trigger(evidence: Evidence, row: Row) -> Result:
    """Check a row of E1: the prefix's coefficient, whether it is its sentence's best, and the next token."""
    results = [compare.same("next_token", row["next_token"], evidence.following(row))]
    seen = evidence.oracle.layers(evidence.corpus.sentence(row["sentence"]))[row["layer"] - 1]
    m = seen.coefficients()[:, row["key"]]
    allowed = lengths(evidence, row["sentence"])
    if row["position"] not in allowed:
        return Result(DIFFERS, f"position {row['position']} is not in {allowed.start} to {allowed.stop - 1}")
    own = float(m[row["position"]])
    results.append(evidence.near.coefficient("coefficient", row["coefficient"], own, _noise(evidence, seen)))
    best = float(m[allowed.start : allowed.stop].max())
    if evidence.config.triggers.per_sentence == "best" and best > own:
        say = f"the best position of its sentence is {int(m.argmax())}, not {row['position']}"
        results.append(Result(NEAR_TIE if best <= own * (1 + evidence.near.limits.tie) else DIFFERS, say))
    return compare.together(results)


def _noise(evidence: Evidence, seen: Seen) -> float:
    """Return the largest error of a layer's scores in the run's precision."""
    return seen.noise(evidence.near.limits.noise)


def mutation(evidence: Evidence, row: Row) -> Result:
    """Check a row of E3: a trigger's coefficient after removing one token or word."""
    source = evidence.trigger(row)
    prefix, parts = evidence.prefix(source), evidence.parts(source)
    at = row["removed"], row.get("removed_tokens", 1)
    if not parts or at not in {"first": parts[:1], "last": parts[-1:], "random": parts}[row["mutation"]]:
        unit = evidence.config.mutations.unit
        return Result(DIFFERS, f"removed is {row['removed']}, but the prefix has {len(parts)} {unit}s")
    seen = evidence.oracle.layers(np.delete(prefix, slice(at[0] - 1, sum(at) - 1)))[row["layer"] - 1]
    found = float(seen.coefficients()[-1, row["key"]])
    change = row["mutated"] / row["coefficient"] - 1
    return compare.together([
        compare.same("coefficient", row["coefficient"], source["coefficient"]),
        evidence.near.coefficient(
            "mutated", row["mutated"], found, _noise(evidence, seen), max(found, source["coefficient"])
        ),
        evidence.near.coefficient("change", row["change"], change, scale=1 + abs(change)),
    ])  # fmt: skip


def value(evidence: Evidence, row: Row) -> Result:
    """Check a row of E4-E7: a value's prediction, and its agreement with its key's triggers."""
    said = evidence.oracle.of_value(evidence.oracle.value(row["layer"], row["key"]))
    targets = _targets(evidence, row)
    first = targets[0] if targets else None
    known = [target for target in targets if target is not None]
    results = [
        compare.same("next_token", row["next_token"], first),
        compare.same("triggers", row["triggers"], len(known)),
    ]
    for types, suffix in suffixes(evidence, row, "top_token"):
        results += _predicted(evidence, row, evidence.among(types, said), first, known, suffix)
    return compare.together(results)


def suffixes(evidence: Evidence, row: Row, column: str) -> Iterator[tuple[str, str]]:
    """Yield each choice of ``values.types`` for which a row has columns, and the columns' suffix."""
    own = evidence.config.values.types
    yield own, ""
    if f"{column}_{other(own)}" in row:
        yield other(own), f"_{other(own)}"


def _predicted(
    evidence: Evidence, row: Row, said: torch.Tensor, first: int | None, known: list[int], suffix: str
) -> list[Result]:
    """Compare a value's prediction with the columns that have the given suffix."""
    top = row["top_token" + suffix]
    named = lambda column: (column + suffix, row[column + suffix])
    results = [
        evidence.near.top(*named("top_token"), said),
        evidence.near.probability(*named("top_probability"), float(said.max().exp())),
        compare.same(*named("agrees"), None if first is None else first == top),
        compare.same(*named("agreeing_triggers"), known.count(top)),
    ]
    if evidence.folds is not None:
        alike = lambda token: bool(evidence.folds[token] == evidence.folds[top])
        found: dict[str, bool | int | None] = {"agrees_folded": None if first is None else alike(first)}
        found["agreeing_triggers_folded"] = sum(map(alike, known))
        results += [  # a table without these columns is not this run's
            compare.same(name + suffix, row.get(name + suffix), right) for name, right in found.items()
        ]
    if first is None:
        results.append(compare.same(*named("next_token_rank"), None))
    elif first < len(said) and said[first] > -torch.inf:  # with the head alone, rarer words have no rank
        results.append(evidence.near.rank(*named("next_token_rank"), said, first))
    return results


def _targets(evidence: Evidence, row: Row) -> list[int | None]:
    """Return the target tokens of a key's triggers, best trigger first (``values.target``)."""
    listed = evidence.lists.get((row["layer"], row["key"]))
    if listed is None:
        return []
    if evidence.config.values.target == "next":
        return listed["next_token"].to_list()
    return [int(p[-1]) if len(p := evidence.prefix(r)) else BOS for r in listed.iter_rows(named=True)]


def promoted(evidence: Evidence, row: Row) -> Result:
    """Check a row of ``promoted``: a token's probability, rank and logit."""
    value = evidence.oracle.value(row["layer"], row["key"])
    said, token = evidence.oracle.of_value(value), row["token"]
    results = [
        evidence.near.probability("probability", row["probability"], float(said[token].exp())),
        evidence.near.rank("token_rank", row["token_rank"], said, token),
    ]
    if "logit" in row:
        results.append(evidence.near.logit("logit", row["logit"], float(_logits(evidence, value)[token])))
    return compare.together(results)


def demoted(evidence: Evidence, row: Row) -> Result:
    """Check a row of ``demoted``: a token's logit and rank from below."""
    logits, token = _logits(evidence, evidence.oracle.value(row["layer"], row["key"])), row["token"]
    return compare.together([
        evidence.near.logit("logit", row["logit"], float(logits[token])),
        evidence.near.rank("token_rank", row["token_rank"], -logits, token),
    ])  # fmt: skip


def _logits(evidence: Evidence, value: torch.Tensor) -> torch.Tensor:
    """Return (vocab,) what a value adds to the log-probabilities under a vector of zeros, less the mean."""
    added = evidence.oracle.of_value(value) - evidence.oracle.of_value(torch.zeros_like(value))
    return added - added.mean()


def shading(evidence: Evidence, row: Row) -> Result:
    """Check a row of ``shading``: the key's coefficient after one token of a trigger."""
    return _along(
        evidence,
        row,
        lambda found, noise: evidence.near.coefficient("coefficient", row["coefficient"], found, noise),
    )


def level(evidence: Evidence, row: Row) -> Result:
    """Check a row of ``levels``: the same as a share of the key's largest coefficient."""
    most = evidence.lists[row["layer"], row["key"]].row(0, named=True)["coefficient"]

    def judge(found: float, noise: float) -> Result:
        exact = TOP_LEVEL * min(max(found / most, 0), 1)
        error = TOP_LEVEL * (noise / most + evidence.near.limits.coefficient)
        nearest = lambda level: math.floor(level + 0.5)
        return compare.within("level", row["level"], nearest(exact), nearest(exact - error), nearest(exact + error))

    return _along(evidence, row, judge)


def _along(evidence: Evidence, row: Row, judge: Callable[[float, float], Result]) -> Result:
    """Judge the coefficient, and its noise, after one token of a trigger."""
    source = evidence.trigger(row)
    if not 1 <= row["position"] <= source["position"]:
        return Result(DIFFERS, f"position {row['position']} is not in 1 to {source['position']}")
    seen = evidence.oracle.layers(evidence.prefix(source))[row["layer"] - 1]
    return judge(float(seen.coefficients()[row["position"], row["key"]]), _noise(evidence, seen))


def sampled(evidence: Evidence, row: Row) -> Result:
    """Check a row of ``samples``: the key's coefficient after a prefix."""
    seen = evidence.oracle.layers(evidence.prefix(row))[row["layer"] - 1]
    found = float(seen.coefficients()[-1, row["key"]])
    return evidence.near.coefficient("coefficient", row["coefficient"], found, _noise(evidence, seen))


def similar(evidence: Evidence, row: Row) -> Result:
    """Check a row of ``similar``: the cosine of two memories' keys or values."""
    vector = evidence.oracle.value if row["of"] == "value" else evidence.oracle.key
    one, other = vector(row["layer"], row["key"]), vector(row["other_layer"], row["other_key"])
    cosine = float(torch.nn.functional.cosine_similarity(one, other, dim=0))
    return evidence.near.coefficient("cosine", row["cosine"], cosine, scale=1.0)


def example(evidence: Evidence, row: Row) -> Result:
    """Check a row of ``examples`` (section 5): the next token, and the model's own prediction."""
    last = evidence.oracle.layers(evidence.prefix(row))[-1]
    return compare.together([
        compare.same("next_token", row["next_token"], evidence.following(row)),
        evidence.near.top("model_top", row["model_top"], evidence.oracle.of_layer(last.output[-1])),
    ])  # fmt: skip


def composition(evidence: Evidence, row: Row) -> Result:
    """Check a row of E8-E10: a layer's active memories, its predictions, and how many memories agree with it."""
    seen = _at(evidence, row)[row["layer"] - 1]
    energies = (seen.m[-1] * evidence.norms(row["layer"])).square()
    if (share := SHARES.get(evidence.config.composition.memories)) is not None:
        fires, unsure = _fewest(seen, energies, share)
    else:
        fires, unsure = seen.coefficients()[-1] > 0, seen.unsure(evidence.near.limits.noise)
    says = row["ffn_top" if evidence.config.composition.layer_prediction == "ffn" else "output_top"]
    may = torch.ones_like(fires) if evidence.config.composition.memories == "all" else fires
    active, close = int(fires.sum()), int(unsure.sum())
    agreeing = []
    for types, suffix in suffixes(evidence, row, "agreeing_memories"):
        keys = torch.nonzero(may | unsure).flatten()
        found, near = _agreeing(evidence, types, row["layer"], keys, may & ~unsure, says)
        column = "agreeing_memories" + suffix
        agreeing.append(compare.within(column, row[column], found, found - near, found + near))
    return compare.together([
        compare.within("active", row["active"], active, active - close, active + close),
        *([_effective(evidence, row, energies)] if "effective" in row else []),
        evidence.near.top("ffn_top", row["ffn_top"], evidence.oracle.of_layer(seen.ffn[-1])),
        evidence.near.top("output_top", row["output_top"], evidence.oracle.of_layer(seen.output[-1])),
        *agreeing,
    ])  # fmt: skip


def _fewest(seen: Seen, energies: torch.Tensor, share: float) -> tuple[torch.Tensor, torch.Tensor]:
    """Return (memories,) bool: the fewest with a share of the energy (d_m,), and those that rounding may swap."""
    ordered, index = energies.sort(descending=True)
    reached, target = ordered.cumsum(0), share * energies.sum()
    count = int((reached < target).sum()) + 1 if energies.any() else 0
    chosen, close = torch.zeros_like(energies, dtype=torch.bool), torch.zeros_like(energies, dtype=torch.bool)
    chosen[index[:count]] = True
    if count:
        alike = (energies - ordered[count - 1]).abs() <= 1e-4 * ordered[count - 1]
        close = alike & (alike.sum() > 1)
        close[index[(reached - target).abs() <= 1e-4 * target]] = True
        close[index[1:][(reached - target).abs()[:-1] <= 1e-4 * target]] = True
    if seen.signs == 1:
        return chosen, close
    m = seen.m[-1]
    return torch.cat([chosen & (m > 0), chosen & (m < 0)]), torch.cat([close, close])


def _effective(evidence: Evidence, row: Row, energies: torch.Tensor) -> Result:
    """Compare the participation ratio of energies (d_m,)."""
    found = float(energies.sum() ** 2 / energies.square().sum()) if energies.any() else 0.0
    return evidence.near.probability("effective", row["effective"], found)


def _agreeing(
    evidence: Evidence, types: str, layer: int, keys: torch.Tensor, may: torch.Tensor, token: int
) -> tuple[int, int]:
    """Return how many of the given memories predict a token, and how many are too close to call."""
    agree = close = 0
    for key in keys.tolist():
        tops = evidence.tops(types, layer, key)
        agree += bool(may[key]) and tops[0] == token
        close += token in tops and (len(tops) > 1 or not may[key])
    return agree, close


def refinement(evidence: Evidence, row: Row) -> Result:
    """Check a row of E11-E13: predictions of residual, feed-forward and output at a layer, and the resulting kind."""
    layers = _at(evidence, row)
    here, last = layers[row["layer"] - 1], layers[-1]
    residual = evidence.oracle.of_layer(here.residual[-1])
    probability = float(residual[row["model_top"]].exp())
    same = (row["output_top"] == row["residual_top"], row["output_top"] == row["ffn_top"])
    kind = {(True, True): "agreement", (True, False): "residual", (False, True): "ffn"}.get(same, "composition")
    return compare.together([
        evidence.near.top("residual_top", row["residual_top"], residual),
        evidence.near.top("ffn_top", row["ffn_top"], evidence.oracle.of_layer(here.ffn[-1])),
        evidence.near.top("output_top", row["output_top"], evidence.oracle.of_layer(here.output[-1])),
        evidence.near.top("model_top", row["model_top"], evidence.oracle.of_layer(last.output[-1])),
        evidence.near.probability("residual_probability", row["residual_probability"], probability),
        compare.same("kind", row["kind"], kind),
    ])  # fmt: skip


def _at(evidence: Evidence, row: Row) -> list[Seen]:
    example = evidence.tables["examples"].filter(pl.col("example") == row["example"]).row(0, named=True)
    return evidence.oracle.layers(evidence.prefix(example))
