"""The config file of a run: its keys, their types, and checks for combinations that would give wrong numbers.

``load`` reads and checks a whole file. A step gets ``Settings``, which has only the sections that its rule declares:
a step cannot depend on a key that Snakemake and DVC do not watch.
"""

import json
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Self, get_args

import yaml
from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError, field_validator, model_validator
from pydantic.fields import FieldInfo

from ff_memories.base.errors import UserError, did_you_mean
from ff_memories.base.files import require_file
from ff_memories.base.options import LARGEST
from ff_memories.base.precision import Precision

# The value of every key set to `auto`, by `fidelity`.
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

# What `auto` means for a model of `transformers`, where that differs from the paper's choice.
TRANSFORMERS = {"corpus.tokenizer": "model", "values.projection": "raw"}

# Required with fidelity: released, although these keys have no `auto`.
RELEASED_ONLY = {
    "triggers.per_sentence": "best",
    "triggers.duplicates": "keep",
    "values.types": "all",
    "corpus.headings": "keep",
    "corpus.too_long": "refuse",
}


class Section(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)


def _keys(given: Any) -> Any:
    """Check how many or which memories a config asks for; in JSON the layers are strings."""
    wrong = "expected a number of memories per layer, or by layer a list of memories, such as {3: [17, 255]}"
    plain = lambda n, low, high: isinstance(n, int) and not isinstance(n, bool) and low <= n <= high
    if given is None or plain(given, 1, 65_536):
        return given
    if not isinstance(given, dict) or not given:
        raise ValueError(wrong)
    out = {int(layer) if isinstance(layer, str) and layer.isdecimal() else layer: own for layer, own in given.items()}
    for layer, own in out.items():
        if not plain(layer, 1, 255) or not isinstance(own, list) or not own:
            raise ValueError(f"{wrong}; found {layer!r}: {own!r}")
        if odd := [memory for memory in own if not plain(memory, 0, 65_535)]:
            raise ValueError(f"layer {layer}: {odd[0]!r} is not the number of a memory")
        if len(set(own)) < len(own):
            raise ValueError(f"layer {layer}: a memory is listed twice")
    if len(out) < len(given):
        raise ValueError("a layer is listed twice")
    return out


class TextFiles(Section):
    """The text files of one split, in reading order."""

    files: list[str] = Field(description="text files (UTF-8, one paragraph or heading per line)")
    max_sentences: int | None = Field(None, ge=1, description="use only this many sentences, from the start; null: all")


class Corpus(Section):
    """The text: where it comes from and how to split it into sentences and tokens."""

    source: str | None = Field(
        description="a named source, such as `docstrings` or `wikitext-103`; null: use `train.files` and "
        "`validation.files`"
    )
    train: TextFiles = Field(description="training text, searched for triggers (section 3.1)")
    validation: TextFiles = Field(description="validation text, on which the layers are observed (section 5)")
    sha256: str | None = Field(
        pattern=r"^[0-9a-f]{64}$",
        description="expected SHA-256 of all text files, concatenated in order; null: no check",
    )
    segmenter: str = Field(
        examples=["rule"],
        pattern=r"^(rule|line|spacy:[\w.-]+)$",
        description="how to split paragraphs into sentences: rule (after `. ! ?`) | `spacy:<pipeline>` | line (one "
        "sentence per line)",
    )
    tokenizer: Literal["auto", "native", "moses", "model"] = Field(
        examples=["auto"],
        description="how to split sentences into tokens: native (at spaces; paper) | moses (released) | model (the "
        "tokenizer of a `transformers` model)",
    )
    headings: Literal["keep", "drop"] = Field(
        examples=["keep"], description="headings (lines such as ` = Title = ` in WikiText): keep as sentences | drop"
    )
    too_long: Literal["refuse", "split"] = Field(
        examples=["refuse"],
        description="sentences with more tokens than the model has positions: refuse (stop with an error) | split",
    )

    @model_validator(mode="after")
    def _one_origin(self) -> Self:
        for split in ("train", "validation"):
            if (self.source is None) != bool(getattr(self, split).files):
                raise ValueError(f"give either source or {split}.files, and not both")
        return self


