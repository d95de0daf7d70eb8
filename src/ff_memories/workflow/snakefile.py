"""Where the Snakefile is: at the top of a clone, or inside an installed package, where the wheel has put it."""

import re
from pathlib import Path

from ff_memories.base.files import home


def packaged() -> dict[str, Path]:
    """Return {run: its config} of the runs whose configs come with the package, such as ``demo``."""
    named = lambda path: re.search(r"^run: (\S+)$", path.read_text(encoding="utf-8"), re.M)
    names = {path: named(path) for path in home().glob("config/*.yaml")}
    return {run[1]: path for path, run in sorted(names.items()) if run}


def in_clone() -> bool:
    """Return whether the working folder is a clone of the project."""
    return Path("Snakefile").is_file() and Path("src/ff_memories").is_dir()


def snakefile() -> Path:
    """Return the Snakefile: that of the working folder, if it is a clone, or else the package's own."""
    return Path("Snakefile") if in_clone() else home() / "Snakefile"
