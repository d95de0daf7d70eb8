"""Write the config for a run on your own model and texts: a model of `transformers`, or a fairseq checkpoint."""

import argparse
import re
from collections.abc import Iterator
from itertools import islice, pairwise
from pathlib import Path
from typing import Any

import yaml
from pydantic.fields import FieldInfo

from ff_memories import config
from ff_memories.base import foreign
from ff_memories.base.errors import UserError, did_you_mean
from ff_memories.base.files import require_file, write_whole
from ff_memories.base.parameters import seconds
from ff_memories.config.model import TransformersModel
from ff_memories.config.sections import about, keys_of
from ff_memories.corpus import forms, segment
from ff_memories.corpus.text import paragraphs
from ff_memories.figures.registry import FIGURES
from ff_memories.inputs import from_gguf, hub, model_folder, one_text, registry
from ff_memories.inputs.fetch import fetch
from ff_memories.model.files import config_file, gguf_file
from ff_memories.model.info import quantised
from ff_memories.workflow.opening import refuse_taken
from ff_memories.workflow.run import Run

COMPARED = 100  # sentences of a text on which a model's tokenizer is tried


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("config", type=Path, help="config file to write")
    choices(parser)
    parser.add_argument("--force", action="store_true", help="overwrite an existing config")


def choices(parser: argparse.ArgumentParser) -> None:
    """Add the options that say what a new config has."""
    parser.add_argument(
        "--model",
        help="a model of `transformers`: its name on the Hugging Face hub (EleutherAI/pythia-160m), or a folder "
        "(./folder); a GGUF file (model.gguf, or OWNER/NAME:model.gguf on the hub); or a name of `fetch --list`",
    )
    parser.add_argument("--revision", help="branch, tag or commit on the hub; default: the main branch")
    parser.add_argument("--checkpoint", help="a fairseq transformer_lm checkpoint")
    parser.add_argument("--dictionary", help="the checkpoint's dict.txt")
    parser.add_argument(
        "--text",
        help="one text file, whose documents are split into both parts; or a text of `fetch --list`, such as enwik8",
    )
    several: dict[str, Any] = {"nargs": "+", "action": "extend", "default": []}
    parser.add_argument("--train", help="training text files, searched for triggers", **several)
    says = "validation text files, on which the layers are observed (section 5)"
    parser.add_argument("--validation", help=says, **several)
    parser.add_argument("--set", metavar="KEY=VALUE", help="set other keys, such as triggers.top=25", **several)
    parser.add_argument("--protocol", type=Path, help="a file of keys that several runs share, which this one names")
    says = "lower the samples' sizes until the run ends in this time here"
    parser.add_argument("--time", type=seconds, metavar="20m", help=says)


def run(args: argparse.Namespace) -> None:
    if args.config.exists() and not args.force:
        raise UserError(f"{args.config}: the file already exists", "choose another name, or overwrite it with --force")
    require_file(args.config)
    write_whole(args.config, configured(args))
    print(f"wrote {args.config}; run it with:\n  ff-memories run {args.config}")


