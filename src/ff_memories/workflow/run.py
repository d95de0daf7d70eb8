"""A run: its config, the paths of its files, whether it is finished, and the Snakefile that makes it."""

import importlib.util
import re
import shlex
from collections.abc import Iterable
from os.path import relpath
from pathlib import Path
from typing import Any

from ff_memories import config as configs
from ff_memories.base.errors import UserError, with_extra
from ff_memories.base.files import home, require_file
from ff_memories.config.sections import plain_path
from ff_memories.figures.registry import refuse_useless
from ff_memories.inputs.of_run import Inputs
from ff_memories.model.info import read_info

DEFAULT = Path("config/config.yaml")  # the default run's
SOURCES = "sources.yaml"
FORMATS = (".pdf", ".png", ".svg", ".vl.json", ".csv", ".html")  # of a figure


class Run:
    """One run: its config, checked and resolved, its inputs and its folders; ``name``: the config's file."""

    def __init__(self, config: dict[str, Any], name: str = "config"):
        self.given = configs.joined(config, name)
        self.config = configs.parse(self.given, name)
        self.resolved = self.config.resolved()
        self.file = relpath(name)
        own, *shared = configs.by_file(config, self.file).items()
        self.files = dict([*shared, own])  # {file: its keys}: what several runs share, then the config
        self.results = f"results/{self.config.run}"
        self.inputs = Inputs(self.config)
        self._refuse_what_would_fail_later()

    @classmethod
    def read(cls, configfile: str | Path) -> "Run":
        """Return the run of a config file. Raises ``UserError`` for a config that cannot be run."""
        return cls(configs.read_yaml(Path(configfile)), str(configfile))

    def by_file(self, keys: Iterable[str]) -> dict[str, dict[str, Any]]:
        """Return {file: {key: its value there}} of keys, such as ``triggers`` or ``gallery.keys``.

        A key that both files have is in both; one that none has is in the config's.
        """
        out = {
            file: {key: value for key in sorted(keys) if (value := configs.value_at(data, key)) is not configs.ABSENT}
            for file, data in self.files.items()
        }
        lacking = dict.fromkeys(set(keys).difference(*out.values()))
        out[self.file] = dict(sorted((out[self.file] | lacking).items()))
        return {file: values for file, values in out.items() if values}

    @property
    def is_default(self) -> bool:
        """Whether it is the default run, which commands are about if nothing names another."""
        return Path(self.file) == DEFAULT

    @property
    def option(self) -> str:
        """The option that names the run in a command; nothing for the default run."""
        return "" if self.is_default else f" --configfile {shlex.quote(self.file)}"

    @property
    def program(self) -> str:
        """The command that takes Snakemake's options for the run: in a clone Snakemake, elsewhere our own."""
        return f"snakemake{self.option}" if in_clone() else f"ff-memories run {shlex.quote(self.file)} --"

    def again(self, *files: str) -> str:
        """Return the command that makes the run's files, all or these."""
        return " -- ".join(filter(None, [self.program.removesuffix(" --"), shlex.join(files)]))

    @property
    def dvc_yaml(self) -> Path:
        """What declares the run to DVC. Only the default run's is at the top, so no other starts by accident."""
        return Path("dvc.yaml") if self.is_default else Path("runs", self.config.run, "dvc.yaml")

    @property
    def dvc_lock(self) -> Path:
        """The record of every output's content."""
        return self.dvc_yaml.with_name("dvc.lock")

    @property
    def sources_yaml(self) -> Path:
        """The file with a digest of what each of the run's stages does."""
        return (Path("workflow/sources") if self.is_default else self.dvc_yaml.parent) / SOURCES

    def _refuse_what_would_fail_later(self) -> None:
        for path in (self.file, *self.annotations):
            try:
                plain_path(path)
            except ValueError as error:
                raise UserError(str(error)) from None
        texts = [path for split in ("train", "validation") for path in self.inputs.texts(split)]
        pipeline = self.inputs.fetched("pipeline")["files"]
        for path in [*(path for _, path in self.inputs.named), *self.inputs.model_files, *texts, *pipeline]:
            require_file(path)
        for name, options in self.config.figures.items():
            refuse_useless(name, vars(options))
        wants_spacy = self.config.corpus.segmenter.startswith("spacy:") or self.config.composition.stop_words == "spacy"
        if wants_spacy and importlib.util.find_spec("spacy") is None:
            raise UserError("the config needs spaCy, which is not installed", with_extra("spacy"))

    def path(self, *parts: str) -> str:
        return "/".join([self.results, *parts])

    def table(self, name: str) -> str:
        return self.path("tables", f"{name}.parquet")

    def tables(self, *names: str) -> list[str]:
        return [self.table(name) for name in names]

    def figures(self, *names: str, but: str = "") -> list[str]:
        """Return the files of some figures, ``but`` those of one format."""
        return [self.path("figures", f"{name}{suffix}") for name in names for suffix in FORMATS if suffix != but]

    @property
    def dictionary(self) -> str:
        """The model's token types: the config's dictionary, its source's, or a tokenizer's."""
        has_tokenizer = self.config.model.has_tokenizer
        return self.path("model", "types.json") if has_tokenizer else self.inputs.model_file("dictionary")

    @property
    def annotation_folder(self) -> str:
        return f"annotations/{self.config.run}"

    @property
    def annotations(self) -> list[str]:
        """The annotators' files for this run: all files in its folder and subfolders, but hidden ones."""
        paths = [path for path in Path(self.annotation_folder).rglob("*") if path.is_file()]
        return sorted(path.as_posix() for path in paths if not any(part.startswith(".") for part in path.parts))


def refuse_unfinished(run: Run) -> None:
    """Raise ``UserError`` if a run's model step has not run, or read another model than the config names now."""
    info = Path(run.path("model", "info.json"))
    if not info.is_file():
        raise UserError(f"{info}: no such file", f"run {run.again(str(info))}")
    if not run.config.model.is_of(read_info(info)):
        hint = f"name the run's own config file, or run {run.again()}"
        raise UserError(f"{run.file}: its model differs from the one in {info}, which produced these results", hint)


def packaged() -> dict[str, Path]:
    """Return {run: its config} of the runs whose configs come with the package, such as ``demo``."""
    texts = {path: path.read_text(encoding="utf-8") for path in sorted(home().glob("config/*.yaml"))}
    return {run[1]: path for path, text in texts.items() if (run := re.search(r"^run: (\S+)$", text, re.M))}


def in_clone() -> bool:
    """Return whether the working folder is a clone of the project."""
    return Path("Snakefile").is_file() and Path("src/ff_memories").is_dir()


def snakefile() -> Path:
    """Return the Snakefile: that of the working folder, if it is a clone, or else the package's own."""
    return Path("Snakefile") if in_clone() else home() / "Snakefile"
