"""Compare the installed packages with constraints.txt."""

import hashlib
import re
from importlib.metadata import distributions, requires, version
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

from ff_memories.base.errors import UserError

LOCK = Path("workflow/envs/constraints.txt")


def pins(path: Path = LOCK) -> dict[str, str]:
    """Return {package: version} of the environment's lock, constraints.txt."""
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except FileNotFoundError:
        raise UserError(f"{path}: no such file", "run this command in the project's top folder") from None
    matches = (re.match(r"([\w.-]+)==([^\s;]+)", line) for line in lines)
    return {canonicalize_name(pin[1]): pin[2] for pin in matches if pin}


def _needed() -> list[Requirement]:
    requirements = map(Requirement, requires("ff-memories") or [])
    return [one for one in requirements if one.marker is None or one.marker.evaluate({"extra": ""})]


def needed() -> list[str]:
    """Return ``package==version`` of the packages that this one needs, as installed here."""
    return [f"{one.name}=={version(one.name)}" for one in _needed()]


def unmet(*names: str) -> str:
    """Return what this package needs, of some packages or all, and is not here: ``torch>=2.7 (2.4 is installed)``."""
    wanted = [one for one in _needed() if not names or one.name in names]
    here = {one: [d.version for d in distributions(name=one.name)][:1] for one in wanted}
    other = [one for one in wanted if not any(map(one.specifier.contains, here[one]))]
    return ", ".join(f"{one} ({''.join(here[one]) or 'none'} is installed)" for one in other)


def digest(path: Path = LOCK) -> str:
    """Return the SHA-256 of the environment's lock."""
    return hashlib.sha256(path.read_bytes()).hexdigest()


def differences(wanted: dict[str, str]) -> tuple[int, dict[str, str]]:
    """Return how many locked packages are installed, and {package: version here} for those with another version.

    A locked package that is not installed belongs to an extra or another platform. A local version label (``+cpu``) is
    ignored.
    """
    here: dict[str, str] = {canonicalize_name(d.metadata["Name"]): d.version for d in distributions()}
    both = sorted(wanted.keys() & here.keys())
    return len(both), {p: here[p] for p in both if Version(here[p]).public != Version(wanted[p]).public}