def configured(args: argparse.Namespace) -> str:
    """Return the text of a new config, ``args.config``, after checking what can be checked before a run.

    Raises ``UserError`` for options that don't fit, a missing file, or a run that cannot be.
    """
    _refuse_combinations(args)
    file = Path(args.text) if args.text is not None and args.text not in registry.sources() else None
    texts = [*map(Path, (*args.train, *args.validation)), *([file] if file else [])]
    for path in [*(Path(path) for path in (args.checkpoint, args.dictionary) if path is not None), *texts]:
        require_file(path)
        if not path.is_file():
            names = [*registry.sources(), *map(str, path.parent.glob("*"))]
            hint = f"give a file{', or a text of ff-memories fetch --list' if path == file else ''}"
            raise UserError(f"{path}: no such file{did_you_mean(str(path), names)}", hint)
    if args.config.stem == "demo":
        raise UserError("run: results/demo belongs to the demo run", "choose another name for the config file")
    if not args.config.parent.is_dir():
        raise UserError(f"{args.config.parent}: no such folder", "name a config file in a folder that exists")
    data = config.usual() | {"run": args.config.stem}
    data["execution"]["arithmetic"] = "fast"  # recorded runs stay portable: others compare their bytes
    data["corpus"] |= {"train": {"files": [], "max_sentences": None}, "validation": {"files": []}}
    data["corpus"]["too_long"] = "split"  # and the report counts them; the released code splits none
    data["figures"] = {name: {} for name in FIGURES}  # listed, so DVC notices when options are added
    shared = {} if args.protocol is None else config.joined(config.read_yaml(args.protocol), str(args.protocol))
    data = _overlaid(data, shared)
    data["corpus"]["source"] = None if file else args.text
    data["corpus"]["train"]["files"], data["corpus"]["validation"]["files"] = args.train, args.validation
    data["model"] = {"checkpoint": args.checkpoint, "dictionary": args.dictionary}
    if args.model is not None:
        data["model"] = {"start": TransformersModel.model_fields["start"].default}
    for setting in args.set:  # before anything is read: the model is checked with its start token
        _set(data, setting)
    for path in texts:
        forms.check(path, lines_are_sentences=data["corpus"]["segmenter"] == "line")
    if args.model is not None:
        data["model"] = _found(args.model, args.revision, data["model"]["start"]) | data["model"]
    if file is not None:
        parts = one_text.split(file)
        print(f"{file}: split by {parts}")
        data["corpus"]["train"]["files"] = data["corpus"]["train"]["files"] or [parts.train.as_posix()]
        data["corpus"]["validation"]["files"] = data["corpus"]["validation"]["files"] or [parts.validation.as_posix()]
    given = {setting.partition("=")[0] for setting in args.set}
    _follow(data, given)
    folder = _folder(run_of(render(data), args.config))
    chosen = "memories" in shared.get("composition", {}) or "composition.memories" in given
    if folder is not None and not chosen and not {"relu", "relu2"} & set(map(str, config_file.read(folder).values())):
        data["composition"]["memories"] = "share:0.9"  # no memory is ever inactive
    if args.protocol is not None:
        data = {"run": data["run"], config.PROTOCOL: args.protocol.as_posix()} | _without(data, shared)
    if args.time is not None:
        from ff_memories.plan.planner import Planner, fit  # torch takes seconds to load

        planner = Planner.of(run_of(render(data), args.config))
        print("\n".join(fit(data, planner, args.time, str(args.config))))
    text = render(data)
    run_ = run_of(text, args.config)
    refuse_taken(run_)
    if folder is not None:
        sentences = list(islice(_sentences(run_.inputs.texts("train")), COMPARED))
        model_folder.read_tokenizer(folder, sentences=sentences)
    return text


def run_of(text: str, path: Path) -> Run:
    """Return the run of a config's text, which will be the file at a path."""
    data: Any = foreign.yaml_of(text, str(path), Any)
    return Run(data, str(path))


def _folder(run_: Run) -> Path | None:
    """Return the folder with the config.json of a model of `transformers`; ``None`` for a fairseq checkpoint."""
    if (pinned := run_.inputs.pinned_on_hub) and not run_.inputs.gguf:
        return hub.small_file(pinned, model_folder.CONFIG).parent
    return None if run_.inputs.model_folder is None else Path(run_.inputs.model_folder)


def _overlaid(data: dict[str, Any], shared: dict[str, Any]) -> dict[str, Any]:
    """Return a config that has a protocol's keys instead of its own."""
    out = dict(data)
    for key, value in shared.items():
        own = out.get(key)
        out[key] = _overlaid(own, value) if isinstance(own, dict) and isinstance(value, dict) else value
    return out


