"""What the Snakefile asks the package: a run's paths, and what a step's result depends on besides its input files."""

import ast
import hashlib
import importlib.util
import json
import os
import sys
from collections.abc import Callable, Iterable
from functools import cache, partial
from pathlib import Path
from typing import Any

from ff_memories import config as configs
from ff_memories.errors import UserError
from ff_memories.figures.catalogue import FIGURES

PACKAGE = Path(__file__).parent
MODEL_SOURCES = {"adaptive_lm_wiki103.v2": "data/adaptive_lm_wiki103.v2"}
TEXT_SOURCES = {
    "docstrings": {s: f"data/docstrings/{s}.txt" for s in ("train", "validation")},
    "wikitext-103": {
        "train": "data/wikitext-103/wiki.train.tokens",
        "validation": "data/wikitext-103/wiki.valid.tokens",
    },
}


class Run:
    """One run's config, checked and resolved, and where its files lie."""

    def __init__(self, config: dict[str, Any], name: str = "config"):
        self.config = configs.parse(config, name)
        self.resolved = self.config.resolved()
        self.given = config
        self.results = f"results/{self.config.run}"
        self._refuse_what_would_fail_later()

    def _refuse_what_would_fail_later(self) -> None:
        _ = self.checkpoint, self.dictionary, self.texts("train")
        for name, options in self.config.figures.items():
            given = {key for key in ("bins", "rank_limit") if getattr(options, key) is not None}
            if useless := sorted(given - FIGURES[name].options):
                raise UserError(f"figures.{name}.{useless[0]}: this figure has no use for it", "remove the key")
        wants_spacy = self.config.corpus.segmenter.startswith("spacy:") or self.config.composition.stop_words == "spacy"
        if wants_spacy and importlib.util.find_spec("spacy") is None:
            raise UserError(
                "the config asks for spaCy, which is not installed", "pip install -c constraints.txt -e '.[spacy]'"
            )

    @property
    def inside_dvc(self) -> bool:
        """Whether Snakemake runs as one stage of ``dvc repro``."""
        return "DVC_STAGE" in os.environ

    @property
    def has_logs(self) -> bool:
        """Whether a job of this run left its times."""
        return Path(self.path("logs")).is_dir()

    def path(self, *parts: str) -> str:
        return "/".join([self.results, *parts])

    def table(self, name: str) -> str:
        return self.path("tables", f"{name}.parquet")

    @property
    def checkpoint(self) -> str:
        """The fairseq checkpoint: the config's own, or its source's."""
        return self._model_file("model.pt", self.config.model.checkpoint)

    @property
    def dictionary(self) -> str:
        """The checkpoint's dictionary: the config's own, or its source's."""
        return self._model_file("dict.txt", self.config.model.dictionary)

    def _model_file(self, name: str, given: str | None) -> str:
        source = self.config.model.source
        if source is None:
            return given
        if source not in MODEL_SOURCES:
            raise UserError(f"model.source: {source!r} is none of {', '.join(MODEL_SOURCES)}")
        return f"{MODEL_SOURCES[source]}/{name}"

    def texts(self, split: str) -> list[str]:
        """Return the text files of a split: the config's own, or its source's."""
        source = self.config.corpus.source
        if source is None:
            return getattr(self.config.corpus, split).files
        if source not in TEXT_SOURCES:
            raise UserError(f"corpus.source: {source!r} is none of {', '.join(TEXT_SOURCES)}")
        return [TEXT_SOURCES[source][split]]

    def step(self, name: str, *keys: str) -> dict[str, Any]:
        """Return a rule's ``params``: what its step depends on besides its inputs.

        ``config`` is the declared sections as JSON, as the step reads them, ``watched`` names them for DVC, and
        ``code`` is a digest of ``sources``, the source files that determine the step. Snakemake compares the values
        with its records, and dvc.yaml names the same keys and files: both tools decide by the same things.
        """
        part: dict[str, Any] = {}
        watched = []
        for key in keys:
            head, _, tail = key.partition(".")
            if not tail:
                part[head] = self.resolved[head]
            else:
                found = {k: v for k, v in self.resolved[head].items() if k == tail}
                part.setdefault(head, {}).update(found)
            if head in self.given and (not tail or tail in (self.given[head] or {})):
                watched.append(key)
            if any(path.split(".")[0] == head for path in configs.FIDELITY["paper"]):
                watched.append("fidelity")
        return {
            "config": json.dumps(part, sort_keys=True),
            "watched": sorted(set(watched)),
            "sources": sources(name),
            "code": digest(sources(name)),
        }

    def step_by(self, keys: Callable[[Any], tuple[str, ...]]) -> dict[str, Callable[[Any], Any]]:
        """Return ``step``'s params for a rule whose step and keys depend on its wildcards."""
        return {name: partial(self._field, keys, name) for name in ("config", "watched", "sources", "code")}

    def _field(self, keys: Callable[[Any], tuple[str, ...]], name: str, wildcards: Any) -> Any:
        return self.step(*keys(wildcards))[name]


def use_tools_of_this_environment() -> None:
    """Put the environment that runs Snakemake first on the path of its jobs, whether or not it is activated."""
    os.environ["PATH"] = os.path.dirname(sys.executable) + os.pathsep + os.environ.get("PATH", "")


def _module(path: Path) -> str:
    parts = path.relative_to(PACKAGE.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


@cache
def _modules() -> dict[str, Path]:
    return {_module(path): path for path in PACKAGE.rglob("*.py")}


def _imports(path: Path) -> Iterable[str]:
    """Yield the package's own modules that a file imports, wherever in it."""
    known = _modules()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        names = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module:
            names = [node.module, *(f"{node.module}.{alias.name}" for alias in node.names)]
        yield from (name for name in names if name in known)


@cache
def _sources(step: str) -> tuple[Path, ...]:
    known = _modules()
    waiting, found = [f"ff_memories.steps.{step}"], set()
    while waiting:
        name = waiting.pop()
        if name in found or name not in known:
            continue
        found.add(name)
        waiting += _imports(known[name])
        waiting.append(name.rpartition(".")[0])
    files = {known[name] for name in found}
    for directory in {file.parent for file in files if file.name == "__init__.py" and file.parent != PACKAGE}:
        files |= {f for f in directory.rglob("*") if f.suffix in (".toml", ".j2", ".css", ".js", ".html")}
    return tuple(sorted(files))


def sources(step: str) -> list[str]:
    """Return the files of the package that determine a step: its module and all it imports, with their data."""
    root = PACKAGE.parent.parent
    return [path.relative_to(root).as_posix() for path in _sources(step)]


@cache
def _digest(files: tuple[str, ...]) -> str:
    whole = hashlib.sha256()
    for file in files:
        whole.update(file.encode() + b"\0" + (PACKAGE.parent.parent / file).read_bytes())
    return whole.hexdigest()


def digest(files: list[str]) -> str:
    """Return the SHA-256 of source files and their names."""
    return _digest(tuple(files))