class Model(Section):
    """The language model: a fairseq transformer_lm checkpoint and its dictionary, or a model of `transformers`."""

    source: str | None = Field(
        None, description="a named source, such as `adaptive_lm_wiki103.v2`; null: use `checkpoint` and `dictionary`"
    )
    checkpoint: str | None = Field(None, description="a fairseq transformer_lm checkpoint, from any fairseq version")
    dictionary: str | None = Field(None, description="the checkpoint's dict.txt, with one `token count` per line")
    folder: str | None = Field(
        None, description="a folder with a model of `transformers`: config.json, safetensors and tokenizer.json"
    )
    hub: str | None = Field(
        None,
        pattern=r"^[\w.-]+(/[\w.-]+)?$",
        description="a model of `transformers` on the Hugging Face hub, such as EleutherAI/pythia-160m",
    )
    revision: str | None = Field(
        None, pattern=r"^[0-9a-f]{40}$", description="the hub's commit that the files come from; `init` writes it"
    )
    files: dict[str, str] = Field(
        default_factory=dict, description="SHA-256 of each file of `folder` or `hub`; `init` writes them"
    )
    licence: str | None = Field(
        None, description="the model's licence, shown in the report; `init` takes it from the hub"
    )
    start: str = Field(
        "auto",
        description="token that every sentence of a `transformers` model begins with: auto (the tokenizer's own, or "
        "<|endoftext|>) | a token",
        json_schema_extra={"only": "transformers"},
    )
    sha256: str | None = Field(
        None, pattern=r"^[0-9a-f]{64}$", description="expected SHA-256 of the checkpoint; null: no check"
    )
    dictionary_sha256: str | None = Field(
        None, pattern=r"^[0-9a-f]{64}$", description="expected SHA-256 of the dictionary; null: no check"
    )

    @property
    def is_transformer(self) -> bool:
        """Whether it is a model of `transformers`."""
        return self.folder is not None or self.hub is not None

    @model_validator(mode="after")
    def _one_origin(self) -> Self:
        if self.is_transformer:
            others = [n for n in ("source", "checkpoint", "dictionary") if getattr(self, n) is not None]
            if others or (self.folder is not None and self.hub is not None):
                raise ValueError("name one of folder, hub, source, or checkpoint and dictionary")
            if self.hub is not None and (self.revision is None or "config.json" not in self.files):
                raise ValueError("hub needs revision and files; write both with: ff-memories init")
            if odd := [n for n in self.files if "/" in n or n.startswith((".", "-")) or "{" in n]:
                raise ValueError(f"files: {odd[0]!r} is not the name of a file in the model's folder")
            if odd := [n for n, digest in self.files.items() if not re.fullmatch("[0-9a-f]{64}", digest)]:
                raise ValueError(f"files: the value of {odd[0]} is not a SHA-256")
            return self
        for name in ("checkpoint", "dictionary"):
            if (self.source is None) != bool(getattr(self, name)):
                raise ValueError(f"give either source or {name}, and not both")
        return self


class Sources(Section):
    """Named sources, and the checks of a named checkpoint against known numbers (golden checks)."""

    registry: str | None = Field(
        None,
        description="a TOML file with your own sources, which add to the package's sources or replace them; null: none",
    )
    golden: Literal["check", "off"] = Field(
        "check",
        description="golden checks of a named checkpoint: check | off (the run then counts as a surrogate)",
    )


