"""Compare the installed packages with constraints.txt."""

import re
from importlib.metadata import distributions, requires
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

LOCK = Path("workflow/envs/constraints.txt")


def pins(path: Path = LOCK) -> dict[str, str]:
    """Return {package: version} of the environment's lock, constraints.txt."""
    listed = re.findall(r"^([\w.-]+)==([^\s;]+)", path.read_text(encoding="utf-8", errors="replace"), re.MULTILINE)
    return {canonicalize_name(name): version for name, version in listed}


def needed() -> dict[Requirement, str]:
    """Return {what this package needs: the version that is installed here; empty if none is}."""
    every = map(Requirement, requires("ff-memories") or [])
    wanted = [one for one in every if one.marker is None or one.marker.evaluate({"extra": ""})]
    return {one: next((d.version for d in distributions(name=one.name)), "") for one in wanted}


def unmet() -> str:
    """Return what this package needs and is not here, such as ``torch>=2.9 (2.4 is installed)``; empty if all is."""
    other = {one: here for one, here in needed().items() if not here or not one.specifier.contains(here, True)}
    return ", ".join(f"{one} ({here or 'none'} is installed)" for one, here in other.items())


def differences() -> list[str]:
    """Return the locked packages that are installed in another version: ``polars 1.2, expected 1.1``.

    A locked package that is not installed belongs to an extra or another platform. A local version label (``+cpu``) is
    ignored.
    """
    wanted = pins()
    here: dict[str, str] = {canonicalize_name(d.metadata["Name"]): d.version for d in distributions()}
    both = sorted(wanted.keys() & here.keys())
    other = (p for p in both if here[p].partition("+")[0] != wanted[p].partition("+")[0])
    return [f"{package} {here[package]}, expected {wanted[package]}" for package in other]
