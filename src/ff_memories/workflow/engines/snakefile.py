"""Where the Snakefile is: at the top of a clone, or inside an installed package, where the wheel has put it."""

from pathlib import Path

PACKAGE = Path(__file__).parents[2]
CARRIED = PACKAGE / "project"  # the Snakefile, its rules and configs, as `setup.py` copies them into a wheel


def home() -> Path:
    """Return the folder with the Snakefile, ``workflow/``, ``config/`` and ``profiles/``."""
    return CARRIED if CARRIED.is_dir() else PACKAGE.parents[1]


def snakefile() -> Path:
    """Return the Snakefile: that of the working folder, if it is a clone, or else the package's own."""
    here = Path("Snakefile")
    return here if here.is_file() and Path("workflow/rules").is_dir() else home() / "Snakefile"