class Execution(Section):
    """Resources. These keys change no result beyond near-ties, and changing them reruns nothing."""

    device: Literal["auto", "cpu", "cuda"] = Field(
        examples=["auto"], description="where the model runs; auto: on a GPU if there is one"
    )
    shards: int = Field(examples=[4], ge=1, le=10_000, description="number of jobs that share the search for triggers")
    batch_tokens: int = Field(
        examples=[16_384], ge=1, description="tokens per forward pass; lower it if memory runs out"
    )
    arithmetic: Literal["portable", "fast"] = Field(
        "portable",
        description="on a CPU: portable (the same bits on every x86-64 CPU with AVX2; one thread per job) | fast",
    )


class Extraction(Section):
    """The precision of every step that runs the model."""

    precision: Precision = Field(
        examples=["float32"],
        description="precision of the factors of matrix products: float32 (paper) | tf32 (11 significant bits; GPU "
        "only) | bfloat16 (8 bits); sums are always float32",
    )


class Triggers(Section):
    """E1, section 3.1: the t prefixes with the highest memory coefficients, for every key."""

    top: int = Field(examples=[50], ge=1, le=65535, description="number of triggers per key (t)")
    per_sentence: Literal["best", "all"] = Field(
        examples=["best"], description="prefixes that a key keeps per sentence: best (one) | all (any number)"
    )
    positions: Literal["auto", "inner", "released", "full"] = Field(
        examples=["auto"],
        description="prefix lengths in a sentence of N tokens: inner (1..N-1; paper) | released (0..N-1) | full (1..N)",
    )
    duplicates: Literal["keep", "drop"] = Field(
        examples=["keep"], description="a key's triggers with the same text: keep | drop (all but the best)"
    )
    signs: Literal["auto", "positive", "both"] = Field(
        "auto",
        description="coefficients whose size counts: positive (paper) | both: negative ones are triggers of the "
        "memory's negative value | auto: both for gated layers (SwiGLU), else positive",
        json_schema_extra={"only": "transformers"},
    )
    keys: int | dict[int, list[int]] | None = Field(
        None,
        description="memories to look at: null (all; paper) | a number (so many random ones of each layer) | a list by "
        "layer, such as `{3: [17, 255]}`",
    )

    _checked = field_validator("keys", mode="before")(_keys)


class Mutations(Section):
    """E3, section 3.2: remove the first, the last or a random token of each trigger."""

    keys_per_layer: int = Field(examples=[100], ge=1, le=65_536, description="number of random keys per layer")
    top: int = Field(examples=[50], ge=1, le=65_535, description="number of triggers to mutate per key")
    random: Literal["any", "inner"] = Field(
        examples=["any"], description="which tokens the random removal can hit: any | inner (neither first nor last)"
    )
    single_token: Literal["skip", "bos"] = Field(
        examples=["skip"], description="triggers of one token: skip | bos (use the coefficient at `</s>`)"
    )
    mean: Literal["of_ratios", "of_sums"] = Field(
        examples=["of_ratios"],
        description="of_ratios: mean of the relative changes | of_sums: relative change of the sums",
    )
    unit: Literal["token", "word"] = Field(
        "token",
        description="what to remove: token (paper) | word (all tokens of a word; `random` and `single_token` then "
        "count words)",
        json_schema_extra={"only": "transformers"},
    )


class Patterns(Section):
    """E2, section 3.1: the sample of keys to annotate."""

    keys_per_layer: int = Field(examples=[10], ge=1, le=65_536, description="number of random keys per layer")
    top: int = Field(examples=[25], ge=3, le=255, description="number of triggers to show per key")


class Values(Section):
    """E4-E7, section 4: compare the predictions of values with their keys' triggers."""

    target: Literal["auto", "next", "last"] = Field(
        examples=["auto"],
        description="target token: next (the one after the trigger; paper) | last (the trigger's last one; released)",
    )
    projection: Literal["auto", "adaptive", "flat", "head", "random", "raw", "scaled"] = Field(
        examples=["auto"],
        description="how values become distributions: adaptive (the model's own softmax; paper) | flat (one softmax "
        "over the vocabulary) | head (only the head's words) | random (random projections, as in the released script); "
        "for a `transformers` model: raw (its output matrix) | scaled (times the scale of its final norm)",
    )
    projection_seed: int = Field(examples=[1], ge=0, le=LARGEST, description="seed of the random projections")
    types: Literal["all", "trained"] = Field(
        "all",
        description="token types that a value can predict: all (paper) | trained (without types that are never a "
        "training target, such as `<s>`); the tables have both",
    )


