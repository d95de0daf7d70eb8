"""Get a file out of a package of an index: the user's own pip or npm fetches the archive, which is read, never run.

pip and npm ask the index that the user set up; nothing here names one. Neither installs anything. pip would build a
source archive's metadata; ``NOTHING`` stands where its build system would be.
"""

import os
import shutil
import subprocess
import sys
import tempfile
from importlib.util import find_spec
from pathlib import Path

from ff_memories.base.errors import UserError
from ff_memories.base.files import sha256
from ff_memories.inputs.fetching.download import Got
from ff_memories.inputs.registry import Part

BUILDERS = ("hatchling/build", "setuptools/build_meta", "flit_core/buildapi", "poetry/core/masonry/api")
NOTHING = """
def prepare_metadata_for_build_wheel(folder, *_):
    import os

    os.mkdir(os.path.join(folder, "NAME-VERSION.dist-info"))
    with open(os.path.join(folder, "NAME-VERSION.dist-info", "METADATA"), "w") as file:
        file.write("Metadata-Version: 2.1\\nName: NAME\\nVersion: VERSION\\n")
    return "NAME-VERSION.dist-info"
"""


def fetch(part: Part, folder: Path) -> Got:
    """Have pip or npm fetch a package's archive into ``folder``, and check its SHA-256.

    Raises:
        UserError: pip or npm is not installed or failed, or the archive is another one.
    """
    assert part.package is not None
    tool, name, version = part.package.split(" ")
    target = folder / part.name
    folder.mkdir(parents=True, exist_ok=True)
    if not target.is_file():
        with tempfile.TemporaryDirectory(dir=folder) as place:
            command, environment = (_pip if tool == "pip" else _npm)(part, name, version, Path(place))
            print(f"{part.name}: fetched by {tool}, from the index that it is set up for", file=sys.stderr)
            done = subprocess.run(
                command, cwd=place, capture_output=True, text=True, errors="replace", env=os.environ | environment
            )
            if done.returncode or not (Path(place) / part.name).is_file():
                errors = [line for line in done.stderr.splitlines() if "err" in line.lower()]
                reason = errors[0].strip()[:300] if errors else f"no {part.name}"
                raise UserError(
                    f"{name} {version}: {tool} could not fetch it ({reason})",
                    f"check {tool}'s settings and the network, or put the archive at {target}",
                )
            (Path(place) / part.name).replace(target)
    if (found := sha256(target)) != part.sha256:
        raise UserError(f"{target}: SHA-256 is {found}, expected {part.sha256}", f"remove {target} and fetch again")
    return Got(target, part.package, found, target.stat().st_size)


def _pip(part: Part, name: str, version: str, place: Path) -> tuple[list[str], dict[str, str]]:
    own = [sys.executable, "-m", "pip"] if find_spec("pip") else [shutil.which("pip") or shutil.which("pip3") or ""]
    if not own[0]:
        raise UserError(f"{name}: pip is not installed", "python -m ensurepip, or uv pip install pip")
    (place / "wanted.txt").write_text(f"{name}=={version} --hash=sha256:{part.sha256}\n", encoding="utf-8")
    for builder in BUILDERS:
        module = place / "nothing" / f"{builder}.py"
        module.parent.mkdir(parents=True, exist_ok=True)
        for above in [folder for folder in module.parents if folder.is_relative_to(place / "nothing")][:-1]:
            (above / "__init__.py").touch()
        module.write_text(NOTHING.replace("NAME", name.replace("-", "_")).replace("VERSION", version), encoding="utf-8")
    kind = ["--only-binary", name] if part.name.endswith(".whl") else ["--no-binary", name, "--no-build-isolation"]
    command = [*own, "download", "--no-deps", "--require-hashes", "--no-input", "--disable-pip-version-check", *kind]
    return [*command, "--dest", ".", "--requirement", "wanted.txt"], {"PYTHONPATH": str((place / "nothing").absolute())}


def _npm(part: Part, name: str, version: str, place: Path) -> tuple[list[str], dict[str, str]]:
    if (npm := shutil.which("npm")) is None:
        raise UserError(f"{name}: npm is not installed", "install Node.js, which npm comes with")
    return [npm, "pack", "--ignore-scripts", f"{name}@{version}"], {}