def _without(data: dict[str, Any], shared: dict[str, Any]) -> dict[str, Any]:
    """Return a config without the keys that its protocol has as well; one that differs stays, and is refused."""
    out = {}
    for key, value in data.items():
        there = shared.get(key)
        left = _without(value, there) if isinstance(value, dict) and isinstance(there, dict) else value
        if key not in shared or left not in ({}, there):
            out[key] = left
    return out


def _sentences(texts: list[str]) -> Iterator[str]:
    """Yield the sentences of the texts that are here already."""
    for path in texts:
        for _, words, _ in paragraphs(Path(path)) if Path(path).is_file() else ():
            starts = segment.raw_rule(words)
            yield from (" ".join(words[a:b])[:2000] for a, b in pairwise([*starts, len(words)]))


def _follow(data: dict[str, Any], given: set[str]) -> None:
    """Set keys that have to follow others which were given, unless they were given as well; say which."""
    if data["fidelity"] == "released" and "corpus.too_long" not in given:
        data["corpus"]["too_long"] = "refuse"
    top = data["triggers"]["top"]
    for section in ("mutations", "patterns"):
        if f"{section}.top" not in given and isinstance(top, int) and top < data[section]["top"]:
            data[section]["top"] = top
            print(f"{section}.top: {top}, because triggers.top is {top}")


def _refuse_combinations(args: argparse.Namespace) -> None:
    if args.text is not None and (args.train or args.validation):
        raise UserError("--text: a run has one text", "leave out --text, or --train and --validation")
    if args.text in registry.sources():
        registry.source(args.text, kind="text", key="--text")
    elif args.text is None and not (args.train and args.validation):
        lacking = " and ".join(f"--{split}" for split in ("train", "validation") if not getattr(args, split))
        raise UserError(f"{lacking} missing: a run needs two texts", "name files of both, or one text with --text")
    fairseq = [f"--{name}" for name in ("checkpoint", "dictionary") if getattr(args, name) is not None]
    if args.model is not None and fairseq:
        raise UserError(f"--model and {fairseq[0]}: a run has one model", f"leave out --model or {fairseq[0]}")
    if args.model is None and len(fairseq) < 2:
        given = f"{fairseq[0]} alone names no model" if fairseq else "no model given"
        raise UserError(given, "give --model, or --checkpoint and --dictionary")
    here = args.model is None or _is_folder(args.model) or args.model in registry.sources()
    if args.revision is not None and here:
        raise UserError("--revision needs --model with a name on the hub", "leave out --revision")


def _is_folder(model: str) -> bool:
    """Return whether ``--model`` is a folder here: it begins as a path does, or there is such a path."""
    return model.startswith((".", "/", "~")) or Path(model).exists()


def _found(model: str, revision: str | None, start: str) -> dict[str, Any]:
    """Return the config's keys of a model of `transformers`, after checking what can be checked without its weights."""
    if model in registry.models():  # like a GGUF file fetched and converted: config and tokenizer are inside
        source = registry.source(model)
        fetch(model, source)
        return {"source": model, **_converted(Path(source.folder), model, start), "licence": source.licence}
    path, (name, _, file) = Path(model).expanduser(), model.rpartition(":")
    if gguf_file.looks_like(model) and (path.exists() or not name):
        return {"gguf": path.as_posix(), **_converted(from_gguf.folder(path), path.name, start)}
    if gguf_file.looks_like(model):
        pinned = hub.resolve_file(name, file, revision)
        hub.fetch(pinned)
        converted = _converted(from_gguf.folder(pinned.folder / file, pinned.files[file]), file, start)
        origin = {"hub": pinned.name, "revision": pinned.revision, "gguf": file}
        return origin | converted | {"licence": pinned.licence or converted["licence"]}
    model_folder.refuse_file(path)
    if not _is_folder(model):
        pinned = _on_hub(model, revision, start)
        print(f"{pinned.name}: commit {pinned.revision}, licence: {pinned.licence or 'not named'}")
        return {"hub": pinned.name, "revision": pinned.revision, "files": pinned.files, "licence": pinned.licence}
    if not path.exists() and (close := did_you_mean(str(path), _folders(path.parent))):
        raise UserError(f"{path}: no such folder{close}", "give a folder that `transformers` saved a model in")
    files = model_folder.files_of(path)
    model_folder.check(path, start, str(path))
    return {"folder": path.as_posix(), "files": model_folder.digests(path, files), "licence": None}