class Composition(Section):
    """E8-E14, section 5: how memories and layers compose their predictions on validation prefixes."""

    examples: int = Field(
        examples=[4000],
        ge=1,
        le=10**9,
        description="number of random prefixes; all sentences if there are fewer",
    )
    sample: Literal["per_sentence", "uniform"] = Field(
        examples=["per_sentence"],
        description="how to sample: per_sentence (one prefix from each sampled sentence) | uniform (over all prefixes)",
    )
    sample_file: str | None = Field(
        None,
        description="a file of JSON lines with `text` (a validation sentence) and `random_pos` (a prefix length): use "
        "these prefixes in this order; `ff-memories export sample` writes such a file; null: sample at random",
    )
    positions: Literal["auto", "1..N", "0..N", "1..N-1"] = Field(
        examples=["auto"],
        description="prefix lengths in a sentence of N tokens: 1..N (paper) | 0..N (released) | 1..N-1",
    )
    layer_prediction: Literal["auto", "ffn", "output"] = Field(
        examples=["auto"],
        description="the prediction that memories agree with: ffn (top(y); paper) | output (top(o); released)",
    )
    memories: Literal["active", "all", "share:0.9"] = Field(
        examples=["active"],
        description="memories that can agree: active (positive coefficient; paper) | all | share:0.9 (the fewest that "
        "add 90 % of the layer's energy, the sum of squared coefficients times value lengths)",
    )
    residual: Literal["added", "read"] = Field(
        "added",
        description="the residual r: added (what the feed-forward output is added to; paper) | read (what the "
        "feed-forward layer's block reads; it differs in parallel blocks alone)",
        json_schema_extra={"only": "transformers"},
    )
    stop_words: Literal["sklearn", "spacy", "top50", "top100"] = Field(
        examples=["sklearn"],
        description="stop words: sklearn, spacy (the package's list) | top50, top100 (the most frequent types)",
    )


class Sensitivity(Section):
    """How choices that the paper leaves open affect its claims."""

    choices: Literal["none", "quick", "all"] = Field(
        "none",
        description="choices that every run tests: none | quick (those of values and composition) | all; with none, "
        "`snakemake sensitivity` still tests all",
    )


class Gallery(Section):
    """How much the gallery shows."""

    triggers: int = Field(25, ge=1, le=65_535, description="number of triggers per key, at most triggers.top")
    shaded: int = Field(
        3,
        ge=0,
        le=65_535,
        description="number of triggers per key with exact coefficients along their tokens (table "
        "`shading`); pages shade every trigger they show, unless this is 0",
    )
    tokens: int = Field(10, ge=1, le=100, description="number of top tokens, and of lowest tokens, per value")
    sampled: int = Field(
        500, ge=0, description="number of random training sentences for the histograms and weaker examples"
    )
    similar: int = Field(5, ge=0, le=100, description="number of the most similar keys, and values, per memory")
    keys: int | dict[int, list[int]] | None = Field(
        None,
        description="memories to show, of those that `triggers.keys` looks at: null (all) | a number (so many random "
        "ones of each layer) | a list by layer",
    )

    _checked = field_validator("keys", mode="before")(_keys)


class FigureOptions(Section):
    """The style of one figure. A figure rejects options that do not apply to it."""

    width: int | None = Field(None, ge=160, le=900, description="width in points; null: a column of the paper")
    height: int | None = Field(None, ge=60, le=900, description="height in points; null: the default height")
    bins: int | None = Field(
        None, ge=2, le=100, description="Figure 6: number of equal bins of the top probability; null: the default"
    )
    rank_limit: int | None = Field(
        None, ge=1, description="Figure 5: the largest rank on the axis; null: set by the data"
    )
    paper_values: bool = Field(True, description="also draw the paper's values, and its ranges as bands")


