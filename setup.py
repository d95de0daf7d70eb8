"""What pyproject.toml cannot say: a wheel carries the Snakefile, its rules and configs, inside the package."""

import re
import shutil
from pathlib import Path

from setuptools import setup
from setuptools.command.build_py import build_py

CARRIED = ("Snakefile", "workflow/rules", "workflow/report", "workflow/envs", "profiles/default", "config")
DEMO = ("data/demo/model.pt", "data/demo/dict.txt")


def recorded(name: str) -> Path:
    """Return where the repository's DVC remote has a file; without the remote, as in an sdist, the file itself."""
    record = Path(f"{name}.dvc")
    md5 = re.search(r"md5: (\w\w)(\w+)", record.read_text()) if record.exists() else None
    kept = Path("artefacts/files/md5", *(md5.groups() if md5 else ()))
    return kept if kept.is_file() else Path(name)


class WithWorkflow(build_py):
    """Copy what ``ff-memories run`` needs to ``ff_memories/project``; an editable install reads it in the clone."""

    def run(self) -> None:
        super().run()
        if self.editable_mode:
            return
        demo = {name: recorded(name) for name in DEMO}
        sources = {part: Path(part) for part in CARRIED} | {part: path for part, path in demo.items() if path.is_file()}
        for part, source in sources.items():
            to = Path(self.build_lib, "ff_memories/project", part)
            to.parent.mkdir(parents=True, exist_ok=True)
            if source.is_dir():
                shutil.copytree(source, to, dirs_exist_ok=True)
            else:
                shutil.copyfile(source, to)


setup(cmdclass={"build_py": WithWorkflow})
