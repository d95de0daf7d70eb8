"""Write the config for a run on your own checkpoint and texts."""

import argparse
from pathlib import Path
from typing import Any

import yaml
from pydantic.fields import FieldInfo

from ff_memories import config
from ff_memories.base.errors import UserError
from ff_memories.base.files import require_file, write_whole
from ff_memories.figures.registry import FIGURES


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("config", type=Path, help="config file to write")
    parser.add_argument("--checkpoint", required=True, help="a fairseq transformer_lm checkpoint")
    parser.add_argument("--dictionary", required=True, help="the checkpoint's dict.txt")
    texts = {
        "train": "training text files, searched for triggers",
        "validation": "validation text files, on which the layers are observed (section 5)",
    }
    for split, about in texts.items():
        parser.add_argument(f"--{split}", required=True, nargs="+", action="extend", help=about)
    parser.add_argument(
        "--set",
        nargs="+",
        action="extend",
        default=[],
        metavar="KEY=VALUE",
        help="set other keys, such as triggers.top=25",
    )
    parser.add_argument("--force", action="store_true", help="overwrite an existing config")


def run(args: argparse.Namespace) -> None:
    if args.config.exists() and not args.force:
        raise UserError(f"{args.config}: the file already exists", "choose another name, or overwrite it with --force")
    require_file(args.config)
    for path in (args.checkpoint, args.dictionary, *args.train, *args.validation):
        if not Path(path).is_file():
            raise UserError(f"{path}: no such file")
    data = config.usual() | {"run": args.config.stem}
    if data["run"] == "demo":
        raise UserError("run: results/demo belongs to the demo run", "choose another name for the config file")
    if not args.config.parent.is_dir():
        raise UserError(f"{args.config.parent}: no such folder")
    data["model"] |= {"checkpoint": args.checkpoint, "dictionary": args.dictionary}
    data["corpus"] |= {"train": {"files": args.train, "max_sentences": None}, "validation": {"files": args.validation}}
    data["figures"] = {name: {} for name in FIGURES}  # listed, so DVC notices when options are added
    for setting in args.set:
        _set(data, setting)
    text = render(data)
    config.parse(config.yaml_of(text, str(args.config)), str(args.config))
    write_whole(args.config, text)
    print(f"wrote {args.config}; run it with:\n  snakemake --cores all --resources gpu=1 --configfile {args.config}")


def _set(data: dict[str, Any], setting: str) -> None:
    path, equals, value = setting.partition("=")
    if not equals or not all(path.split(".")):
        raise UserError(f"--set {setting}: expected KEY=VALUE")
    *sections, key = path.split(".")
    place = data
    for section in sections:
        place = place.setdefault(section, {})
        if not isinstance(place, dict):
            raise UserError(f"--set {setting}: {section} is a key, not a section")
    place[key] = config.yaml_of(value, f"--set {setting}")


def render(data: dict[str, Any]) -> str:
    """Return a config as YAML, with each key's description as a comment."""
    lines = []
    for name, value in data.items():
        field = config.Config.model_fields.get(name)
        keys = config.keys_of(field)
        if isinstance(value, dict) and field is not None and keys:
            lines += ["", f"# {(field.annotation.__doc__ or '').strip()}", f"{name}:"]
            lines += [_line(key, entry, keys.get(key), "  ") for key, entry in value.items()]
        else:
            lines.append(_line(name, value, field, ""))
    return "\n".join(lines) + "\n"


def _line(key: str, value: object, field: FieldInfo | None, indent: str) -> str:
    shown = yaml.safe_dump(value, default_flow_style=True, width=10_000).removesuffix("\n...\n").strip()
    comment = f"  # {field.description}" if field is not None and field.description else ""
    return f"{indent}{key}: {shown}{comment}"
