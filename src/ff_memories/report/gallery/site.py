"""Write the gallery's folder: the page, its scripts, each layer's index, and the parts made from a run."""

import shlex
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from ff_memories.base.files import replaced_folder, write_whole
from ff_memories.base.progress import Progress
from ff_memories.base.text import environment
from ff_memories.config import Settings
from ff_memories.corpus.store import available
from ff_memories.model.info import TITLES, neurons
from ff_memories.paper.keys.measures import LABELS, MUTATIONS, key_changes
from ff_memories.report.gallery import parts
from ff_memories.report.gallery.keys import KEYS_OF_A_PART, LEVELS, key_parts
from ff_memories.report.gallery.material import Material
from ff_memories.report.gallery.words import term_parts, word_parts
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
    with replaced_folder(folder, f"data/{MANIFEST}.js", "a gallery") as partial:
        package = files(__package__)
        for source in sorted(package.joinpath("static").iterdir(), key=lambda path: path.name):
            write_whole(partial / source.name, source.read_text(encoding="utf-8"))
        write_whole(partial / "index.html", index(config.run, info["scope"], neurons(info) is not None))
        starts: dict[str, list[str]] = {"words": [], "terms": []}
        for name, index_ in (("words", word_parts(material)), ("terms", term_parts(material))):
            for number, (start, part) in enumerate(index_):
                parts.write(partial, f"{name}-{number}", part)
                starts[name].append(start)
        for number, columns in enumerate(layer_indices(material, config.mutations.mean), 1):
            parts.write(partial, f"layer-{number}", columns)
        with Progress(material.size, "keys", "gallery") as progress:
            for number, records in enumerate(key_parts(material)):
                parts.write(partial, f"keys-{number}", records)
                progress.step(len(records))
        named = {"configfile": shlex.quote(configfile)} if configfile else {}
        parts.write(partial, MANIFEST, manifest(material, config, info) | named | starts)


def manifest(material: Material, config: Settings, info: dict[str, Any]) -> dict[str, Any]:
    """Return the data that the page needs before any other part, without the first words of its indices."""
    of_layers = [material.of_layer(layer) for layer in range(1, material.layers + 1)]
    keys = [(material.places[ordinals.start : ordinals.stop] % material.keys).tolist() for ordinals in of_layers]
    return {
        "run": config.run,
        "scope": info["scope"],
        "layers": material.layers,
        "keys": material.keys,
        "vocab": len(material.words),
        "adaptive": bool(info.get("adaptive_output")),
        **({} if neurons(info) is None else {"neurons": neurons(info)}),
        "keys_of_a_part": KEYS_OF_A_PART,
        "top": material.most_triggers,
        "shaded": not material["levels"].is_empty(),
        "counted": not material["firing"].is_empty(),
        "sampled": min(config.gallery.sampled, int((available(material.corpus, config.triggers.positions) > 0).sum())),
        "levels": LEVELS,
        "bins": HISTOGRAM_BINS,
        "labels": LABELS,
        "target": config.values.target,
        "projection": config.values.projection,
        "language_models": sorted(
            name for name in material["pattern_labels"]["annotator"].unique() if name.startswith(MODEL)
        ),
        "files": [Path(name).name for name in sorted(set(material["sentences"]["file"]))],
        "summary": summary(material),
        **({"shown": keys} if material.some else {}),
    }


def index(run: str, scope: str, both: bool = False) -> str:
    """Return the HTML page."""
    template = environment("report.gallery").get_template("index.html.j2")
    scripts = [f"{name}.js" for name in SCRIPTS]
    return template.render(run=run, scope=scope, both=both, title=TITLES[scope], scripts=scripts)


PROMOTED = 5  # tokens that a list shows of a value


def layer_indices(material: Material, mean: str) -> list[dict[str, Any]]:
    """Return every layer's index: columns over the keys that the gallery shows, in order.

    ``words`` are the texts that ``top`` (the value's top token), ``more`` (the next ones), ``next`` (the top
    trigger's target) and ``end`` (the triggers' most common last token, shared by ``same`` of them) point to.
    ``probability``, ``rank``, ``agreeing`` and ``measured`` (triggers that could agree) come from the values table.
    ``coefficient`` is the top trigger's, and ``triggers`` how many are shown; null if there is none. ``fired`` says
    on how many of ``prefixes`` prefixes of the training text the key fires; both are left out where the run did not
    count. By place in the layer, if any: ``labels``, how many triggers are shallow, both, semantic and none;
    ``disagree``, on how many annotators differ; ``changes``, the mean change without the first, last and random
    token (``mean``: as the config defines it).
    """
    frame = _frame(material)
    sparse: dict[str, dict[int, Any]] = {
        "labels": _labels(material),
        "disagree": _disagreements(material),
        "changes": _changes(material, mean),
    }
    return [
        _layer(material, frame.slice(ordinals.start, len(ordinals)), ordinals, sparse)
        for ordinals in map(material.of_layer, range(1, material.layers + 1))
    ]


