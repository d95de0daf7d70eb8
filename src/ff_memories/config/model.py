"""The config's section on the language model, which is of one of two kinds."""

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, ClassVar, Self

from pydantic import Discriminator, Field, Tag, model_validator

from ff_memories.config.sections import OF_TRANSFORMERS, FilePath, Section

KINDS = FAIRSEQ, TRANSFORMERS = "<fairseq>", "<transformers>"  # as pydantic names them in a fault's place
SHA256 = r"^[0-9a-f]{64}$"
ONE_ORIGIN = "name one of folder, hub, gguf, source, or checkpoint and dictionary"

AUTO = {"corpus.tokenizer": "model", "values.projection": "raw"}  # for a model of `transformers`
NEEDED = "needs model.folder or model.hub"
OF_TRANSFORMERS_ALONE = {
    ("corpus.tokenizer", "model"): f"'model' {NEEDED}",
    ("values.projection", "raw"): f"'raw' {NEEDED}",
    ("values.projection", "scaled"): f"'scaled' {NEEDED}",
    ("triggers.signs", "both"): f"'both' {NEEDED}; ReLU has no negative coefficients",
    ("composition.residual", "read"): f"'read' {NEEDED}; fairseq has no parallel block",
    ("mutations.unit", "word"): f"'word' {NEEDED}; a fairseq model's tokens are words",
}
BY_FREQUENCY = "a tokenizer does not list its types by frequency; use sklearn or spacy"
OF_A_DICTIONARY = {"corpus.tokenizer": "native moses", "values.projection": "adaptive flat head random"}
OF_FAIRSEQ_ALONE = {
    (path, value): f"{value!r} needs a fairseq checkpoint; use auto or {AUTO[path]!r}"
    for path, values in OF_A_DICTIONARY.items()
    for value in values.split()
} | {
    ("composition.stop_words", "top50"): BY_FREQUENCY,
    ("composition.stop_words", "top100"): BY_FREQUENCY,
    ("fidelity", "released"): "released needs a fairseq checkpoint: the released code reads no other",
}


class ModelSection(Section):
    """The language model: a fairseq transformer_lm checkpoint and its dictionary, or a model of `transformers`."""

    has_tokenizer: ClassVar[bool]  # whether it reads raw text with a tokenizer, or a text's tokens with a dictionary
    auto: ClassVar[dict[str, str]] = {}  # {key: what `auto` means}, where that differs from the paper's choice
    refuses: ClassVar[dict[tuple[str, str], str]]  # {(key, a value that this kind of model cannot have): why}

    source: str | None = None
    """a named source: a fairseq checkpoint, such as `adaptive_lm_wiki103.v2`, or with `files` a model of
    `transformers`, such as `smollm2-135m-instruct-q4_1`; null: use `checkpoint` and `dictionary`"""
    licence: str | None = None
    """the model's licence, shown in the report; `init` takes it from the hub"""

    @model_validator(mode="before")
    @classmethod
    def _without_the_other_kinds_nulls(cls, given: Any) -> Any:
        if not isinstance(given, dict):
            return given
        others = (FairseqModel.model_fields | TransformersModel.model_fields).keys() - cls.model_fields.keys()
        return {key: value for key, value in given.items() if value is not None or key not in others}


class FairseqModel(ModelSection):
    """A fairseq transformer_lm checkpoint and its dictionary."""

    has_tokenizer: ClassVar[bool] = False
    refuses: ClassVar[dict[tuple[str, str], str]] = OF_TRANSFORMERS_ALONE

    checkpoint: FilePath | None = None
    """a fairseq transformer_lm checkpoint, from any fairseq version"""
    dictionary: FilePath | None = Field(None, description="the checkpoint's dict.txt, with one `token count` per line")
    sha256: str | None = Field(None, pattern=SHA256, description="expected SHA-256 of the checkpoint; null: no check")
    dictionary_sha256: str | None = Field(None, pattern=SHA256)
    """expected SHA-256 of the dictionary; null: no check"""

    @model_validator(mode="after")
    def _one_origin(self) -> Self:
        for name in ("checkpoint", "dictionary"):
            if (self.source is None) != bool(getattr(self, name)):
                raise ValueError(f"give either source or {name}, and not both")
        return self

    @property
    def called(self) -> str | None:
        """The model's name; ``None`` for a checkpoint by path."""
        return self.source

    @property
    def paths(self) -> dict[str, str]:
        """The files that the config names by path, by their keys."""
        return {f"model.{key}": path for key in ("checkpoint", "dictionary") if (path := getattr(self, key))}

    def is_of(self, info: Mapping[str, Any]) -> bool:
        """Return whether a model info is of this model, as far as both name one."""
        digest = info.get("checkpoint_sha256")
        return info["scope"] != "model" and (None in (self.sha256, digest) or self.sha256 == digest)


