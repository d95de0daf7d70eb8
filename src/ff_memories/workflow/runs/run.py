"""The Snakefile's view of a run: its paths, and what each step depends on besides its input files."""

import importlib.util
import json
import math
import os
import re
import shlex
import shutil
import sys
import textwrap
import unicodedata
import webbrowser
from collections.abc import Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

from ff_memories import config as configs
from ff_memories import declaration
from ff_memories.base import machine
from ff_memories.base.errors import UserError, with_extra
from ff_memories.base.files import require_file
from ff_memories.base.progress import duration
from ff_memories.base.text import escape_invisible
from ff_memories.claims.shown import summary
from ff_memories.figures.registry import refuse_useless
from ff_memories.inputs import registry
from ff_memories.inputs.fetching import hub
from ff_memories.inputs.models import model_folder
from ff_memories.report.cost import costs
from ff_memories.workflow import code_digest, sizes
from ff_memories.workflow.snakefile import snakefile

DEFAULT = Path("config/config.yaml")  # the default run's
SOURCES = "sources.yaml"
OF_SHARD = re.compile(r"/(shards|cuts)/\d+-of-\d+[./]")  # in a path
SMALL = 100_000_000  # bytes of a model's files: on a smaller one, only the search for triggers takes long enough to cut
FORMATS = (".pdf", ".png", ".svg", ".vl.json", ".csv", ".html")  # of a figure
SLOWEST = 5  # rules whose time a finished run says
WIDTH = 100  # of a finished run's lines, at most
OPEN = "FF_MEMORIES_OPEN"  # set if a browser is to show the report at the end


