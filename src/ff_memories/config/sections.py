"""What all sections of the config share, and the sections on the text, the experiments and how a run computes.

``model`` has the section on the language model.
"""

import unicodedata
from typing import TYPE_CHECKING, Annotated, Any, Literal, Self, Union, get_args, get_origin

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, field_validator, model_validator
from pydantic.fields import FieldInfo

from ff_memories.base import machine
from ff_memories.base.arithmetic import Precision
from ff_memories.base.errors import UserError
from ff_memories.base.parameters import LARGEST
from ff_memories.base.text import escape_invisible

OF_TRANSFORMERS: dict[str, Any] = {"only": "transformers"}  # keys that new files leave out: of these models alone


def plain_path(path: str) -> str:
    """Return a path that quoting makes safe on a command line. Raises ``ValueError`` for others."""
    if path.startswith("-"):
        raise ValueError(f"{path}: a command would read this path as an option; write it as ./{path}")
    if odd := [c for c in path if unicodedata.category(c).startswith("C") or c in "\u2028\u2029"]:
        raise ValueError(f"the path contains the character {escape_invisible(odd[0])}; rename the file")
    if set(path) & set("{}"):
        raise ValueError(f"{path}: Snakemake reads braces in a path as wildcards; rename the file")
    return path


FilePath = Annotated[str, AfterValidator(plain_path)]


class Undeclared(UserError, AttributeError):
    """Raised when a step reads what ``--config`` does not have."""

    def __init__(self, name: str):
        hint = "give --config a run's config file, or add that key"
        super().__init__(f"this step reads {name} of the config, which its rule does not declare", hint)