class TransformersModel(ModelSection):
    """A model of `transformers`, from a folder, the Hugging Face hub, a GGUF file or a named source."""

    has_tokenizer: ClassVar[bool] = True
    auto: ClassVar[dict[str, str]] = AUTO
    refuses: ClassVar[dict[tuple[str, str], str]] = OF_FAIRSEQ_ALONE

    folder: FilePath | None = None
    """a folder with a model of `transformers`: config.json, safetensors and tokenizer.json"""
    gguf: FilePath | None = Field(None, description="a GGUF file with a model; with `hub`, the file's name there")
    hub: str | None = Field(None, pattern=r"^[\w.-]+(/[\w.-]+)?$")
    """a model of `transformers` on the Hugging Face hub, such as EleutherAI/pythia-160m"""
    revision: str | None = Field(None, pattern=r"^[0-9a-f]{40}$")
    """the hub's commit that the files come from; `init` writes it"""
    files: dict[str, Annotated[str, Field(pattern=SHA256)]] = Field(default_factory=dict)
    """SHA-256 of each file of `folder` or `hub`, of the GGUF file, or of the file that a source is made from; `init`
    writes them"""
    start: str = Field("auto", json_schema_extra=OF_TRANSFORMERS)
    """token that every sentence of a `transformers` model begins with: auto (the tokenizer's own, or `<|endoftext|>`) |
    a token"""

    @model_validator(mode="after")
    def _one_origin(self) -> Self:
        origins = [name for name in ("source", "folder", "hub", "gguf") if getattr(self, name) is not None]
        if len(origins) != 1 and origins != ["hub", "gguf"]:
            raise ValueError(ONE_ORIGIN)
        if self.is_converted and len(self.files) != 1:
            raise ValueError("gguf and source need files with one SHA-256; write it with: ff-memories init")
        if self.hub is not None and (self.revision is None or (self.gguf or "config.json") not in self.files):
            raise ValueError("hub needs revision and files; write both with: ff-memories init")
        if odd := [n for n in self.files if "/" in n or n.startswith((".", "-")) or "{" in n]:
            raise ValueError(f"files: {odd[0]!r} is not the name of a file in the model's folder")
        return self

    @property
    def is_converted(self) -> bool:
        """Whether the model comes as one file in another format."""
        return self.gguf is not None or self.source is not None

    @property
    def digest(self) -> str:
        """The SHA-256 of the one file that a converted model comes in."""
        return next(iter(self.files.values()))

    @property
    def called(self) -> str:
        """The model's name on the hub or in the registry, or its file's or folder's."""
        return self.hub or self.source or Path(str(self.gguf or self.folder)).name

    @property
    def paths(self) -> dict[str, str]:
        """The file that the config names by path, by its key."""
        if self.gguf is not None and self.hub is None:
            return {"model.gguf": self.gguf}
        return {} if self.folder is None else {"model.folder": f"{self.folder}/config.json"}

    def is_of(self, info: Mapping[str, Any]) -> bool:
        """Return whether a model info is of this model, as far as both name one."""
        if self.is_converted:
            return info["scope"] == "model" and info.get("converted_from") in (None, self.digest)
        digests = info.get("model_sha256") or {}
        same = all(digests[name] == digest for name, digest in self.files.items() if name in digests)
        return info["scope"] == "model" and same


def _kind(given: Any) -> str:
    """Return which kind of model a section is of."""
    if not isinstance(given, dict):
        return TRANSFORMERS if getattr(given, "has_tokenizer", False) else FAIRSEQ
    return TRANSFORMERS if any(given.get(name) for name in ("folder", "hub", "gguf", "files")) else FAIRSEQ


OfFairseq = Annotated[FairseqModel, Tag(FAIRSEQ)]
OfTransformers = Annotated[TransformersModel, Tag(TRANSFORMERS)]
AnyModel = Annotated[OfFairseq | OfTransformers, Discriminator(_kind)]
