"""All files of a study, read by what they are."""

from collections.abc import Iterable
from pathlib import Path

from ff_memories.patterns.readers import csv_files, tools
from ff_memories.patterns.readers.records import Judgement, Problems, Record, check_names

PASSED = (".md", ".txt")  # notes that somebody keeps beside the files


def read(paths: Iterable[str | Path], run: str, problems: Problems) -> tuple[list[Record], list[Judgement]]:
    """Return what annotators wrote in files of one run; what is wrong with the files goes to ``problems``."""
    records: list[Record] = []
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
                case ".jsonl":
                    records += tools.read_doccano(path, run, problems)
                case suffix if suffix in PASSED:
                    continue
                case _:
                    what, hint = "no file of annotations", "export CSV, Label Studio's JSON or doccano's JSONL"
                    problems.add(str(path), what, hint)
        except OSError as error:
            problems.add(str(path), f"not readable ({error.strerror})", "give files that are there")
    check_names([*records, *judged], problems)
    return records, judged