class Run:
    """One run: its config, checked and resolved, its folders, its model, and what it measures.

    Args:
        config: the config's data.
        name: the config's file.
    """

    def __init__(self, config: dict[str, Any], name: str = "config"):
        self.config = configs.parse(config, name)
        self.resolved = self.config.resolved()
        self.given = config
        self.file = os.path.relpath(name)
        self.results = f"results/{self.config.run}"
        self._refuse_what_would_fail_later()

    @classmethod
    def read(cls, configfile: str | Path) -> "Run":
        """Return the run of a config file. Raises ``UserError`` for a config that cannot be run."""
        return cls(configs.read_yaml(Path(configfile)), str(configfile))

    @property
    def is_default(self) -> bool:
        """Whether it is the default run, which commands are about if nothing names another."""
        return Path(self.file) == DEFAULT

    @property
    def option(self) -> str:
        """The option that names the run in a command; nothing for the default run."""
        return "" if self.is_default else f" --configfile {shlex.quote(self.file)}"

    def again(self, *files: str) -> str:
        """Return the command that makes the run's files, all or these: in a clone Snakemake, elsewhere our own."""
        command = (
            f"ff-memories run {shlex.quote(self.file)}" if snakefile().is_absolute() else f"snakemake{self.option}"
        )
        return " -- ".join(filter(None, [command, " ".join(map(shlex.quote, files))]))

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
        return self.dvc_yaml.with_name(SOURCES)

    def _refuse_what_would_fail_later(self) -> None:
        results = Path(self.results)
        inside = [path for path in results.iterdir() if not path.suffix] if results.is_dir() else []
        for folder in (results.parent, results, *inside):
            if folder.exists() and not folder.is_dir():
                raise UserError(f"{folder}: expected a folder, found a file", f"remove {folder}, or move it away")
        own = [path for _, path in self.named]
        refuse_odd_paths(self.file, *self.annotations, *own)
        files = [*self.model_files, self.dictionary, *self.texts("train"), *self.texts("validation")]
        refuse_odd_paths(*files)
        for path in [*own, *files]:
            require_file(path)
        _ = self.source("pipeline")
        for name, options in self.config.figures.items():
            refuse_useless(name, vars(options))
        wants_spacy = self.config.corpus.segmenter.startswith("spacy:") or self.config.composition.stop_words == "spacy"
        if wants_spacy and importlib.util.find_spec("spacy") is None:
            raise UserError("the config needs spaCy, which is not installed", with_extra("spacy"))

    def check_inputs(self) -> list[str]:
        """Check inputs before the first job, so no job fails on them hours later.

        A missing input is not an error, because the files made from it may exist. If a job needs it, Snakemake stops
        before the first job.

        Returns:
            One line for each missing file that the config names.

        Raises:
            UserError: no permission to read a file, an entry in the annotators' folder that is not a file, or a bad
                ``sample_file``.
        """
        missing = []
        for key, path in [*self.named, *((self.annotation_folder, path) for path in self.annotations)]:
            if not os.path.exists(path):
                missing.append(f"{self.file}: {key}: {path}: no such file")
            elif not os.access(path, os.R_OK):
                raise UserError(f"{key}: {path}: no permission to read it", f"run chmod u+r {shlex.quote(path)}")
        for entry in self._in_annotation_folder():
            if not entry.is_dir() and not entry.is_file():
                what = "a broken link" if entry.is_symlink() else "a pipe or a device"
                raise UserError(f"{entry}: expected an annotation file, found {what}", "remove it from the folder")
        given = self.config.composition.sample_file
        if given is not None and os.path.exists(given):
            from ff_memories.corpus import sample  # polars is slow to import, and every job reads this module

            sample.check(Path(given))
        return missing

    def check_folder(self) -> None:
        """Raise ``UserError`` if the working folder may not be written to."""
        if not os.access(".", os.W_OK | os.X_OK):
            raise UserError(f"{Path.cwd()}: no permission to write to it", "run in a folder that you may write to")

    def check_outputs(self) -> None:
        """Raise ``UserError`` if the run's folder, one in it or one above it may not be written to."""
        above = [Path("results"), Path(self.results)]
        inside = [path for path in above[1].iterdir() if path.is_dir()] if above[1].is_dir() else []
        for folder in [*above, *inside]:
            if folder.exists() and not os.access(folder, os.W_OK | os.X_OK):
                raise UserError(
                    f"{folder}: no permission to write to it", f"run chmod -R u+w {folder}, or run in another folder"
                )

    @property
    def named(self) -> list[tuple[str, str]]:
        """The files that the config names by path, each with its key; no rule makes them."""
        corpus = self.config.corpus
        found = [("corpus.train.files", path) for path in corpus.train.files]
        found += [("corpus.validation.files", path) for path in corpus.validation.files]
        others = {
            **self.config.model.paths,
            "composition.sample_file": self.config.composition.sample_file,
            "sources.registry": self.config.sources.registry,
        }
        return [*found, *((key, path) for key, path in others.items() if path)]

    @property
    def inside_dvc(self) -> bool:
        """Whether this Snakemake runs as a stage of ``dvc repro``."""
        return "DVC_STAGE" in os.environ

    @property
    def has_logs(self) -> bool:
        """Whether the run has logs, with its jobs' times."""
        return Path(self.path("logs")).is_dir()

    def outcome(self) -> str | None:
        """Return what a finished run says, wrapped: its verdicts, its first lines, its times, and where to look.

        ``None`` if it has no verdicts yet.
        """
        try:
            claims = json.loads(Path(self.path("claims.json")).read_text(encoding="utf-8"))
            scope = json.loads(Path(self.path("model", "info.json")).read_text(encoding="utf-8"))["scope"]
        except (OSError, ValueError, LookupError):
            return None
        verdicts = summary.line(self.config.run, scope, summary.counts(claims))
        try:
            lines = summary.first_lines(Path(self.path("summary.md")).read_text(encoding="utf-8"), verdicts) or []
        except (OSError, ValueError):
            lines = []
        spent = costs([str(path) for path in Path(self.path("logs")).rglob("*.tsv")])
        if spent:
            slowest = ", ".join(f"{cost.rule} {duration(cost.seconds)}" for cost in spent[:SLOWEST])
            total = duration(sum(cost.seconds for cost in spent))
            lines += [f"Time of all jobs, one after the other: {total}; the most: {slowest}."]
        width = min(shutil.get_terminal_size((WIDTH, 0)).columns, WIDTH)
        wrapped = partial(textwrap.fill, width=width, break_long_words=False, break_on_hyphens=False)
        return "\n".join(map(wrapped, filter(None, [verdicts, *lines, self.where()])))

    def where(self) -> str:
        """Return where to look at a run's results, in one line; nothing if there are none."""
        look = {"report": "report/report.html", "gallery": "gallery/index.html", "time and memory": "report/cost.html"}
        there = [f"{what} {self.path(file)}" for what, file in look.items() if Path(self.path(file)).is_file()]
        return f"Where to look: {', '.join(there)}." if there else ""

    def show_report(self) -> None:
        """Open the report in a browser, if ``ff-memories run --open`` started the run."""
        if os.environ.get(OPEN):
            webbrowser.open(Path(self.path("report/report.html")).resolve().as_uri())

    @property
    def measures_choices(self) -> bool:
        """Whether the default target includes the sensitivity to analysis choices."""
        return self.config.sensitivity.choices != "none"

    def computes_on_cpu(self, executor: Any) -> bool:
        """Return whether steps that run the model use this machine's CPU, and so need not wait for a GPU.

        ``executor``: Snakemake's executor plugin. Jobs on a cluster may have a GPU even if this machine has none.
        """
        local = executor is None or executor.common_settings.local_exec
        return local and (self.config.execution.device == "cpu" or not machine.gpu_present())

    def path(self, *parts: str) -> str:
        return "/".join([self.results, *parts])

    def figures(self, *names: str, but: str = "") -> list[str]:
        """Return the files of some figures, ``but`` those of one format."""
        return [self.path("figures", f"{name}{suffix}") for name in names for suffix in FORMATS if suffix != but]

    @property
    def cuts_all_steps(self) -> bool:
        """Whether all steps that run the model are cut into shards, and not only the search for triggers."""
        known = [Path(path).stat().st_size for path in self.model_files if Path(path).is_file()]
        return self.config.execution.shards != "auto" or not known or sum(known) > SMALL

    def scatter(self, workflow: Any) -> dict[str, int]:
        """Return the number of shards of the text and of every model of the baselines, which changes no result.

        ``execution.shards: auto`` gives a job to every core, GPU or job of a cluster that Snakemake may use.
        """
        limits, gpu = workflow.resource_settings, workflow.global_resources.get("gpu")
        gpus = None if gpu is None or self.computes_on_cpu(workflow.executor_plugin) else gpu.value
        shards = self.config.execution.shards_for(gpus or limits.nodes or limits.cores or 1)
        own = {"corpus": shards, "baselines": math.ceil(shards / len(self.config.baselines.names))}
        return own | dict(limits.overwrite_scatter)

    def memory(self, rule: str, model: str = "") -> int:
        """Return the megabytes that Snakemake reserves for a job of a rule, so jobs that do not fit wait.

        ``model``: the folder of a model of the baselines.
        """
        rule += sizes.OF_A_BASELINE if model else ""
        described = Path(self.path("model", "model.json"))
        return sizes.megabytes(self.config, described, self.model_files, self.texts("train"), rule)

    def table(self, name: str) -> str:
        return self.path("tables", f"{name}.parquet")

    def tables(self, *names: str) -> list[str]:
        return [self.table(name) for name in names]

    @property
    def sampling(self) -> tuple[str, ...]:
        """The sections that say which memories the run looks at; none where it looks at all."""
        return () if self.config.triggers.keys is None else ("seed", "triggers")

    @property
    def gallery_sampling(self) -> tuple[str, ...]:
        """The keys that say which of these memories the gallery shows; none where it shows all."""
        return () if self.config.gallery.keys is None else ("gallery.keys",)

    @property
    def annotations(self) -> list[str]:
        """The annotators' files for this run: all files in its folder and subfolders."""
        return sorted(path.as_posix() for path in self._in_annotation_folder() if path.is_file())

    @property
    def annotation_folder(self) -> str:
        return f"annotations/{self.config.run}"

    def _in_annotation_folder(self) -> Iterator[Path]:
        for path in Path(self.annotation_folder).rglob("*"):
            if not any(part.startswith(".") for part in path.parts):
                yield path

    @property
    def model_files(self) -> list[str]:
        """The files of the run's model: a fairseq checkpoint, or those of a folder of `transformers`."""
        model, folder = self.config.model, self.model_folder
        if folder is None or isinstance(model, configs.FairseqModel):
            return [self.checkpoint]
        if isinstance(model, configs.TransformersModel) and model.is_converted:
            return [f"{folder}/{name}" for name in (*model_folder.CONVERTED, model_folder.MADE_FROM)]
        return [f"{folder}/{name}" for name in sorted(model.files) or model_folder.files_of(folder)]

    @property
    def model_folder(self) -> str | None:
        """The folder of a model of `transformers`: the config's own, or where its files are fetched or converted to."""
        model = self.config.model
        if isinstance(model, configs.FairseqModel):
            return None
        if model.source is not None:
            return self._named("model").folder
        if model.gguf is not None:
            return model_folder.converted(model.digest).as_posix()
        pinned = self.pinned_on_hub
        return str(model.folder).rstrip("/") if pinned is None else pinned.folder.as_posix()

    @property
    def gguf(self) -> dict[str, str]:
        """The GGUF file that the model is converted from, and its SHA-256; nothing for another model."""
        model, pinned = self.config.model, self.pinned_on_hub
        if isinstance(model, configs.FairseqModel) or model.gguf is None:
            return {}
        return {model.gguf if pinned is None else f"{pinned.folder.as_posix()}/{model.gguf}": model.digest}

    @property
    def pinned(self) -> dict[str, str]:
        """The SHA-256 of the model's files that the config pins, by path; of a converted model what it says itself."""
        model, folder = self.config.model, self.model_folder
        if isinstance(model, configs.TransformersModel):
            files = model_folder.made_from(str(folder)).get("files", {}) if model.is_converted else model.files
            return {f"{folder}/{name}": digest for name, digest in files.items()}
        pins = {self.checkpoint: model.sha256, self.dictionary: model.dictionary_sha256}
        return {path: digest for path, digest in pins.items() if digest is not None}

    @property
    def pinned_on_hub(self) -> hub.Pinned | None:
        """What the config pins of a model on the hub; ``None`` for another model."""
        return hub.pinned(self.config.model)

    def hub_file(self, name: str) -> str:
        """Return what ``ff-memories fetch --hub`` needs to fetch a file, as JSON."""
        if (pinned := self.pinned_on_hub) is None:
            raise ValueError("the model is not on the hub")
        return json.dumps({"name": pinned.name, "revision": pinned.revision, "files": {name: pinned.files.get(name)}})

    @property
    def checkpoint(self) -> str:
        """The fairseq checkpoint, from the config or its source."""
        return self._model_file("checkpoint")

    @property
    def dictionary(self) -> str:
        """The model's token types: the config's dictionary, its source's, or a tokenizer's."""
        return self.path("model", "types.json") if self.config.model.has_tokenizer else self._model_file("dictionary")

    def _model_file(self, role: str) -> str:
        return self.config.model.paths.get(f"model.{role}") or self._named("model").path(role)

    def source(self, kind: str) -> registry.Source | None:
        """Return the registry's row for the config's ``text``, ``model`` or ``pipeline``; ``None`` if it names none."""
        segmenter = self.config.corpus.segmenter
        keys = {
            "text": ("corpus.source", self.config.corpus.source),
            "model": ("model.source", self.config.model.source),
            "pipeline": ("corpus.segmenter", segmenter.removeprefix("spacy:") if "spacy:" in segmenter else None),
        }
        key, name = keys[kind]
        others = self.config.sources.registry
        if name is None or (kind == "pipeline" and name not in registry.sources(others)):
            return None  # an installed pipeline
        return registry.source(name, others, kind, key)

    def _named(self, kind: str) -> registry.Source:
        """Return the source of a kind; raise ``ValueError`` if the config names none."""
        if (source := self.source(kind)) is None:
            raise ValueError(f"the config names no source for its {kind}")
        return source

    def fetched(self, kind: str) -> dict[str, Any]:
        """Return what a fetching rule needs: the source's name, its files, and the digests in the registry."""
        source = self.source(kind)
        if source is None or not (source.downloads or source.sampled_from):
            return {"name": "none", "files": [], "row": ""}
        corpus = self.config.corpus
        pipeline = corpus.segmenter.removeprefix("spacy:")
        name = {"text": corpus.source, "model": self.config.model.source, "pipeline": pipeline}[kind]
        sums = sorted(part.sha256 or "" for way in source.downloads for part in way.parts)
        sums = [source.sha256] if source.sha256 else sums  # of the file that every download makes
        sums = [source.sampled_from] if source.sampled_from else sums
        return {"name": name, "files": source.paths, "row": " ".join(sums).strip()}

    @property
    def golden(self) -> list[str]:
        """The output of the golden checks, for rules that wait for it; empty if there are no checks."""
        source = self.source("model")
        text = self.source("text")
        known = source is not None and source.golden is not None and text is not None and "test" in text.files
        checked = known and self.config.sources.golden == "check"
        return [self.path("golden", "golden.json")] if checked else []

    @property
    def golden_triggers(self) -> list[str]:
        """The output of the golden check of the triggers; empty for a part of the text, where it does not apply."""
        whole = self.config.corpus.train.max_sentences is None
        return [self.path("golden", "triggers.json")] if self.golden and whole else []

    @property
    def test_text(self) -> list[str]:
        """The test text with known perplexity; empty if there are no golden checks."""
        return [self._named("text").path("test")] if self.golden else []

    def texts(self, split: str) -> list[str]:
        """Return the text files of a split, from the config or its source."""
        if self.config.corpus.source is None:
            return getattr(self.config.corpus, split).files
        source, raw = self._named("text"), f"raw_{split}"
        return [source.path(raw if self.config.model.has_tokenizer and raw in source.files else split)]

    @property
    def cuts_first(self) -> bool:
        """Whether to cut sentences in shards before building the corpus, because spaCy takes hours on one core."""
        return self.config.corpus.segmenter.startswith("spacy:")

    @property
    def sample(self) -> dict[str, list[str]]:
        """The input files of a given sample, for the rule that reads it; empty lists if the sample is drawn."""
        given = self.config.composition.sample_file
        if given is None:
            return {"sample": [], "sentences": [], "texts": []}
        return {"sample": [given], "sentences": [self.table("sentences")], "texts": self.texts("validation")}

    def step(self, name: str, *keys: str) -> dict[str, Any]:
        """Return a rule's ``params``: what its step depends on besides its inputs.

        ``config`` has the declared sections as JSON for the step, ``watched`` has their names for DVC, and ``code`` is
        a digest of the step's code. Snakemake compares these values with its records, and ``sources.yaml`` has them for
        DVC, so both tools rerun a step for the same reasons. In a rule with a wildcard ``model``, a model of the
        baselines has their sizes of samples.

        Args:
            name: the step's module.
            keys: sections of the config, or single keys of one, with blanks between them.

        Raises:
            UserError: the step reads a section that its rule does not pass.
        """
        keys = tuple(" ".join(keys).split())
        lacking = declaration.sections(name) - {key.partition(".")[0] for key in keys}
        if lacking - (set() if self.sampling else {"triggers"}):
            raise UserError(
                f"the rule of the step {name} does not pass {', '.join(sorted(lacking))}", "add it to the rule"
            )
        return {
            "config": lambda wildcards: json.dumps(self._sections(keys, wildcards), sort_keys=True),
            "watched": lambda wildcards: self._watched((*keys, *(["baselines"] if _of_model(wildcards) else []))),
            "code": lambda wildcards: code_digest.digest(name),
        }

    def _sections(self, keys: tuple[str, ...], wildcards: Any) -> dict[str, Any]:
        every = self.config.baselines.of_a_model(self.resolved) if _of_model(wildcards) else self.resolved
        part: dict[str, Any] = {}
        for key in keys:
            head, _, tail = key.partition(".")
            if not tail:
                part[head] = every[head]
            else:
                found = {k: v for k, v in every[head].items() if k == tail}
                part.setdefault(head, {}).update(found)
        return part

    def _watched(self, keys: tuple[str, ...]) -> list[str]:
        """Return the keys that are in the config file, and ``fidelity`` if it may set one of them."""
        watched = set()
        for key in keys:
            head, _, tail = key.partition(".")
            if head in self.given and (not tail or tail in (self.given[head] or {})):
                watched.add(key)
            if any(path.split(".")[0] == head for path in configs.FIDELITY["paper"]):
                watched.add("fidelity")
        return sorted(watched)


