"""What pyproject.toml cannot say: a wheel carries the Snakefile, its rules and configs, inside the package."""

import os
import shutil
from pathlib import Path

from setuptools import setup
from setuptools.command.build_py import build_py

CARRIED = ("Snakefile", "workflow/rules", "workflow/report", "workflow/envs", "profiles/default", "config")
# the demo's model, if `make wheel` fetched it
DEMO = ("data/demo/model.pt", "data/demo/dict.txt")


class WithWorkflow(build_py):
    """Copy what ``ff-memories run`` needs to ``ff_memories/project``; an editable install reads it in the clone."""

    def run(self) -> None:
        super().run()
        if self.editable_mode:
            return
        for part in (*CARRIED, *filter(os.path.exists, DEMO)):
            to = Path(self.build_lib, "ff_memories/project", part)
            to.parent.mkdir(parents=True, exist_ok=True)
            if Path(part).is_dir():
                shutil.copytree(part, to, dirs_exist_ok=True)
            else:
                shutil.copy(part, to)


setup(cmdclass={"build_py": WithWorkflow})
