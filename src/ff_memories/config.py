"""A run is one config file: its keys, their types, and the combinations that would give wrong numbers.

``load`` reads and checks a whole file. ``Settings`` is what a step gets: only the sections its rule declares,
so that a step cannot depend on a key that Snakemake and DVC do not watch.
"""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Self, get_args

import yaml
from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError, model_validator
from pydantic.fields import FieldInfo

from ff_memories.base.errors import UserError, did_you_mean
from ff_memories.base.files import require_file
from ff_memories.base.options import LARGEST
from ff_memories.base.precision import Precision

# What `fidelity` makes of every key that says `auto`.
FIDELITY = {
    "paper": {
        "corpus.tokenizer": "native",
        "triggers.positions": "inner",
        "values.target": "next",
        "values.projection": "adaptive",
        "composition.positions": "1..N",
        "composition.layer_prediction": "ffn",
    },
    "released": {
        "corpus.tokenizer": "moses",
        "triggers.positions": "released",
        "values.target": "last",
        "values.projection": "random",
        "composition.positions": "0..N",
        "composition.layer_prediction": "output",
    },
}

# What the released code does without a key of its own to say so.
RELEASED_ONLY = {
    "triggers.per_sentence": "best",
    "triggers.duplicates": "keep",
    "values.types": "all",
    "corpus.headings": "keep",
    "corpus.too_long": "refuse",
}


class Section(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)


class TextFiles(Section):
    """Text files of one split, in reading order."""

    files: list[str] = Field(description="text files (UTF-8, one paragraph or heading per line)")
    max_sentences: int | None = Field(None, ge=1, description="use only the first sentences; null: all")


class Corpus(Section):
    """The text: where it comes from and how it becomes sentences of tokens."""

    source: str | None = Field(description="a named source (`docstrings`) instead of files; null: use files")
    train: TextFiles = Field(description="text to search for triggers (section 3.1)")
    validation: TextFiles = Field(description="text to observe layers on (sections 5.1 and 5.2)")
    sha256: str | None = Field(
        pattern=r"^[0-9a-f]{64}$", description="SHA-256 of all text files, in order; null: no check"
    )
    segmenter: str = Field(
        examples=["rule"],
        pattern=r"^(rule|line|spacy:[\w.-]+)$",
        description="how to find sentences: rule | spacy:<pipeline> | line (one sentence per line)",
    )
    tokenizer: Literal["auto", "native", "moses"] = Field(
        examples=["auto"], description="native: split on spaces (paper) | moses (released)"
    )
    headings: Literal["keep", "drop"] = Field(
        examples=["keep"], description="headings (WikiText's ` = Title = ` lines): keep as sentences | drop"
    )
    too_long: Literal["refuse", "split"] = Field(
        examples=["refuse"], description="sentences longer than the model's positions: refuse | split"
    )

    @model_validator(mode="after")
    def _one_origin(self) -> Self:
        for split in ("train", "validation"):
            if (self.source is None) != bool(getattr(self, split).files):
                raise ValueError(f"name either a source or {split}.files, not both and not neither")
        return self


class Model(Section):
    """The language model: a fairseq transformer_lm checkpoint and its dictionary."""

    source: str | None = Field(description="a named source instead of paths; null: use paths")
    checkpoint: str | None = Field(description="a fairseq transformer_lm checkpoint, from any fairseq version")
    dictionary: str | None = Field(description="the model's dictionary, one `token count` per line")
    sha256: str | None = Field(None, pattern=r"^[0-9a-f]{64}$", description="SHA-256 of the checkpoint; null: no check")
    dictionary_sha256: str | None = Field(
        None, pattern=r"^[0-9a-f]{64}$", description="SHA-256 of the dictionary; null: no check"
    )

    @model_validator(mode="after")
    def _one_origin(self) -> Self:
        for name in ("checkpoint", "dictionary"):
            if (self.source is None) != bool(getattr(self, name)):
                raise ValueError(f"name either a source or the {name}'s path, not both and not neither")
        return self


