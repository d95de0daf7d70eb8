"""What rows are recomputed from: a reference model in float64, the text, the config and the tables.

There is one for the run's own tables, and one for each model of ``models/``: the run's model on the smaller sample
of the text, and untrained models, whose weights are drawn again from the config's seed.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from copy import copy
from dataclasses import dataclass, field, replace
from functools import cache, cached_property
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Any, Union

import numpy as np
import polars as pl
import torch

from ff_memories import tables
from ff_memories.audit.equations import Activations, Change, Equations
from ff_memories.audit.near_equal import ERRORS, Comparer, Result, tolerances
from ff_memories.base.errors import UserError, rebuild_hint
from ff_memories.base.parameters import Execution
from ff_memories.config import Settings
from ff_memories.config.model import TransformersModel
from ff_memories.corpus import sample, store, text
from ff_memories.corpus.dictionary import Dictionary
from ff_memories.corpus.tokenizer import Types, folded, read_types
from ff_memories.inputs import model_folder
from ff_memories.model import drawn
from ff_memories.model.decoder import LanguageModel
from ff_memories.model.loading import load_model
from ff_memories.paper.beyond import survey
from ff_memories.paper.keys import memory_selection
from ff_memories.workflow.run import Run

if TYPE_CHECKING:  # the library takes seconds to load
    from ff_memories.audit.transformers_oracle import TransformersOracle

Reference = Union[Equations, "TransformersOracle"]
TableRow = dict[str, Any]
KEY = ["layer", "key"]
KEPT, ROOM = 256, 5e8  # the tokens of sentences and prefixes whose activations are kept, at most, and their bytes
BATCH = 4096  # tokens in one pass of the engine
At = Callable[[str], Path]  # from a file of the run to the place to read it from
# {(layer, key): the end of a list of triggers, where it is a near-tie with what the list leaves out: how many of it are
# near-ties with the last, and the prefixes beyond that are, as rows of ``triggers``}
Ends = dict[tuple[int, int], tuple[int, pl.DataFrame]]
BEYOND = 8  # prefixes after a list's last that are looked at, to tell near-ties


def read_table(path: str | Path, name: str | None = None) -> pl.DataFrame:
    """Read a table (``tables.read``). Raises ``UserError`` for a number that is not finite, too."""
    frame = tables.read(path, name)
    if odd := [c for c in frame.columns if frame[c].dtype.is_float() and not frame[c].is_finite().all()]:
        raise UserError(f"{path}: {odd[0]} has a number that is not finite", rebuild_hint(path))
    return frame


def engine(run: Run, at: At) -> LanguageModel:
    """Return a run's model as its steps run it, on the CPU; it has no tf32, so such a run's numbers are float32's."""
    precision = Settings(run.resolved).precision
    here = "float32" if precision == "tf32" else precision
    return load_model(*converted(run, at), Execution(device="cpu", threads=torch.get_num_threads()), here)


def converted(run: Run, at: At) -> tuple[Path, Path]:
    """Return the files of a run's model as its steps read it, weights and description."""
    return at(run.path("model", "model.safetensors")), at(run.path("model", "model.json"))


def largest(triggers: pl.DataFrame) -> dict[int, float]:
    """Return {layer: the largest coefficient} of lists of triggers."""
    return dict(triggers.group_by("layer").agg(pl.col("coefficient").max()).iter_rows())


class Later(Exception):
    """Raised for a change that shall run together with others (``AuditInputs.changed``)."""


