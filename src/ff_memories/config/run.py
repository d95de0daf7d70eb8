"""The config of one run: all its sections, and which of their values go together."""

from operator import attrgetter
from typing import Any, Literal, Self

from pydantic import Field, model_validator
from pydantic.fields import FieldInfo

from ff_memories.base import sections
from ff_memories.config.model import AnyModel
from ff_memories.config.sections import (
    Baselines,
    Causal,
    Composition,
    CorpusSection,
    ExecutionSection,
    Extraction,
    FigureOptions,
    Gallery,
    Mutations,
    Patterns,
    Removals,
    Section,
    Sensitivity,
    Sources,
    Triggers,
    Values,
    keys_of,
)

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

# Required with fidelity: released, although these keys have no `auto`.
RELEASED_ONLY = {
    "triggers.per_sentence": "best",
    "triggers.duplicates": "keep",
    "values.types": "all",
    "corpus.headings": "keep",
    "corpus.too_long": "refuse",
}


class Config(Section):
    """The config of one run."""

    run: str = Field(
        pattern=r"^[A-Za-z0-9][A-Za-z0-9_.-]{0,63}$", description="name of the run; results go to `results/<run>/`"
    )
    seed: int = Field(1, ge=0, lt=2**32, description="seed of all random draws")
    fidelity: Literal["paper", "released"] = Field(
        "paper",
        description="how to set every key that is `auto`: paper (as the paper describes) | released (as the authors' "
        "released code does)",
    )
    corpus: CorpusSection
    model: AnyModel
    execution: ExecutionSection = ExecutionSection()
    extraction: Extraction = Extraction()
    triggers: Triggers = Triggers()
    mutations: Mutations = Mutations()
    patterns: Patterns = Patterns()
    values: Values = Values()
    composition: Composition = Composition()
    causal: Causal = Field(default_factory=Causal)
    removals: Removals = Field(default_factory=Removals)
    baselines: Baselines = Field(default_factory=Baselines)
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
            given = self.at(path)
            if self.fidelity == "released" and given not in ("auto", value):
                faults.append(f"{path}: {given!r} contradicts fidelity: released, which requires {value!r}")
        if self.fidelity == "released":
            for path, value in RELEASED_ONLY.items():
                if self.at(path) != value:
                    faults.append(f"{path}: fidelity: released requires {value!r}")
        faults += [f"{path}: {why}" for (path, value), why in self.model.refuses.items() if self.at(path) == value]
        if (precision := self.extraction.precision) != "float32":
            if self.values.projection == "random" or self.fidelity == "released":
                faults.append(f"extraction.precision: the released code has no {precision!r}; use float32")
            if precision == "tf32" and self.execution.device == "cpu":
                faults.append("extraction.precision: tf32 needs a GPU, but execution.device is cpu")
        for path in ("mutations.top", "patterns.top"):
            if (given := self.at(path)) > self.triggers.top:
                faults.append(f"{path}: {given} is more than triggers.top ({self.triggers.top})")
        faults += self._faults_of_keys()
        declared = sections.declared("ff_memories.paper.*.figures.toml").values()
        unknown = sorted(set(self.figures).difference(*declared))
        faults += [f"figures.{name}: no such figure; expected figure2 to figure11" for name in unknown]
        if faults:
            raise ValueError("\n  ".join(faults))
        return self

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

    def at(self, path: str) -> Any:
        """Return the value of a key, such as ``triggers.top``."""
        return attrgetter(path)(self)

    def source_names(self) -> list[str]:
        """Return the named sources that the run reads."""
        named = [self.corpus.source, self.model.source]
        if self.corpus.segmenter.startswith("spacy:"):
            named.append(self.corpus.segmenter.removeprefix("spacy:"))
        return [name for name in named if name not in (None, "docstrings", "blank")]

    def resolved(self) -> dict[str, Any]:
        """Return the config as plain data, with every ``auto`` replaced by its value under ``fidelity``."""
        plain = self.model_dump()
        meant = FIDELITY[self.fidelity] | self.model.auto
        for path, value in meant.items():
            section, key = path.split(".")
            if plain[section][key] == "auto":
                plain[section][key] = value
        return plain


def usual(keys: dict[str, FieldInfo] = Config.model_fields) -> dict[str, Any]:
    """Return a new config as plain data: the paper's choices, and null for keys that each run sets itself."""
    out: dict[str, Any] = {}
    for name, field in keys.items():
        if field.default_factory is None and not field.json_schema_extra:
            if below := keys_of(field):
                out[name] = usual(below)
            elif field.is_required():
                out[name] = None
            elif field.default is not None:
                out[name] = field.default
    return out
