"""What an export says about a run's files: their digests and names, but no path of this machine."""

import hashlib
from pathlib import Path, PurePosixPath, PureWindowsPath
from typing import Any

CHUNK = 1 << 22  # bytes read at once


def without_folders(value: Any) -> Any:
    """Return plain data in which every absolute path is cut to its last part."""
    if isinstance(value, dict):
        return {name: without_folders(held) for name, held in value.items()}
    if isinstance(value, list):
        return [without_folders(held) for held in value]
    if isinstance(value, str):
        for kind in (PurePosixPath, PureWindowsPath):
            if value.startswith("~") or (kind(value).is_absolute() and kind(value).name):
                return kind(value).name
    return value


def digest(path: Path) -> str:
    """Return a file's SHA-256."""
    made = hashlib.sha256()
    with path.open("rb") as file:
        while part := file.read(CHUNK):
            made.update(part)
    return made.hexdigest()