class Config(Section):
    """The config of one run."""

    run: str = Field(
        pattern=r"^[A-Za-z0-9][A-Za-z0-9_.-]{0,63}$", description="name of the run; results go to `results/<run>/`"
    )
    seed: int = Field(examples=[1], ge=0, lt=2**32, description="seed of all random draws")
    fidelity: Literal["paper", "released"] = Field(
        examples=["paper"],
        description="how to set every key that is `auto`: paper (as the paper describes) | released (as the authors' "
        "released code does)",
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
        default_factory=dict, description="options of single figures, by name: figure2 ... figure11"
    )

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        faults = []
        for path, value in FIDELITY[self.fidelity].items():
            section, key = path.split(".")
            given = getattr(getattr(self, section), key)
            if self.fidelity == "released" and given not in ("auto", value):
                faults.append(f"{path}: {given!r} contradicts fidelity: released, which requires {value!r}")
        if self.fidelity == "released":
            for path, value in RELEASED_ONLY.items():
                section, key = path.split(".")
                if getattr(getattr(self, section), key) != value:
                    faults.append(f"{path}: fidelity: released requires {value!r}")
        faults += self._faults_of_kind()
        if (precision := self.extraction.precision) != "float32":
            if self.values.projection == "random" or self.fidelity == "released":
                faults.append(f"extraction.precision: the released code has no {precision!r}; use float32")
            if precision == "tf32" and self.execution.device == "cpu":
                faults.append("extraction.precision: tf32 needs a GPU, but execution.device is cpu")
        for path in ("mutations.top", "patterns.top"):
            section, key = path.split(".")
            if (given := getattr(getattr(self, section), key)) > self.triggers.top:
                faults.append(f"{path}: {given} is more than triggers.top ({self.triggers.top})")
        faults += self._faults_of_keys()
        if self.run == "train":
            faults.append("run: results/train is reserved for training the demo model; choose another name")
        every = [*self.corpus.train.files, *self.corpus.validation.files]
        others = (self.model.checkpoint, self.model.dictionary, self.composition.sample_file)
        every += [path for path in others if path]
        faults += [f"{path}: Snakemake reads braces in a path as wildcards" for path in every if set(path) & set("{}")]
        known = {path.stem for path in (Path(__file__).parent / "figures" / "drawn").glob("[a-z]*.py")}
        unknown = sorted(set(self.figures) - known)
        faults += [f"figures.{name}: no such figure; expected figure2 to figure11" for name in unknown]
        if faults:
            raise ValueError("; ".join(faults))
        return self

    def _faults_of_kind(self) -> list[str]:
        """Return what does not go together with the kind of model."""
        if not self.model.is_transformer:
            faults = []
            if self.corpus.tokenizer == "model":
                faults.append("corpus.tokenizer: 'model' needs model.folder or model.hub")
            if self.values.projection in ("raw", "scaled"):
                faults.append(f"values.projection: {self.values.projection!r} needs model.folder or model.hub")
            if self.triggers.signs == "both":
                faults.append(
                    "triggers.signs: 'both' needs model.folder or model.hub; ReLU has no negative coefficients"
                )
            if self.composition.residual == "read":
                faults.append(
                    "composition.residual: 'read' needs model.folder or model.hub; fairseq has no parallel block"
                )
            if self.mutations.unit == "word":
                faults.append(
                    "mutations.unit: 'word' needs model.folder or model.hub; a fairseq model's tokens are words"
                )
            return faults
        faults = [
            f"{path}: {given!r} needs a fairseq checkpoint; use auto or {value!r}"
            for path, value in TRANSFORMERS.items()
            if (given := _at(self, path)) not in ("auto", value, "scaled")
        ]
        if self.composition.stop_words.startswith("top"):
            faults.append(
                "composition.stop_words: a tokenizer does not list its types by frequency; use sklearn or spacy"
            )
        if self.fidelity == "released":
            faults.append("fidelity: released needs a fairseq checkpoint: the released code reads no other")
        if self.extraction.precision == "tf32" and self.execution.device == "cpu":
            faults.append("extraction.precision: only GPUs compute in tf32, and execution.device is cpu")
        return faults

    def _faults_of_keys(self) -> list[str]:
        """Return which memories the gallery is to show that the run does not look at, or what needs all memories."""
        looked, shown, faults = self.triggers.keys, self.gallery.keys, []
        if looked is not None and self.fidelity == "released":
            faults.append("triggers.keys: fidelity: released needs all memories, as the released code does")
        if isinstance(looked, int) and isinstance(shown, int) and shown > looked:
            faults.append(f"gallery.keys: {shown} is more than triggers.keys ({looked})")
        if isinstance(looked, dict) and isinstance(shown, dict):
            faults += [
                f"gallery.keys: memory {memory} of layer {layer} is not in triggers.keys"
                for layer, own in shown.items()
                for memory in own
                if memory not in looked.get(layer, [])
            ]
        return faults

    def source_names(self) -> list[str]:
        """Return the named sources that the run reads."""
        named = [self.corpus.source, self.model.source]
        if self.corpus.segmenter.startswith("spacy:"):
            named.append(self.corpus.segmenter.removeprefix("spacy:"))
        return [name for name in named if name not in (None, "docstrings", "blank")]

    def resolved(self) -> dict[str, Any]:
        """Return the config as plain data, with every ``auto`` replaced by its value under ``fidelity``."""
        plain = self.model_dump()
        meant = FIDELITY[self.fidelity] | (TRANSFORMERS if self.model.is_transformer else {})
        for path, value in meant.items():
            section, key = path.split(".")
            if plain[section][key] == "auto":
                plain[section][key] = value
        return plain