class Section(BaseModel):
    """A section of the config. A key's meaning stands in its ``Field``, or below it if it takes more than a line."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True, use_attribute_docstrings=True)

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:  # of a key that `Settings` left out, or of none
            raise Undeclared(name) if name in type(self).model_fields else AttributeError(name)


def kinds_of(field: FieldInfo | None) -> list[type[Section]]:
    """Return the types of a section, of which it has one; none for a plain or an unknown key."""
    kind = None if field is None else field.annotation
    kinds = [next(iter(get_args(part)), part) for part in get_args(kind)] if get_origin(kind) is Union else [kind]
    return [part for part in kinds if isinstance(part, type) and issubclass(part, Section)]


def keys_of(field: FieldInfo | None) -> dict[str, FieldInfo]:
    """Return the keys of a section, by name; none for a plain or an unknown key."""
    return {name: key for kind in kinds_of(field) for name, key in kind.model_fields.items()}


def about(field: FieldInfo | None) -> str:
    """Return what a section is about."""
    first, *others = kinds_of(field)
    return str((first.__base__ if others else first).__doc__).partition("\n")[0]


def _selection(given: Any) -> Any:
    """Check how many or which memories a config asks for; in JSON the layers are strings."""
    wrong = "expected a number of memories per layer, or by layer a list of memories, such as {3: [17, 255]}"
    if given is None or (type(given) is int and 1 <= given <= 65_536):
        return given
    if not isinstance(given, dict) or not given:
        raise ValueError(wrong)
    out = {
        int(layer) if isinstance(layer, str) and layer.isdecimal() else layer: memories
        for layer, memories in given.items()
    }
    for layer, memories in out.items():
        if type(layer) is not int or not 1 <= layer <= 255 or not isinstance(memories, list) or not memories:
            raise ValueError(f"{wrong}; found {layer!r}: {memories!r}")
        if odd := [memory for memory in memories if type(memory) is not int or not 0 <= memory <= 65_535]:
            raise ValueError(f"layer {layer}: {odd[0]!r} is not the number of a memory")
        if len(set(memories)) < len(memories):
            raise ValueError(f"layer {layer}: a memory is listed twice")
    return out


MemorySelection = Annotated[int | dict[int, list[int]] | None, BeforeValidator(_selection)]


class TextFiles(Section):
    """The text files of one split, in reading order."""

    files: list[FilePath] = Field(description="text files (UTF-8, one paragraph or heading per line)")
    max_sentences: int | None = Field(None, ge=1, description="use only this many sentences, from the start; null: all")


class CorpusSection(Section):
    """The text: where it comes from and how to split it into sentences and tokens."""

    source: str | None = Field(description="a named source, such as `wikitext-103`; null: the files of both splits")
    train: TextFiles = Field(description="training text, searched for triggers (section 3.1)")
    validation: TextFiles = Field(description="validation text, on which the layers are observed (section 5)")
    sha256: str | None = Field(pattern=r"^[0-9a-f]{64}$")
    """SHA-256 of all text files, concatenated in order; null: no check"""
    segmenter: str = Field("rule", pattern=r"^(rule|line|spacy:[\w.-]+)$")
    """how to split paragraphs into sentences: rule (after `. ! ?`) | `spacy:<pipeline>` | line (one sentence per
    line)"""
    tokenizer: Literal["auto", "native", "moses", "model"] = "auto"
    """how to split sentences into tokens: native (at spaces; paper) | moses (released) | model (the tokenizer of a
    `transformers` model)"""
    headings: Literal["keep", "drop"] = Field("keep", description="headings, such as ` = Title = `: keep | drop")
    too_long: Literal["refuse", "split"] = "refuse"
    """sentences of more tokens than the model has positions: refuse (an error) | split"""

    @model_validator(mode="after")
    def _one_origin(self) -> Self:
        for split in ("train", "validation"):
            if (self.source is None) != bool(getattr(self, split).files):
                raise ValueError(f"give either source or {split}.files, and not both")
        return self


class Triggers(Section):
    """E1, section 3.1: the t prefixes with the highest memory coefficients, for every key."""

    top: int = Field(50, ge=1, le=65535, description="number of triggers per key (t)")
    per_sentence: Literal["best", "all"] = Field("best", description="a key's prefixes per sentence: best (one) | all")
    positions: Literal["auto", "inner", "released", "full"] = "auto"
    """prefix lengths in a sentence of N tokens: inner (1..N-1; paper) | released (0..N-1) | full (1..N)"""
    duplicates: Literal["keep", "drop"] = Field("keep", description="a key's triggers of equal text: keep | drop")
    signs: Literal["auto", "positive", "both"] = Field("auto", json_schema_extra=OF_TRANSFORMERS)
    """coefficients whose size counts: positive (paper) | both: negative ones are triggers of the memory's negative
    value | auto: both for gated layers (SwiGLU), else positive"""
    keys: MemorySelection = None
    """memories to look at: null (all; paper) | a number (so many random ones of each layer) | a list by layer, such as
    `{3: [17, 255]}`"""


class Mutations(Section):
    """E3, section 3.2: remove the first, the last or a random token of each trigger."""

    keys_per_layer: int = Field(100, ge=1, le=65_536, description="number of random keys per layer")
    top: int = Field(50, ge=1, le=65_535, description="number of triggers to mutate per key")
    random: Literal["any", "inner", "earlier"] = "inner"
    """what the random removal takes: inner (a token that is neither first nor last) | any (any token; paper) | earlier
    (an inner token and all after it: a control, since a trigger is its sentence's maximum)"""
    single_token: Literal["skip", "bos"] = "skip"
    """triggers of one token: skip | bos (use the coefficient at `</s>`)"""
    mean: Literal["of_ratios", "of_sums"] = "of_ratios"
    """of_ratios: mean of the relative changes | of_sums: relative change of the sums"""
    unit: Literal["token", "word"] = Field("token", json_schema_extra=OF_TRANSFORMERS)
    """what to remove: token (paper) | word (all tokens of a word; `random` and `single_token` then count words)"""


class Patterns(Section):
    """E2, section 3.1: the sample of keys to annotate."""

    keys_per_layer: int = Field(10, ge=1, le=65_536, description="number of random keys per layer")
    top: int = Field(25, ge=3, le=255, description="number of triggers to show per key")


class Values(Section):
    """E4-E7, section 4: compare the predictions of values with their keys' triggers."""

    target: Literal["auto", "next", "last"] = "auto"
    """target token: next (the one after the trigger; paper) | last (the trigger's last one; released)"""
    projection: Literal["auto", "adaptive", "flat", "head", "random", "raw", "scaled"] = "auto"
    """how values become distributions: adaptive (the model's own softmax; paper) | flat (one softmax over the
    vocabulary) | head (only the head's words) | random (random projections, as in the released script); for a
    `transformers` model: raw (its output matrix) | scaled (times the scale of its final norm)"""
    projection_seed: int = Field(1, ge=0, le=LARGEST, description="seed of the random projections")
    length: Literal["own", "mean"] = "own"
    """length of a value that is read: own (paper) | mean (that of all the model's values: a control, since long values
    are more confident)"""
    types: Literal["all", "trained"] = "all"
    """token types that a value can predict: all (paper) | trained (without those never trained: `<s>`, `<pad>` and
    counts of zero; in a `transformers` model, types without text); the tables have both"""


class Composition(Section):
    """E8-E14, section 5: how memories and layers compose their predictions on validation prefixes."""

    examples: int = Field(4000, ge=1, le=10**9, description="random prefixes; all sentences if there are fewer")
    sample: Literal["per_sentence", "uniform"] = "per_sentence"
    """how to sample: per_sentence (one prefix from each sampled sentence) | uniform (over all prefixes)"""
    sample_file: FilePath | None = None
    """a file of JSON lines with `text` (a validation sentence) and `random_pos` (a prefix length): use these prefixes
    in this order; docs/exports.md says how to write one; null: sample at random"""
    positions: Literal["auto", "1..N", "0..N", "1..N-1"] = "auto"
    """prefix lengths in a sentence of N tokens: 1..N (paper) | 0..N (released) | 1..N-1"""
    layer_prediction: Literal["auto", "ffn", "output"] = "auto"
    """the prediction that memories agree with: ffn (top(y); paper) | output (top(o); released)"""
    memories: Literal["active", "all", "share:0.9"] = "active"
    """memories that can agree: active (positive coefficient; paper) | all | share:0.9 (the fewest that add 90 % of the
    layer's energy, the sum of (coefficient times the value's length) squared)"""
    residual: Literal["added", "read"] = Field("added", json_schema_extra=OF_TRANSFORMERS)
    """the residual r: added (what the feed-forward output is added to; paper) | read (what the feed-forward layer's
    block reads; it differs in parallel blocks alone)"""
    stop_words: Literal["sklearn", "spacy", "top50", "top100"] = "sklearn"
    """stop words: sklearn, spacy (the package's list) | top50, top100 (the most frequent types)"""


class Causal(Section):
    """Beyond the paper: what changing a memory's coefficient does to the tokens that its value promotes."""

    keys_per_layer: int = Field(5, ge=0, le=65_536)
    """random memories of each layer, of both signs where both count; 0: none"""
    prefixes: int = Field(4, ge=1, le=1000)
    """validation prefixes per memory: half its strongest, half where it is active"""
    interventions: list[Literal["mean", "zero", "resample", "double"]] = Field(
        ["mean", "zero", "resample", "double"], min_length=1
    )
    """what to set the coefficient to: mean (its mean over other validation prefixes) | zero | resample (its value at
    another prefix) | double; controls take the first one, which cannot be resample"""

    @field_validator("interventions")
    @classmethod
    def _once(cls, given: list[str]) -> list[str]:
        if len(set(given)) < len(given):
            raise ValueError("an intervention is listed twice")
        if given and given[0] == "resample":
            raise ValueError("controls take the first intervention, which cannot be resample")
        return given


class Removals(Section):
    """Beyond the paper: what removing a layer's strongest memories together does to its prediction."""

    prefixes: int = Field(40, ge=0, le=512)
    """validation prefixes at whose ends memories of each layer are removed; 0: none"""
    memories: list[int] = Field([1, 2, 5, 10, 20], min_length=1)
    """how many memories to remove together, the strongest ones, ascending; numbers above a layer's memories are left
    out and counted"""

    @field_validator("memories")
    @classmethod
    def _ascending(cls, given: list[int]) -> list[int]:
        if given != sorted(set(given)) or not 1 <= given[0] <= given[-1] <= 65_535:
            raise ValueError("expected different numbers from 1 to 65535, ascending")
        return given


SAME_SAMPLE, UNTRAINED, SHUFFLED = "same_sample", "untrained-", "shuffled-"  # the models of a run's baselines, by name
# of what is measured on a model of the baselines, at most: keys are resampled, not triggers, so more tell little
MUTATED_TRIGGERS, CHANGED_MEMORIES, REMOVED_PREFIXES = 10, 2, 20
MOST_SHARDS = 64  # of `execution.shards: auto`: more jobs take longer to start than a run of usual size takes


class Sources(Section):
    """Named sources, and the checks of a named checkpoint against known numbers (golden checks)."""

    registry: FilePath | None = None
    """a TOML file of your own sources, which add to the package's or replace them; null: none"""
    golden: Literal["check", "off"] = "check"
    """golden checks of a named checkpoint: check | off (the run then counts as a surrogate)"""


class ExecutionSection(Section):
    """Resources. These keys change no result beyond near-ties, and changing them reruns nothing."""

    device: Literal["auto", "cpu", "cuda"] = Field("auto", description="where the model runs; auto: a GPU, if any")
    shards: Literal["auto"] | Annotated[int, Field(ge=1, le=10_000)] = "auto"
    """number of jobs that share each step that runs the model; auto: as many as run at once, 64 at most; of a small
    model, they share the search for triggers alone"""
    batch_tokens: Literal["auto"] | Annotated[int, Field(ge=1)] = 16_384
    """tokens per forward pass; lower it if memory runs out. auto: 16384 on a CPU, as many as fit a GPU"""
    arithmetic: Literal["portable", "fast"] = "portable"
    """on a CPU: portable (the same bits on every x86-64 CPU with AVX2; one thread per job) | fast"""

    @property
    def tokens(self) -> int:
        """The tokens of a forward pass on this machine."""
        return machine.batch_tokens(self.batch_tokens, self.device)

    def shards_for(self, jobs: int) -> int:
        """Return the number of shards of a machine or cluster that runs so many jobs at once."""
        return min(MOST_SHARDS, jobs) if self.shards == "auto" else self.shards


class Extraction(Section):
    """The precision of every step that runs the model."""

    precision: Precision = "float32"
    """precision of the factors of matrix products: float32 (paper) | tf32 (11 significant bits; GPU only) | bfloat16 (8
    bits; on a CPU with its instructions faster under execution.arithmetic: fast); sums are always float32"""


class Baselines(Section):
    """Untrained models, and the run's own, on a sample of the text: what every claim is compared with."""

    models: int = Field(5, ge=1, le=20, description="number of untrained models; one gives no prediction interval")
    shuffled: int = Field(1, ge=0, le=20, description="models with the run's own matrices, entries in random order")
    sentences: int = Field(1000, ge=1, le=10**9)
    """random training sentences in which each model's triggers are sought; at most as many validation sentences measure
    its perplexity, and of an untrained or shuffled model 200 at most"""
    keys_per_layer: int = Field(10, ge=1, le=65_536, description="random keys per layer to mutate, ten triggers each")
    examples: int = Field(500, ge=1, le=10**9, description="number of random prefixes for section 5")

    @property
    def names(self) -> list[str]:
        """The names of the models: the run's own, ``untrained-1`` and so on, ``shuffled-1`` and so on."""
        kinds = ((UNTRAINED, self.models), (SHUFFLED, self.shuffled))
        return [SAME_SAMPLE, *(f"{kind}{draw + 1}" for kind, number in kinds for draw in range(number))]

    def of_a_model(self, resolved: dict[str, Any]) -> dict[str, Any]:
        """Return a run's resolved config as it is for a model of the baselines, which always draws its examples."""
        most = {
            "mutations": {"keys_per_layer": self.keys_per_layer, "top": MUTATED_TRIGGERS},
            "composition": {"examples": self.examples},
            "causal": {"keys_per_layer": CHANGED_MEMORIES},
            "removals": {"prefixes": REMOVED_PREFIXES},
        }
        out = dict(resolved)
        for name, sizes in most.items():
            out[name] = resolved[name] | {key: min(resolved[name][key], size) for key, size in sizes.items()}
        out["composition"]["sample_file"] = None
        return out


class Sensitivity(Section):
    """How choices that the paper leaves open affect its claims."""

    choices: Literal["none", "controls", "quick", "all"] = "none"
    """choices that every run tests: none | controls (triggers cut at an earlier token, values of one length, memories
    with 90 % of a layer's energy) | quick (controls, values and composition, but no spaCy) | all; with none, `snakemake
    sensitivity` still tests all"""


class Gallery(Section):
    """How much the gallery shows."""

    triggers: int = Field(25, ge=1, le=65_535, description="number of triggers per key, at most triggers.top")
    shaded: int = Field(3, ge=0, le=65_535)
    """number of triggers per key with exact coefficients along their tokens (table `shading`); pages shade every
    trigger they show, unless this is 0"""
    tokens: int = Field(10, ge=1, le=100, description="number of top tokens, and of lowest tokens, per value")
    sampled: int = Field(500, ge=0, description="random training sentences for histograms and weaker examples")
    similar: int = Field(5, ge=0, le=100, description="number of the most similar keys, and values, per memory")
    keys: MemorySelection = None
    """memories to show, of those that `triggers.keys` looks at: null (all) | a number (so many random ones of each
    layer, and those that `causal` changes) | a list by layer"""


class FigureOptions(Section):
    """The style of one figure. A figure rejects options that do not apply to it."""

    width: int | None = Field(None, ge=160, le=900, description="width in points; null: the paper's column, or text")
    height: int | None = Field(None, ge=60, le=900, description="height in points; null: the default height")
    bins: int | None = Field(None, ge=2, le=100, description="Figure 6: bins of the top probability; null: the default")
    rank_limit: int | None = Field(None, ge=1, description="Figure 5: the largest rank on the axis; null: by the data")
    paper_values: bool = Field(True, description="also draw the paper's values, and its ranges as bands")