def _on_hub(name: str, revision: str | None, start: str) -> hub.Pinned:
    """Return a model on the hub; an error also says which name of the registry, or which folder here, is like it."""
    try:
        return hub.resolve(name, revision, start)
    except UserError as error:
        what, *fix = str(error).split("\n", 1)
        what += did_you_mean(name, [*registry.models(), *_folders(Path())])
        more = "" if "/" in name else "; ff-memories fetch --list shows models that need no hub"
        raise UserError("\n".join([what, *fix]) + more) from None


def _folders(folder: Path) -> list[str]:
    """Return the folders with a model in a folder."""
    return [str(path) for path in folder.glob("*/") if (path / model_folder.CONFIG).is_file()]


def _converted(folder: Path, name: str, start: str) -> dict[str, Any]:
    """Return the digest and the licence of what a folder was made from, after checking the folder."""
    model_folder.check(folder, start, name)
    origin = model_folder.made_from(folder)
    if weights := quantised(origin):
        print(f"{name}: {weights}")
    if origin.get("chat_template"):
        print(f"{name}: its chat template is not used; the run reads plain text")
    return {"files": {name: origin["sha256"]}, "licence": origin.get("licence")}


def _set(data: dict[str, Any], setting: str) -> None:
    """Set a key of a config, given as ``section.key=value``."""
    path, equals, value = setting.partition("=")
    if not equals or not all(path.split(".")):
        raise UserError(f"--set {setting}: expected KEY=VALUE")
    *sections, key = path.split(".")
    part, fields = data, config.Config.model_fields
    for section in sections:
        part = part.setdefault(section, {})
        if not isinstance(part, dict):
            raise UserError(f"--set {setting}: {section} is a key, not a section")
        fields = keys_of(fields.get(section))
    if fields and key not in fields:
        raise UserError(f"--set {path}: unknown key{did_you_mean(key, fields)}")
    if inner := keys_of(fields.get(key)):
        raise UserError(f"--set {setting}: {key} is a section", f"set a key of it, such as {path}.{next(iter(inner))}")
    if key in fields and fields[key].annotation is str:  # a token such as [CLS] would be a list in YAML
        part[key] = re.sub(r"^(['\"])(.+)\1$", r"\2", value)
    else:
        part[key] = foreign.yaml_of(value, f"--set {setting}", Any)


def render(data: dict[str, Any]) -> str:
    """Return a config as YAML, with each key's description as a comment."""
    lines = []
    for name, value in data.items():
        field = config.Config.model_fields.get(name)
        keys = keys_of(field)
        if isinstance(value, dict) and field is not None and keys:
            lines += ["", f"# {about(field)}", f"{name}:"]
            lines += [_line(key, entry, keys.get(key), "  ") for key, entry in value.items()]
        else:
            lines.append(_line(name, value, field, ""))
    return "\n".join(lines) + "\n"


def _line(key: str, value: object, field: FieldInfo | None, indent: str) -> str:
    meaning = " ".join((field.description or "").split()) if field is not None else ""
    comment = f"  # {meaning}" if meaning else ""
    if isinstance(value, dict) and value and all(isinstance(part, str) for part in value.values()):
        below = [f"{indent}  {_plain(name)}: {_plain(part)}" for name, part in value.items()]
        return "\n".join([f"{indent}{key}:{comment}", *below])
    return f"{indent}{key}: {_plain(value)}{comment}"


def _plain(value: object) -> str:
    return yaml.safe_dump(value, default_flow_style=True, width=10_000).removesuffix("\n...\n").strip()