def _of_model(wildcards: Any) -> str:
    """Return the folder of a job's model of the baselines; empty for the run's own model."""
    return str(getattr(wildcards, "model", ""))


def refuse_odd_paths(*paths: str) -> None:
    """Raise ``UserError`` for paths that quoting cannot make safe on a command line; the rules quote all others."""
    for path in paths:
        if path.startswith("-"):
            raise UserError(f"{path}: a command would read this path as an option", f"write it as ./{path}")
        if odd := [c for c in path if unicodedata.category(c).startswith("C") or c in "\u2028\u2029"]:
            raise UserError(
                f"{escape_invisible(path)}: the path contains the character {escape_invisible(odd[0])}",
                "rename the file",
            )
        if set(path) & set("{}"):
            raise UserError(f"{path}: Snakemake reads braces in a path as wildcards", "rename the file")


def name_inputs(rules: Iterable[Any]) -> None:
    """Add the names of every rule's inputs to its ``params``, so a rule reruns if it reads other files.

    Snakemake's own triggers would also react to the number of shards, which changes no result. A rule that joins shards
    has the ``params`` of the rule that makes them.
    """
    named = {rule.name: rule for rule in rules}
    for rule in named.values():
        made_from = named.get(rule.name.removesuffix("_joined"), rule)
        rule.set_params(
            reads=lambda wildcards, rule=made_from: " ".join(sorted(_inputs(rule, wildcards))),
            tables=lambda wildcards, rule=made_from: _declarations(rule, wildcards),
            command=lambda wildcards, rule=made_from: rule.shellcmd or "",
        )


