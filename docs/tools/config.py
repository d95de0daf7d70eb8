"""Write config/README.md, the reference of all config keys, from the typed models."""

import json
import typing
from typing import Any

from pages import ROOT, options, renew
from pydantic.fields import FieldInfo

from ff_memories.config import FIDELITY, Config
from ff_memories.config.model import AUTO
from ff_memories.config.sections import FigureOptions, about, keys_of

PAGE = ROOT / "config" / "README.md"


def page() -> str:
    """Return the page as Markdown."""
    lines = [
        "# Config keys",
        "",
        "One config file describes a run; Snakemake and DVC read the same file. `config.yaml` is that of the demo run.",
        "`ff-memories init` writes one for your model and text. An unknown key stops the run before it starts;",
        "a key that the file leaves out has the default. (paper) marks the choice of the paper's text, (released) that",
        "of the authors' released code.",
        "`python docs/tools/config.py` generates this page.",
        "",
        "`protocol: config/protocol.yaml` names a file of keys that several runs share, so their numbers can be set",
        "side by side. A key changed there makes due what depends on it in each run. A key that the config sets",
        "otherwise is an error. `ff-memories init --protocol FILE` writes a config that names it; then `--time` cuts",
        "no sample whose size the protocol sets.",
        "",
        *_table("", Config.model_fields),
    ]
    for name, field in Config.model_fields.items():
        if keys := keys_of(field):
            lines += ["", f"## {name}", "", about(field), ""]
            lines += _table(f"{name}.", keys)
    lines += ["", "## `figures.<figure>`", "", (FigureOptions.__doc__ or "").strip(), ""]
    lines += _table("figures.<figure>.", FigureOptions.model_fields)
    lines += ["", "## What `auto` becomes", "", "| key | `fidelity: paper` | `fidelity: released` |", "|---|---|---|"]
    lines += [f"| `{path}` | {value} | {FIDELITY['released'][path]} |" for path, value in FIDELITY["paper"].items()]
    others = " and ".join(f"`{path}` becomes {value}" for path, value in AUTO.items())
    lines += ["", f"Of a model of `transformers`, {others}; `fidelity: released` is refused."]
    return "\n".join(lines) + "\n"


def _table(prefix: str, keys: dict[str, FieldInfo]) -> list[str]:
    rows = ["| key | values | default | meaning |", "|---|---|---|---|"]
    for name, field in keys.items():
        if below := keys_of(field):
            if prefix:
                rows += _table(f"{prefix}{name}.", below)[2:]
            continue
        about_key = _cell(field.description or "")
        rows.append(f"| `{prefix}{name}` | {_values(field.annotation)} | {_default(field)} | {about_key} |")
    return rows


def _default(field: FieldInfo) -> str:
    return "" if field.is_required() else json.dumps(field.get_default(call_default_factory=True)).strip('"')


def _cell(text: str) -> str:
    """Return a description as a cell, in one line, in which ``<name>`` outside code is text and not a tag."""
    plain, line = lambda part: part.replace("|", "/").replace("<", "&lt;"), " ".join(text.split())
    return "`".join(part.replace("|", "\\|") if i % 2 else plain(part) for i, part in enumerate(line.split("`")))


def _values(kind: Any) -> str:
    if typing.get_origin(kind) is typing.Literal:
        return ", ".join(typing.get_args(kind))
    if kind in (int, str, float, bool):
        return kind.__name__
    if typing.get_origin(kind) is typing.Annotated:
        return _values(typing.get_args(kind)[0])
    parts = [_values(a) if a is not type(None) else "null" for a in typing.get_args(kind)]
    if typing.get_origin(kind) is list:
        return f"list of {parts[0]}"
    if typing.get_origin(kind) is dict:
        return "mapping"
    return " or ".join(parts) or getattr(kind, "__name__", str(kind))


def main(argv: list[str] | None = None) -> None:
    args = options(__doc__, PAGE).parse_args(argv)
    renew(args.out, page(), args.check)


if __name__ == "__main__":
    main()