class Sources(Section):
    """Named sources, and the golden checks of the paper's checkpoint."""

    registry: str | None = Field(
        None, description="your own registry of sources (TOML), instead of the package's; null: none"
    )
    golden: Literal["check", "off"] = Field(
        "check",
        description="golden checks of a named checkpoint: check | off (then the run counts as a surrogate)",
    )


class Execution(Section):
    """Resources. These keys don't change results beyond near-ties, and changing them reruns nothing."""

    device: Literal["auto", "cpu", "cuda"] = Field(examples=["auto"], description="auto: a GPU if there is one")
    shards: int = Field(examples=[4], ge=1, le=10_000, description="number of jobs for the trigger pass")
    batch_tokens: int = Field(examples=[16_384], ge=1, description="tokens in one forward pass")
    arithmetic: Literal["portable", "fast"] = Field(
        "portable",
        description="on a CPU: portable (the same bits on every x86-64 CPU with AVX2; one thread per job) | fast",
    )


class Extraction(Section):
    """The arithmetic of every step that runs the model."""

    precision: Precision = Field(
        examples=["float32"],
        description="precision of factors in matrix products: float32 (paper) | tf32 (11 significant bits, GPU only) | "
        "bfloat16 (8 bits); sums are always float32",
    )


class Triggers(Section):
    """E1, section 3.1: the top-t prefixes of every key."""

    top: int = Field(examples=[50], ge=1, le=65535, description="number of triggers per key (t)")
    per_sentence: Literal["best", "all"] = Field(
        examples=["best"], description="best: a key keeps one prefix per sentence | all: any number"
    )
    positions: Literal["auto", "inner", "released", "full"] = Field(
        examples=["auto"], description="prefix lengths: inner 1..N-1 (paper) | released 0..N-1 | full 1..N"
    )
    duplicates: Literal["keep", "drop"] = Field(
        examples=["keep"], description="triggers with the same text: keep | drop all but the best"
    )


class Mutations(Section):
    """E3, section 3.2: remove the first, the last or a random token of a trigger."""

    keys_per_layer: int = Field(examples=[100], ge=1, le=65_536, description="number of random keys per layer")
    top: int = Field(examples=[50], ge=1, le=65_535, description="number of triggers to mutate per key")
    random: Literal["any", "inner"] = Field(
        examples=["any"], description="random token to remove: any | inner (neither first nor last)"
    )
    single_token: Literal["skip", "bos"] = Field(
        examples=["skip"], description="prefixes of one token: skip | bos (use the coefficient at </s>)"
    )
    mean: Literal["of_ratios", "of_sums"] = Field(
        examples=["of_ratios"],
        description="of_ratios: mean of the relative changes | of_sums: relative change of the sums",
    )


class Patterns(Section):
    """E2, section 3.1: the sample of keys to annotate."""

    keys_per_layer: int = Field(examples=[10], ge=1, le=65_536, description="number of random keys per layer")
    top: int = Field(examples=[25], ge=3, le=255, description="number of triggers to show per key")


class Values(Section):
    """E4-E7, section 4: the predictions of values, compared with their keys' triggers."""

    target: Literal["auto", "next", "last"] = Field(
        examples=["auto"],
        description="token to compare with: next (after the trigger; paper) | last (of the trigger; released)",
    )
    projection: Literal["auto", "adaptive", "flat", "head", "random"] = Field(
        examples=["auto"], description="adaptive: the model's own softmax (paper) | flat | head | random (released)"
    )
    projection_seed: int = Field(examples=[1], ge=0, le=LARGEST, description="seed of the random projections")
    types: Literal["all", "trained"] = Field(
        "all",
        description="types that a value can predict: all (paper) | trained (without types that are never a target, "
        "such as `<s>`); tables have both",
    )


