"""Write the gallery's folder: the page, its scripts, and the parts made from a run."""

import shlex
import shutil
from importlib.resources import files
from pathlib import Path
from typing import Any

from ff_memories.base.errors import UserError
from ff_memories.base.files import atomic_folder, write_whole
from ff_memories.base.progress import Progress
from ff_memories.base.text import environment
from ff_memories.config import Settings
from ff_memories.corpus.store import available
from ff_memories.model.info import TITLES, neurons
from ff_memories.paper.keys.measures import LABELS
from ff_memories.report.gallery import parts
from ff_memories.report.gallery.keys import LEVELS, key_parts
from ff_memories.report.gallery.layers import layer_indices, summary
from ff_memories.report.gallery.material import KEYS_OF_A_PART, Material
from ff_memories.report.gallery.words import most_triggers, term_parts, word_parts
from ff_memories.tables.annotation import MODEL
from ff_memories.tables.gallery import HISTOGRAM_BINS

MANIFEST = "manifest"
SCRIPTS = (  # in load order
    "parts", "page", "address", "layers", "postings", "words", "filters", "list", "key", "firing", "sheet", "app",
)  # fmt: skip


def build(
    folder: Path, material: Material, config: Settings, info: dict[str, Any], configfile: str | None = None
) -> None:
    """Write a whole gallery, and replace the old one only when the new one is complete.

    ``configfile``: the run's, for commands. Raises ``UserError`` if the folder contains something other than a gallery.
    """
    if folder.exists() and not (folder / "data" / f"{MANIFEST}.js").is_file():
        others = [path for path in folder.iterdir()] if folder.is_dir() else [folder]
        if others:
            raise UserError(f"{folder}: contains something other than a gallery", "name another folder with --out")
    with atomic_folder(folder) as partial:
        _write(partial, material, config, info, configfile)
        shutil.rmtree(folder, ignore_errors=True)


def _write(folder: Path, material: Material, config: Settings, info: dict[str, Any], configfile: str | None) -> None:
    package = files("ff_memories.report.gallery")
    for source in sorted(package.joinpath("static").iterdir(), key=lambda path: path.name):
        write_whole(folder / source.name, source.read_text(encoding="utf-8"))
    write_whole(folder / "index.html", index(config.run, info["scope"], neurons(info) is not None))
    starts: dict[str, list[str]] = {"words": [], "terms": []}
    for name, index_ in (("words", word_parts(material)), ("terms", term_parts(material))):
        for number, (start, part) in enumerate(index_):
            parts.write(folder, f"{name}-{number}", part)
            starts[name].append(start)
    for number, columns in enumerate(layer_indices(material, config.mutations.mean), 1):
        parts.write(folder, f"layer-{number}", columns)
    with Progress(material.size, "keys", "gallery") as progress:
        for number, records in enumerate(key_parts(material)):
            parts.write(folder, f"keys-{number}", records)
            progress.step(len(records))
    named = {"configfile": shlex.quote(configfile)} if configfile else {}
    parts.write(folder, MANIFEST, manifest(material, config, info) | named | starts)


def manifest(material: Material, config: Settings, info: dict[str, Any]) -> dict[str, Any]:
    """Return the data that the page needs before any other part, without the first words of its indices."""
    return {
        "run": config.run,
        "scope": info["scope"],
        "layers": material.layers,
        "keys": material.keys,
        "vocab": len(material.words),
        "adaptive": bool(info.get("adaptive_output")),
        **({} if neurons(info) is None else {"neurons": neurons(info)}),
        "keys_of_a_part": KEYS_OF_A_PART,
        "top": most_triggers(material),
        "shaded": not material.levels.is_empty(),
        "counted": not material.firing.is_empty(),
        "sampled": min(config.gallery.sampled, int((available(material.corpus, config.triggers.positions) > 0).sum())),
        "levels": LEVELS,
        "bins": HISTOGRAM_BINS,
        "labels": LABELS,
        "target": config.values.target,
        "projection": config.values.projection,
        "language_models": sorted(name for name in material.labels["annotator"].unique() if name.startswith(MODEL)),
        "files": [Path(name).name for name in sorted(set(material.sentences["file"]))],
        "summary": summary(material),
        **({"shown": _shown(material)} if material.some else {}),
    }


def _shown(material: Material) -> list[list[int]]:
    """Return by layer the keys that the gallery shows."""
    layers = (material.of_layer(layer) for layer in range(1, material.layers + 1))
    return [(material.places[ordinals.start : ordinals.stop] % material.keys).tolist() for ordinals in layers]


def index(run: str, scope: str, both: bool = False) -> str:
    """Return the HTML page."""
    scripts = [f"{name}.js" for name in SCRIPTS]
    return (
        environment("report.gallery")
        .get_template("index.html.j2")
        .render(run=run, scope=scope, both=both, title=TITLES[scope], scripts=scripts)
    )