def _at(config: Config, path: str) -> Any:
    section, key = path.split(".")
    return getattr(getattr(config, section), key)


def keys_of(field: FieldInfo | None) -> dict[str, FieldInfo]:
    """Return the keys of a section, by name; none for a plain or an unknown key."""
    model = None if field is None else field.annotation
    return model.model_fields if isinstance(model, type) and issubclass(model, BaseModel) else {}


def usual(keys: dict[str, FieldInfo] | None = None) -> dict[str, Any]:
    """Return a new config as plain data: the paper's choices, and null for keys that each run sets itself.

    A required key gets its first example, an optional one its default unless that is null. ``keys``: the keys of one
    section; default: all.
    """
    out: dict[str, Any] = {}
    for name, field in (keys or Config.model_fields).items():
        if field.is_required():
            out[name] = usual(below) if (below := keys_of(field)) else (field.examples or [None])[0]
        elif field.default is not None and field.default_factory is None and not field.json_schema_extra:
            out[name] = field.default
    return out


def _keys_in(sections: list[str]) -> list[str]:
    """Return the keys of the section at a path; none if the path is not a section."""
    kind: Any = Config
    for name in sections:
        fields = getattr(kind, "model_fields", {})
        inside = get_args(kind) or (None,)  # of dict[str, FigureOptions], where every name is a key
        kind = fields[name].annotation if name in fields else inside[-1]
    return list(getattr(kind, "model_fields", {}))


def _faults(error: ValidationError, prefix: str = "") -> str:
    lines = []
    for fault in error.errors():
        path = [*([prefix] if prefix else []), *map(str, fault["loc"])]
        *sections, key = path or [""]
        message = fault["msg"].removeprefix("Value error, ")
        if fault["type"] == "extra_forbidden":
            message = "unknown key" + did_you_mean(key, _keys_in(sections))
        elif fault["type"] == "missing":
            message = "missing key"
        elif "input" in fault and not isinstance(fault["input"], dict | list | BaseModel):
            message += f" (found {fault['input']!r})"
        lines.append(f"{'.'.join(path)}: {message}" if path else message)  # checks of the whole config name their keys
    return "\n  ".join(lines)