class Composition(Section):
    """E8-E14, section 5: how memories and layers compose on validation prefixes."""

    examples: int = Field(
        examples=[4000],
        ge=1,
        le=10**9,
        description="number of random prefixes; if there are fewer sentences, all are used",
    )
    sample: Literal["per_sentence", "uniform"] = Field(
        examples=["per_sentence"],
        description="per_sentence: one prefix from each sampled sentence | uniform over all prefixes",
    )
    sample_file: str | None = Field(
        None,
        description="JSON lines with `text` (a validation sentence) and `random_pos` (a prefix length): use exactly "
        "these prefixes, in this order; `export sample` writes such a file; null: sample at random",
    )
    positions: Literal["auto", "1..N", "0..N", "1..N-1"] = Field(
        examples=["auto"], description="prefix lengths: 1..N (paper) | 0..N (released) | 1..N-1"
    )
    layer_prediction: Literal["auto", "ffn", "output"] = Field(
        examples=["auto"], description="prediction to agree with: ffn, top(y) (paper) | output, top(o) (released)"
    )
    memories: Literal["active", "all"] = Field(examples=["active"], description="memories that can agree: active | all")
    stop_words: Literal["sklearn", "spacy", "top50", "top100"] = Field(
        examples=["sklearn"], description="stop words: the list of a package | the 50 or 100 most frequent types"
    )


class Sensitivity(Section):
    """How analysis choices that the paper leaves open change its claims."""

    choices: Literal["none", "quick", "all"] = Field(
        "none",
        description="choices to test with every run: none | quick (those of values and composition) | all; "
        "with none, the target `sensitivity` tests all",
    )


class Gallery(Section):
    """How much the gallery shows."""

    triggers: int = Field(25, ge=1, le=65_535, description="triggers per key, at most triggers.top")
    shaded: int = Field(
        3, ge=0, le=65_535, description="number of these with shading by the coefficient at every token"
    )
    tokens: int = Field(10, ge=1, le=100, description="top tokens per value")


class FigureOptions(Section):
    """Style of one figure. A figure rejects options that don't apply to it."""

    width: int | None = Field(None, ge=160, le=900, description="width in points; null: a column of the paper")
    height: int | None = Field(None, ge=60, le=900, description="height in points")
    bins: int | None = Field(
        None, ge=2, le=100, description="Figure 6: number of equal intervals of the top probability"
    )
    rank_limit: int | None = Field(None, ge=1, description="Figure 5: rank at the top of the axis; null: from the data")
    paper_values: bool = Field(True, description="show the paper's values; ranges as bands")