def _frame(material: Material) -> pl.DataFrame:
    """Return the values table in ordinal order, with a summary of each key's triggers."""
    by, last = ["layer", "key"], pl.col("last")
    triggers = material["triggers"].with_columns(pl.Series("last", material.last_tokens))
    of_keys = triggers.group_by(by).agg(
        n=pl.len(),
        coefficient=pl.col("coefficient").filter(rank=1).first(),
        last=last.mode().min(),
        same=last.unique_counts().max(),
    )
    counted = material["firing"].select(*by, "fired", "prefixes")
    joined = material["values"].sort(by).join(counted, on=by, how="left", maintain_order="left")
    return joined.join(of_keys, on=by, how="left", maintain_order="left")


def _layer(
    material: Material, frame: pl.DataFrame, ordinals: range, sparse: dict[str, dict[int, Any]]
) -> dict[str, Any]:
    places: dict[int, int] = {}

    def words(column: str) -> list[int | None]:
        return [None if t is None else places.setdefault(t, len(places)) for t in frame[column].to_list()]

    every = material["promoted"]["token"].to_numpy().reshape(material.size, -1)
    promoted = every[ordinals.start : ordinals.stop, 1:PROMOTED]
    return {
        "top": words("top_token"),
        "more": [[places.setdefault(t, len(places)) for t in tokens] for tokens in promoted.tolist()],
        "next": words("next_token"),
        "end": words("last"),
        "same": frame["same"].fill_null(0).to_list(),
        "probability": [*map(parts.number, frame["top_probability"])],
        "coefficient": [*map(parts.number, frame["coefficient"])],
        "rank": frame["next_token_rank"].to_list(),
        "agreeing": frame["agreeing_triggers"].to_list(),
        "measured": frame["triggers"].to_list(),
        "triggers": frame["n"].fill_null(0).to_list(),
        **{name: frame[name].to_list() for name in ("fired", "prefixes") if len(material["firing"])},
        **{name: {o - ordinals.start: rows[o] for o in ordinals if o in rows} for name, rows in sparse.items()},
        "words": ["" if token < 0 else material.words[token] for token in places],
    }


def _counted(material: Material) -> pl.DataFrame:
    """Return the labels of people and of the proxy; models' labels only stand on the keys' pages."""
    return material["pattern_labels"].filter(~pl.col("annotator").str.starts_with(MODEL))


def _labels(material: Material) -> dict[int, list[int]]:
    """Return by ordinal how many triggers have each label, over people and the proxy."""
    of_label = ((pl.col("label") == label).sum().alias(label) for label in LABELS)
    of_keys = _counted(material).group_by("layer", "key").agg(of_label)
    return {ordinal: [row[label] for label in LABELS] for ordinal, row in material.rows(of_keys)}


def _disagreements(material: Material) -> dict[int, int]:
    """Return by ordinal how many triggers annotators labelled differently, for keys with several annotators."""
    who, differ = pl.col("annotator").n_unique(), pl.col("label").n_unique() > 1
    of_triggers = _counted(material).group_by("layer", "key", "rank").agg(who=who, differ=differ)
    of_keys = of_triggers.filter(pl.col("who") > 1).group_by("layer", "key")
    return {ordinal: row["differ"] for ordinal, row in material.rows(of_keys.agg(pl.col("differ").sum()))}


def _changes(material: Material, mean: str) -> dict[int, list[float | None]]:
    out: dict[int, list[float | None]] = {}
    for ordinal, row in material.rows(key_changes(material["mutations"], mean)):
        changes = out.setdefault(ordinal, [None] * len(MUTATIONS))
        if row["change"] is not None and np.isfinite(row["change"]):
            changes[MUTATIONS.index(row["mutation"])] = parts.number(row["change"], 4)
    return out


def summary(material: Material) -> list[dict[str, Any]]:
    """Return each layer's number of keys with triggers, share of agreeing values and median top coefficient."""
    rows = []
    for layer in range(1, material.layers + 1):
        coefficients = material["triggers"].filter(layer=layer, rank=1)["coefficient"]
        agreed = material["values"].filter(layer=layer)["agrees"]
        share, median = map(parts.number, (agreed.mean(), coefficients.median()))  # type: ignore[arg-type]  # numbers
        rows.append({"fire": len(coefficients), "agree": share, "coefficient": median})
    return rows