@dataclass
class AuditInputs:
    """What rows are recomputed from."""

    oracle: Reference
    corpus: store.Corpus
    config: Settings
    tables: dict[str, pl.DataFrame]  # a baseline records no ``triggers``: the engine finds its lists here
    surveyed: Callable[[], survey.Survey]  # how strongly memories fire where `causal` tests them, by the engine
    given: pl.DataFrame | None = None  # the examples, if the config names them in a file
    near: Comparer = field(init=False)
    never: list[int] = field(default_factory=list)  # ids of the types that are never trained
    folds: np.ndarray | None = None  # (vocab,) the class of every type, if the run compares tokens by class also
    found_here: bool = False  # whether lists of triggers were found on this machine: near-ties may be in another order
    unsure: Ends = field(default_factory=dict)  # which triggers at the end of such a list may be others
    chosen: dict[str, int] | None = None  # what the exact pass of ``by_its_own_error`` chose, for its other passes
    quick: bool = False  # whether the reference model computes in float32, in half the time: only what matches is sure
    asked: dict[bytes, Change] | None = None  # the changes that rows ask for, while they are gathered
    changes: dict[bytes, tuple[torch.Tensor, torch.Tensor]] = field(init=False, default_factory=dict)  # that ran
    _ran: dict[bytes, list[Activations]] = field(init=False, default_factory=dict)
    _norms: dict[tuple[int, torch.dtype], torch.Tensor] = field(init=False, default_factory=dict)

    def __post_init__(self) -> None:
        self.near = Comparer(tolerances(self.config.precision))

    @classmethod
    def read(cls, run: Run, names: Iterable[str], at: At = Path) -> "AuditInputs":
        """Read a run's model, corpus and tables; ``at`` maps a file of the run to the place to read it from."""
        types = read_types(at(run.dictionary))
        oracle = reference(run, types, at)
        frames = {name: read_table(at(run.table(name))) for name in names}
        corpus, file = store.read(at(run.path("corpus", "corpus.safetensors"))), run.config.composition.sample_file
        given = None
        if file:
            here = pl.col("file").map_elements(lambda path: str(at(path)), return_dtype=pl.String)
            validation = tables.read(at(run.table("sentences"))).filter(pl.col("split") == "validation")
            tokenizer = types if run.config.model.has_tokenizer else None
            texts = text.of_sentences(validation.with_columns(here), tokenizer)
            given = sample.read(at(file), texts, corpus.lengths)
        surveyed = cache(lambda: survey.survey(engine(run, at), corpus, run.config.seed, BATCH))
        never, folds = types.never_trained(), folded(types)
        return cls(oracle, corpus, Settings(run.resolved), frames, surveyed, given, never, folds)

    @cached_property
    def looked_at(self) -> pl.DataFrame:
        """The keys that the run looks at, ``layer`` and ``key``; those of a sample are drawn again from its seed."""
        (layers, keys), signs = self.oracle.keys, self.oracle.signs
        pairs = memory_selection.looked_at(self.config.looked_at, layers, keys // signs, signs, self.config)
        pairs = list(product(range(1, layers + 1), range(keys))) if pairs is None else pairs
        return pl.DataFrame(pairs, schema={"layer": pl.UInt8, "key": pl.UInt16}, orient="row")

    @cached_property
    def largest(self) -> dict[int, float]:
        """The largest coefficient of each layer, to which the error of those near zero is relative."""
        return largest(self.tables["triggers"])

    def layers(self, tokens: np.ndarray, until: int | None = None) -> list[Activations]:
        """Run a sentence, or a prefix, as ``Equations.layers`` does; the last ones are not run again."""
        until = until or self.oracle.keys[0]
        key = tokens.tobytes()
        self.run_together({key: tokens}, until)
        return self._ran[key][:until]

    @cached_property
    def kept(self) -> int:
        """How many tokens' activations are kept."""
        (layers, memories), width = self.oracle.keys, self.oracle.vectors("added", 1).shape[1]
        numbers = 3 * memories / self.oracle.signs + 4 * width  # of a token in a layer
        return min(KEPT, int(ROOM / 8 / layers / numbers))

    def run_together(self, texts: Mapping[bytes, np.ndarray], until: int) -> None:
        """Run sentences or prefixes, by their bytes, and keep the last ``kept`` tokens' activations, and theirs."""
        todo = {key: tokens for key, tokens in texts.items() if len(self._ran.get(key, [])) < until}
        if not todo:
            return
        self._ran.update(zip(todo, self.oracle.several(list(todo.values()), until), strict=True))
        kept = sum(len(activations[0].m) for activations in self._ran.values())
        for key in [key for key in self._ran if key not in texts]:
            if kept > self.kept:
                kept -= len(self._ran.pop(key)[0].m)

    def changed(self, change: Change) -> tuple[torch.Tensor, torch.Tensor]:
        """Return what ``Equations.changed`` gives. Raises ``Later`` while gathering, ``IndexError`` for no layer."""
        if not 1 <= change.layer <= self.oracle.keys[0]:
            raise IndexError(change.layer)
        name = b" ".join([np.asarray(change.tokens).tobytes(), b"%d" % change.layer, change.vector.numpy().tobytes()])
        if name not in self.changes and self.asked is not None:
            self.asked[name] = change
            raise Later
        return self.changes.get(name) or self.oracle.changed(change)[0]

    def layer(self, tokens: np.ndarray, layer: int) -> Activations:
        """Return the activations of layer 1..L for a sentence or a prefix. Raises ``IndexError`` for another layer."""
        if not 1 <= layer <= self.oracle.keys[0]:
            raise IndexError(layer)
        return self.layers(tokens, layer)[-1]

    def noise(self, here: Activations, row: int = -1) -> float:
        """Return the largest error of a coefficient, which may be that of its own row."""
        return self.near.error(here.m[row], here.noise(self.near.limits.noise))

    def own_noise(self, here: Activations, row: int) -> float:
        """Return the same where a row's own error was measured, and otherwise 0."""
        return self.noise(here, row) * (self.near.errors is not None)

    def by_its_own_error(self, check: Callable[["AuditInputs"], Result]) -> Result:
        """Judge by how far the reference model is off in float32: in coefficients, logits and log-probabilities."""

        chosen: dict[str, int] = {}

        def judged(ran: dict[bytes, list[Activations]], **given: Any) -> Result:
            own = copy(self)
            own._ran, own.chosen, own.near = ran, chosen, replace(self.near, **given)
            own.changes = self.changes if ran is self._ran else {}
            return check(own)

        exact, rounded = list[torch.Tensor](), list[torch.Tensor]()
        judged(self._ran, seen=exact)
        with self.oracle.in_float32(), suppress(RuntimeError):  # a model whose code needs float64 gives no errors
            judged({}, seen=rounded)
        pairs = zip(exact, rounded, strict=False)  # where rounding chooses among memories, one may have tried more
        gaps = (torch.where(one == other, 0.0, (one - other).abs()).max() for one, other in pairs)
        errors = iter([ERRORS * float(gap.nan_to_num(0.0, 0.0)) for gap in gaps])  # no overflow counts
        return judged(self._ran, errors=errors)

    def prefix(self, row: TableRow) -> np.ndarray:
        return self.corpus.sentence(row["sentence"])[: row["position"]]

    @cached_property
    def _lists(self) -> dict[tuple[int, int], tuple[int, int]]:
        """{(layer, key): the first row of its triggers, which stand together, and how many there are}."""
        rows = self.tables["triggers"].select(*KEY, place=pl.int_range(pl.len()))
        ends = rows.group_by(KEY).agg(pl.col("place").min(), pl.len()).iter_rows()
        return {(layer, key): (first, count) for layer, key, first, count in ends}

    def triggers(self, layer: int, key: int) -> pl.DataFrame:
        """Return a key's triggers, best first; no row if it has none."""
        return self.tables["triggers"].slice(*self._lists.get((layer, key), (0, 0)))

    def lengths(self, sentence: int) -> range:
        """Return the prefix lengths of a sentence that ``triggers.positions`` allows."""
        low, high = store.POSITIONS[self.config.triggers.positions]
        return range(low, len(self.corpus.sentence(sentence)) + high + 1)

    def following(self, row: TableRow) -> int | None:
        """Return the token after a prefix; ``None`` at the end of its sentence."""
        tokens = self.corpus.sentence(row["sentence"])
        return int(tokens[row["position"]]) if row["position"] < len(tokens) else None

    def trigger(self, row: TableRow) -> TableRow:
        """Return the trigger of a (layer, key, rank)."""
        return self.triggers(row["layer"], row["key"]).row(row["rank"] - 1, named=True)

    def candidates(self, row: TableRow) -> list[TableRow]:
        """Return the triggers that may have a (layer, key, rank): near-ties too if the lists were found here."""
        trigger = self.trigger(row)
        if not self.found_here:
            return [trigger]
        gap = (pl.col("coefficient") - trigger["coefficient"]).abs()
        may = self.near.limits.tie * trigger["coefficient"] + self.near.limits.noise * self.largest[row["layer"]]
        near = self.triggers(row["layer"], row["key"]).filter(gap <= may)
        return [trigger, *(other for other in near.to_dicts() if other["rank"] != trigger["rank"])]

    def vector(self, of: str, layer: int, memory: int) -> torch.Tensor:
        """Return a memory's vector (``Equations.vectors``); of memory d_m + i it is that of i with its sign changed."""
        every, neurons = self.oracle.vectors(of, layer), self.oracle.keys[1] // self.oracle.signs
        if not 0 <= memory < self.oracle.keys[1]:
            raise IndexError(memory)
        return every[memory] if memory < neurons else -every[memory - neurons]

    def norms(self, layer: int) -> torch.Tensor:
        """Return (d_m,) the lengths of a layer's values."""
        if (key := (layer, self.oracle.vectors("added", layer).dtype)) not in self._norms:
            self._norms[key] = self.oracle.vectors("value", layer).norm(dim=1)
        return self._norms[key]

    @cached_property
    def mean_length(self) -> torch.Tensor:
        """The mean length of all values, layers alike."""
        return torch.stack([self.norms(layer).mean() for layer in range(1, self.oracle.keys[0] + 1)]).mean()

    def following_all(self, rows: pl.DataFrame) -> pl.Series:
        """Return the token behind each (sentence, position), null at the end of a sentence or outside of the text."""
        sentence, position = (rows[name].cast(pl.Int64).to_numpy() for name in ("sentence", "position"))
        in_text = sentence < len(self.corpus)
        following = self.corpus.following(np.where(in_text, sentence, 0), position)
        token = pl.Series("next_token", np.where(in_text, following, -1))
        return token.set(token < 0, None).cast(pl.UInt32)

    def other_rows(self, name: str, again: pl.DataFrame) -> Iterator[str]:
        """Yield how a table's rows, or their cells in the columns of ``again``, are other than these."""
        key = [column for column in tables.TABLES[name].key if column in again.columns]
        plain = pl.col(again.columns).cast(pl.String)  # whatever the types of integers and categories
        one, two = (frame.select(plain).sort(key) for frame in (self.tables[name], again))
        if not one.select(key).equals(two.select(key)):
            yield "not the rows that the config, the seed and other tables give"
            return
        for column in again.columns:
            if not one[column].equals(two[column]):
                yield f"{column} does not follow from the seed, the text or other tables"


@dataclass(frozen=True)
class TableAudit:
    """How a measured table is audited: the module ``audit`` of its section says it, in ``AUDITS``."""

    row: Callable[[AuditInputs, TableRow], Result]  # compares a row with what the reference model and the text give
    # what the model has to run for a row: until which layer, and sentences or prefixes
    runs: Callable[[AuditInputs, TableRow], tuple[int, list[np.ndarray]]]
    # yields what the table contradicts, in all rows: other tables, the text and the config
    faults: Callable[[AuditInputs], Iterator[str]]
    counts: Callable[[AuditInputs], dict[str, int]] | None = None  # what its step's ``counts`` must say, if it has any


def reference(run: Run, types: Types, at: At, fresh: tuple[LanguageModel, int, str] | None = None) -> Reference:
    """Load the run's model from its original files with the library that it is of.

    ``fresh``: the run's model, a seed and a name: then the weights are those of this model of its baselines.
    """
    values, model = run.resolved["values"], run.config.model
    if isinstance(types, Dictionary):
        oracle = Equations(at(run.inputs.model_file("checkpoint")), values["projection"], values["projection_seed"])
        if fresh is not None:
            oracle.draw_again(drawn.weights_of(*converted(run, at), *fresh[1:]))
        return oracle
    from ff_memories.audit.transformers_oracle import TransformersOracle  # the library takes seconds to load

    assert isinstance(model, TransformersModel) and run.inputs.model_folder, "only these have a tokenizer"
    folder = at(run.inputs.model_folder)
    model_folder.check_digests(folder, model.files)
    signs, residual = run.resolved["triggers"]["signs"], run.resolved["composition"]["residual"]
    model_like = None if fresh is None else drawn.drawn_by_transformers(*fresh)
    return TransformersOracle(folder, model.start, signs, values["projection"], residual, model_like)