class Config(Section):
    """One run."""

    run: str = Field(
        pattern=r"^[A-Za-z0-9][A-Za-z0-9_.-]{0,63}$", description="name of the run; results go to results/<run>/"
    )
    seed: int = Field(examples=[1], ge=0, lt=2**32, description="seed of every random choice")
    fidelity: Literal["paper", "released"] = Field(
        examples=["paper"], description="value of every key set to `auto`: the paper's choice | the released code's"
    )
    corpus: Corpus
    model: Model
    execution: Execution
    extraction: Extraction
    triggers: Triggers
    mutations: Mutations
    patterns: Patterns
    values: Values
    composition: Composition
    sensitivity: Sensitivity = Field(default_factory=Sensitivity)
    sources: Sources = Field(default_factory=Sources)
    gallery: Gallery = Field(default_factory=Gallery)
    figures: dict[str, FigureOptions] = Field(
        default_factory=dict, description="options for single figures, by name: figure2 ... figure11"
    )

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        faults = []
        for path, value in FIDELITY[self.fidelity].items():
            section, key = path.split(".")
            given = getattr(getattr(self, section), key)
            if self.fidelity == "released" and given not in ("auto", value):
                faults.append(f"{path}: {given!r} contradicts fidelity: released, which means {value!r}")
        if self.fidelity == "released":
            for path, value in RELEASED_ONLY.items():
                section, key = path.split(".")
                if getattr(getattr(self, section), key) != value:
                    faults.append(f"{path}: fidelity: released means {value!r}")
        if (precision := self.extraction.precision) != "float32":
            if self.values.projection == "random" or self.fidelity == "released":
                faults.append(f"extraction.precision: {precision!r} has no released counterpart; use float32")
            if precision == "tf32" and self.execution.device == "cpu":
                faults.append("extraction.precision: only GPUs compute in tf32, and execution.device is cpu")
        for path in ("mutations.top", "patterns.top"):
            section, key = path.split(".")
            if (given := getattr(getattr(self, section), key)) > self.triggers.top:
                faults.append(f"{path}: {given} is more than triggers.top ({self.triggers.top})")
        if self.run == "train":
            faults.append("run: results/train is where the demo model is trained; take another name")
        every = [*self.corpus.train.files, *self.corpus.validation.files]
        others = (self.model.checkpoint, self.model.dictionary, self.composition.sample_file)
        every += [path for path in others if path]
        faults += [f"{path}: Snakemake takes braces in a path for wildcards" for path in every if set(path) & set("{}")]
        unknown = set(self.figures) - {f"figure{i}" for i in range(2, 12)}
        faults += [f"figures.{name}: there is no such figure, only figure2 to figure11" for name in sorted(unknown)]
        if faults:
            raise ValueError("; ".join(faults))
        return self

    def source_names(self) -> list[str]:
        """Return the named sources that the run reads."""
        named = [self.corpus.source, self.model.source]
        if self.corpus.segmenter.startswith("spacy:"):
            named.append(self.corpus.segmenter.removeprefix("spacy:"))
        return [name for name in named if name not in (None, "docstrings", "blank")]

    def resolved(self) -> dict[str, Any]:
        """Return the config as plain data, with every ``auto`` replaced by what ``fidelity`` makes of it."""
        plain = self.model_dump()
        for path, value in FIDELITY[self.fidelity].items():
            section, key = path.split(".")
            if plain[section][key] == "auto":
                plain[section][key] = value
        return plain


def keys_of(field: FieldInfo | None) -> dict[str, FieldInfo]:
    """Return the keys of a section, by name; none for a plain key, or one that is not ours."""
    model = None if field is None else field.annotation
    return model.model_fields if isinstance(model, type) and issubclass(model, BaseModel) else {}


def usual(keys: dict[str, FieldInfo] | None = None) -> dict[str, Any]:
    """Return what a new config says as plain data: the paper's choices, and null for what is a run's own.

    A key's choice is its first example, or, where the key may be left out, its default, if that is any. ``keys``: those
    of one section; left out: all.
    """
    out: dict[str, Any] = {}
    for name, field in (keys or Config.model_fields).items():
        if field.is_required():
            out[name] = usual(below) if (below := keys_of(field)) else (field.examples or [None])[0]
        elif field.default is not None and field.default_factory is None:
            out[name] = field.default
    return out


def _keys_in(sections: list[str]) -> list[str]:
    """Return the keys of the section at a path; none where the path leads to no section."""
    kind: Any = Config
    for name in sections:
        fields = getattr(kind, "model_fields", {})
        inside = get_args(kind) or (None,)  # of dict[str, FigureOptions], where every name is a key
        kind = fields[name].annotation if name in fields else inside[-1]
    return list(getattr(kind, "model_fields", {}))


def _faults(error: ValidationError, prefix: str = "") -> str:
    lines = []
    for fault in error.errors():
        *sections, key = path = [*([prefix] if prefix else []), *map(str, fault["loc"])] or ["the config"]
        where = ".".join(path)
        message = fault["msg"].removeprefix("Value error, ")
        if fault["type"] == "extra_forbidden":
            message = "unknown key" + did_you_mean(key, _keys_in(sections))
        elif fault["type"] == "missing":
            message = "missing key"
        elif "input" in fault and not isinstance(fault["input"], dict | list | BaseModel):
            message += f" (found {fault['input']!r})"
        lines.append(f"{where}: {message}")
    return "\n  ".join(lines)


