"""Read all files of a study, each by its format."""

from collections.abc import Iterable
from pathlib import Path

from ff_memories.patterns.readers import csv_files, tools
from ff_memories.patterns.readers.records import Judgement, Pattern, Problems, check_names

PASSED = (".md", ".txt")  # notes beside the files


def read(paths: Iterable[str | Path], run: str, problems: Problems) -> tuple[list[Pattern], list[Judgement]]:
    """Return the records and judgements in one run's files; add the files' problems to ``problems``."""
    records: list[Pattern] = []
    judged: list[Judgement] = []
    for path in sorted(map(Path, paths)):
        try:
            match path.suffix.lower():
                case ".csv":
                    patterns, distances = csv_files.read(path, run, problems)
                    records += patterns
                    judged += distances
                case ".json":
                    records += tools.read_label_studio(path, run, problems)
                case suffix if suffix in PASSED:
                    continue
                case _:
                    problems.add(str(path), "not an annotation file", "export CSV, or Label Studio's JSON")
        except OSError as error:
            problems.add(str(path), f"not readable ({error.strerror})", "name existing files")
    check_names([*records, *judged], problems)
    return records, judged