def parse(data: Any, name: str = "config") -> Config:
    """Check a whole config given as plain data. Raises ``UserError`` naming every wrong key."""
    if not isinstance(data, dict):
        raise UserError(f"{name}: expected a mapping of sections, found {type(data).__name__}")
    try:
        return Config.model_validate(data)
    except ValidationError as error:
        raise UserError(f"{name}:\n  {_faults(error)}", "config/README.md explains every key") from None


def read_yaml(path: Path) -> Any:
    """Return a config file's data. Raises ``UserError`` if the file is missing or is not valid YAML."""
    require_file(path)
    try:
        return yaml_of(path.read_text(encoding="utf-8"), str(path))
    except FileNotFoundError:
        hint = "check the path, or write a config with ff-memories init"
        raise UserError(f"{path}: no such config file", hint) from None
    except UnicodeDecodeError as error:
        raise UserError(f"{path}: cannot be read as UTF-8: {error}", "save the config as UTF-8") from None
    except OSError as error:
        raise UserError(f"{path}: cannot be read: {error.strerror}", "check the file and its permissions") from None


class _OnceEach(yaml.SafeLoader):
    """A YAML loader that refuses duplicate keys; plain YAML would silently use the last one."""

    def construct_mapping(self, node: Any, deep: bool = False) -> dict[Any, Any]:
        seen: set[str] = set()
        for key, _ in node.value if isinstance(node, yaml.MappingNode) else ():
            if isinstance(key, yaml.ScalarNode):
                if key.value in seen:
                    raise ValueError(f"line {key.start_mark.line + 1}: {key.value!r} appears a second time")
                seen.add(key.value)
        return super().construct_mapping(node, deep)


def yaml_of(text: str, where: str) -> Any:
    """Return the data of a YAML text. Raises ``UserError``, naming ``where``, for bad YAML or a duplicate key."""
    try:
        return yaml.load(text, _OnceEach)
    except Exception as error:  # PyYAML raises more than its own errors: an IndexError at an empty "!!int"
        raise UserError(f"{where}: not valid YAML: {error}") from None


def load(path: str | Path) -> Config:
    """Read and check a run's config file."""
    return parse(read_yaml(Path(path)), str(path))


if TYPE_CHECKING:
    _Keys = Config  # type checkers see all of the config's keys
else:
    _Keys = object  # a step has only those of its sections


class Undeclared(UserError, AttributeError):
    """Raised when a step reads a section that ``--config`` does not have."""


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
        """``extraction.precision``; float32 if a step is run by hand without that section."""
        held: Extraction | None = vars(self).get("extraction")
        return "float32" if held is None else held.precision

    @property
    def looked_at(self) -> int | dict[int, list[int]] | None:
        """``triggers.keys``; None, for all, if the rule does not declare it, as rules do only where it is set."""
        held: Triggers | None = vars(self).get("triggers")
        return None if held is None else held.keys

    if not TYPE_CHECKING:  # type checkers then report keys that the config lacks

        def __getattr__(self, name: str) -> Any:
            raise Undeclared(
                f"this step reads the config section {name!r}, which its rule does not declare",
                "give --config a run's config file, or add that section",
            )

    @classmethod
    def from_argument(cls, text: str) -> "Settings":
        """Read ``--config``: a config file's path, or the declared sections themselves as JSON."""
        if text.lstrip().startswith("{"):
            try:
                return cls(json.loads(text))
            except (ValueError, RecursionError) as error:
                raise UserError(f"--config: not valid JSON: {error}") from None
        return cls(load(text).resolved())