def parse(data: Any, name: str = "config") -> Config:
    """Check a whole config given as plain data. Raises ``UserError`` that names every faulty key."""
    if not isinstance(data, dict):
        raise UserError(f"{name}: a config is a mapping of sections, found {type(data).__name__}")
    try:
        return Config.model_validate(data)
    except ValidationError as error:
        raise UserError(f"{name}:\n  {_faults(error)}", "see config/README.md for every key") from None


def read_yaml(path: Path) -> Any:
    """Return a config file's data. Raises ``UserError`` where there is no such file, or it can't be read as YAML."""
    require_file(path)
    try:
        return yaml_of(path.read_text(encoding="utf-8"), str(path))
    except FileNotFoundError:
        hint = "check the path, or write a config with: ff-memories init my.yaml"
        raise UserError(f"{path}: no such config file", hint) from None
    except UnicodeDecodeError as error:
        raise UserError(f"{path}: not readable: {error}", "save the config as UTF-8") from None
    except OSError as error:
        raise UserError(f"{path}: not readable: {error.strerror}", "check the file and its permissions") from None


class _OnceEach(yaml.SafeLoader):
    """Plain data, every key of a mapping once: YAML itself would let the last one win without a word."""

    def construct_mapping(self, node: Any, deep: bool = False) -> dict[Any, Any]:
        seen: set[str] = set()
        for key, _ in node.value if isinstance(node, yaml.MappingNode) else ():
            if isinstance(key, yaml.ScalarNode):
                if key.value in seen:
                    raise ValueError(f"line {key.start_mark.line + 1}: {key.value!r} stands there a second time")
                seen.add(key.value)
        return super().construct_mapping(node, deep)


def yaml_of(text: str, where: str) -> Any:
    """Return the data of a YAML text. Raises ``UserError`` with ``where`` it stands, also where a key stands twice."""
    try:
        return yaml.load(text, _OnceEach)
    except Exception as error:  # PyYAML lets out whatever it runs into: an IndexError at "!!int" with nothing behind it
        raise UserError(f"{where}: not readable as YAML: {error}") from None


def load(path: str | Path) -> Config:
    """Read and check a run's config file."""
    return parse(read_yaml(Path(path)), str(path))


if TYPE_CHECKING:
    _Keys = Config  # a step knows the config's own keys, with their types
else:
    _Keys = object  # and has those of its sections


class Undeclared(UserError, AttributeError):
    """Raised where a step reads a section that ``--config`` does not hold."""


class Settings(_Keys):
    """The declared part of a run's config: sections as attributes, checked, ``auto`` resolved."""

    def __init__(self, data: dict[str, Any]):
        for name, value in data.items():
            field = Config.model_fields.get(name)
            if field is None:
                raise UserError(f"{name}: unknown key{did_you_mean(name, Config.model_fields)}")
            try:
                value = TypeAdapter(field.rebuild_annotation()).validate_python(value)
            except ValidationError as error:
                raise UserError(f"config:\n  {_faults(error, name)}") from None
            setattr(self, name, value)

    @property
    def precision(self) -> Precision:
        """``extraction.precision``; float32 where whoever calls a step by hand does not say."""
        held: Extraction | None = vars(self).get("extraction")
        return "float32" if held is None else held.precision

    if not TYPE_CHECKING:  # there, what is no key of the config is an error

        def __getattr__(self, name: str) -> Any:
            raise Undeclared(
                f"this step reads the config section {name!r}, which its rule does not declare",
                "give --config a run's config file, or that section, too",
            )

    @classmethod
    def from_argument(cls, text: str) -> "Settings":
        """Read ``--config``: a config file's path, or the declared sections themselves as JSON."""
        if text.lstrip().startswith("{"):
            try:
                return cls(json.loads(text))
            except (ValueError, RecursionError) as error:
                raise UserError(f"--config: not readable as JSON: {error}") from None
        return cls(load(text).resolved())
