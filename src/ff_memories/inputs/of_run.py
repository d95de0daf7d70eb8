"""The files that a run reads and no step of it measures: those of its model and of its text."""

import os
from dataclasses import dataclass
from typing import Any

from ff_memories.config import Config
from ff_memories.config.model import FairseqModel, TransformersModel
from ff_memories.inputs import hub, model_folder, registry


@dataclass(frozen=True)
class Inputs:
    """The inputs of a run, as its config names them: by path, by a source of the registry, or on the hub."""

    config: Config

    @property
    def named(self) -> list[tuple[str, str]]:
        """The files that the config names by path, each with its key; no rule makes them."""
        others = {
            **self.config.model.paths,
            "composition.sample_file": self.config.composition.sample_file,
            "sources.registry": self.config.sources.registry,
        }
        splits = ("train", "validation") if self.config.corpus.source is None else ()
        texts = [(f"corpus.{split}.files", path) for split in splits for path in self.texts(split)]
        return [*texts, *((key, path) for key, path in others.items() if path)]

    @property
    def missing(self) -> list[str]:
        """A line for each of these files that is not here. A run may need it no more, so Snakemake decides."""
        return [f"{key}: {path}: no such file" for key, path in self.named if not os.path.exists(path)]

    def source(self, kind: str) -> registry.Source | None:
        """Return the registry's row for the config's ``text``, ``model`` or ``pipeline``; ``None`` if it names none."""
        name, others = self.name(kind), self.config.sources.registry
        if name is None or (kind == "pipeline" and name not in registry.sources(others)):
            return None  # an installed pipeline
        key = {"text": "corpus.source", "model": "model.source", "pipeline": "corpus.segmenter"}[kind]
        return registry.source(name, others, kind, key)

    def name(self, kind: str) -> str | None:
        """Return the name of the config's ``text``, ``model`` or ``pipeline``; ``None`` if it has none."""
        pipeline = self.config.corpus.segmenter.partition(":")[2] or None  # behind ``spacy:``
        return {"text": self.config.corpus.source, "model": self.config.model.source, "pipeline": pipeline}[kind]

    def fetched(self, kind: str) -> dict[str, Any]:
        """Return what a fetching rule needs: the source's name, its files, and the digests in the registry."""
        if (source := self.source(kind)) is None or not (source.downloads or source.sampled_from):
            return {"name": "none", "files": [], "row": ""}
        sums = sorted(part.sha256 or "" for way in source.downloads for part in way.parts)
        whole = source.sampled_from or source.sha256  # of the file that every download makes
        return {"name": self.name(kind), "files": source.paths, "row": (whole or " ".join(sums)).strip()}

    def texts(self, split: str) -> list[str]:
        """Return the text files of a split, from the config or its source."""
        source, raw = self.source("text"), f"raw_{split}"
        if source is None:
            return list(getattr(self.config.corpus, split).files)
        return [source.path(raw if self.config.model.has_tokenizer and raw in source.files else split)]

    @property
    def test_text(self) -> list[str]:
        """The text of the golden checks, on which the model's perplexity is known; empty if there are no checks."""
        model, text = self.source("model"), self.source("text")
        has_golden = model is not None and model.golden is not None and text is not None and "test" in text.files
        return [text.path("test")] if has_golden and text and self.config.sources.golden == "check" else []

    @property
    def model_files(self) -> list[str]:
        """The files of the run's model: a fairseq checkpoint, or those of a folder of `transformers`."""
        model, folder = self.config.model, self.model_folder
        if folder is None or isinstance(model, FairseqModel):
            return [self.model_file("checkpoint")]
        if model.is_converted:
            return [f"{folder}/{name}" for name in (*model_folder.CONVERTED, model_folder.MADE_FROM)]
        return [f"{folder}/{name}" for name in sorted(model.files) or model_folder.files_of(folder)]

    def model_file(self, role: str) -> str:
        """Return the ``checkpoint`` or the ``dictionary`` of a fairseq model."""
        source = self.source("model")
        return self.config.model.paths[f"model.{role}"] if source is None else source.path(role)

    @property
    def model_folder(self) -> str | None:
        """The folder of a model of `transformers`: the config's own, or where its files are fetched or converted to."""
        model = self.config.model
        if isinstance(model, FairseqModel):
            return None
        if (source := self.source("model")) is not None:
            return source.folder
        if model.gguf is not None:
            return model_folder.converted(model.digest).as_posix()
        pinned = self.pinned_on_hub
        return str(model.folder).rstrip("/") if pinned is None else pinned.folder.as_posix()

    @property
    def gguf(self) -> dict[str, str]:
        """The GGUF file that the model is converted from, and its SHA-256; nothing for another model."""
        model, pinned = self.config.model, self.pinned_on_hub
        if not isinstance(model, TransformersModel) or model.gguf is None:
            return {}
        return {model.gguf if pinned is None else (pinned.folder / model.gguf).as_posix(): model.digest}

    @property
    def pinned_on_hub(self) -> hub.Pinned | None:
        """What the config pins of a model on the hub; ``None`` for another model."""
        model = self.config.model
        if not isinstance(model, TransformersModel) or model.hub is None:
            return None
        return hub.Pinned(model.hub, str(model.revision), model.files, model.licence)

    @property
    def pinned(self) -> dict[str, str]:
        """The SHA-256 of the model's files that the config pins, by path; of a converted model what it says itself."""
        model, folder = self.config.model, self.model_folder
        if isinstance(model, TransformersModel):
            files = model_folder.made_from(str(folder)).get("files", {}) if model.is_converted else model.files
            return {f"{folder}/{name}": digest for name, digest in files.items()}
        pins = {self.model_file("checkpoint"): model.sha256, self.model_file("dictionary"): model.dictionary_sha256}
        return {path: digest for path, digest in pins.items() if digest is not None}
