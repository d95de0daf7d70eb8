"""Say which of the package's branches the tests take: docs/data/faults/coverage.json, from what coverage gathered.

    nice coverage run -m pytest
    python -m campaigns.branches

A gap's ``why``, written by hand, stays with its file. ``--without`` says which tests were not run.
"""

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parents[1]
OUT = ROOT / "docs" / "data" / "faults" / "coverage.json"
COUNTS = ("num_statements", "covered_lines", "num_branches", "covered_branches")
GAP = 5  # statements and branches of a file that no test takes, for it to be named


def reported() -> dict:
    """Return coverage's own report as data."""
    coverage = [sys.executable, "-m", "coverage"]
    if any(ROOT.glob(".coverage.*")):
        subprocess.run([*coverage, "combine", "--quiet"], cwd=ROOT, check=True)
    with tempfile.NamedTemporaryFile(suffix=".json") as file:
        subprocess.run([*coverage, "json", "--quiet", "-o", file.name], cwd=ROOT, check=True)
        return json.loads(Path(file.name).read_text())


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--without", default="", help="in words")
    without, packages, gaps = parser.parse_args().without, {}, []
    told = {gap["file"]: gap["why"] for gap in (json.loads(OUT.read_text())["gaps"] if OUT.exists() else [])}
    for path, found in reported()["files"].items():
        file, summary = Path(path).relative_to("src/ff_memories"), found["summary"]
        row = packages.setdefault(file.parts[0] if len(file.parts) > 1 else "(itself)", dict.fromkeys(COUNTS, 0))
        for name in COUNTS:
            row[name] += summary[name]
        if (missing := summary["missing_lines"] + summary["missing_branches"]) >= GAP:
            gaps.append({"file": file.as_posix(), "missing": missing, "lines": found["missing_lines"],
                         "why": told.get(file.as_posix(), "")})  # fmt: skip
    gaps.sort(key=lambda gap: -gap["missing"])
    OUT.write_text(
        json.dumps({"without": without, "packages": packages, "gaps": gaps}, indent=1) + "\n", encoding="utf-8"
    )


if __name__ == "__main__":
    main()