def words(rules: Iterable[Any]) -> dict[str, str]:
    """Return {rule: the first line of its docstring}, for a logger that says what a job does."""
    return {rule.name: rule.docstring.strip().partition("\n")[0] for rule in rules if rule.docstring}


def name_logs(rules: Iterable[Any], folder: str) -> None:
    """Give every rule with a command a log, named after it, and beside it a file with the job's time and memory.

    Jobs of one rule have folders, named after their wildcards.
    """
    for rule in rules:
        if rule.shellcmd and not rule.log:
            folders = {"model": "{model}", "shard": "{shard}"}  # whose values end with a slash
            own = "".join(folders.get(name, f"{{{name}}}/") for name in sorted(rule.wildcard_names))
            rule.log_modifier = rule.benchmark_modifier = rule.output_modifier
            rule.set_log(f"{folder}/{own}{rule.name}.log")
            rule.benchmark = f"{folder}/{own}{rule.name}.tsv"


def name_environment(rules: Iterable[Any]) -> None:
    """Give every rule with a command the environment that ``--sdm conda`` makes for it."""
    for rule in rules:
        if rule.shellcmd:
            rule.conda_env = "../envs/environment.yaml"  # from the rule's file


def find_producers_by_path(rules: Iterable[Any]) -> None:
    """Make Snakemake find the rule for an input by its path alone, even if the input is ``rules.X.output``.

    Snakemake binds such an input to rule X, and then runs X even if ``--allowed-rules`` excludes it, for example
    because a pulled table is older than its inputs. A path is looked up only among the allowed rules, so a stage
    of ``dvc.yaml`` runs only its own rule.
    """
    for rule in rules:
        rule.dependencies.clear()


def _inputs(rule: Any, wildcards: Any) -> set[str]:
    """Return the files that a job reads; of a rule that joins shards, those that the shards are made from."""
    files = rule.expand_input(type(wildcards)(fromdict={"shard": "", **dict(wildcards.items())}))[0]
    return {str(file) for file in files if not OF_SHARD.search(str(file))}


def _declarations(rule: Any, wildcards: Any) -> str:
    """Return the digests of the declarations of the tables that a job reads and writes."""
    known = code_digest.declarations()
    named = {
        Path(file).stem for file in {*_inputs(rule, wildcards), *map(str, rule.output)} if file.endswith(".parquet")
    }
    return " ".join(f"{name}:{known[name][:8]}" for name in sorted(named & known.keys()))


def use_tools_of_this_environment() -> None:
    """Put Snakemake's environment first on the PATH of its jobs, even if it is not activated."""
    os.environ["PATH"] = os.path.dirname(sys.executable) + os.pathsep + os.environ.get("PATH", "")
