"""Commands in this process: their exit status, and what they say where they must fail; inputs to fail on."""

import json

import pytest
import yaml
from factories import words
from pipeline import SMALL, config, line

from ff_memories.cli import main

TYPES = words(44)

CARD = dict(scope="surrogate", layers=3, keys=24, vocab=48, adaptive_output=True, final_norm=False, max_positions=64)


def ended(*arguments):
    """Run a command; return its exit status."""
    with pytest.raises(SystemExit) as end:
        main(line(arguments))
    return end.value.code


def says(capsys, *arguments):
    """Run a command that must fail; return what it says."""
    assert ended(*arguments) == 2
    said = capsys.readouterr().err
    assert said.startswith("error: ")
    assert "Traceback" not in said
    return said


def model_step(folder):
    (folder / "config.yaml").write_text(yaml.safe_dump(SMALL))
    return ["model", "--config", folder / "config.yaml", "--checkpoint", folder / "model.pt", "--dictionary",
            folder / "dict.txt", "--weights", folder / "out" / "m.safetensors", "--description",
            folder / "out" / "m.json", "--info", folder / "out" / "info.json"]  # fmt: skip


def run_corpus(folder, **changes):
    settings = config(**changes)
    (folder / "config.yaml").write_text(yaml.safe_dump(settings))
    (folder / "info.json").write_text(json.dumps(CARD))
    return ["corpus", "--config", folder / "config.yaml", "--train", folder / "train.txt", "--validation",
            folder / "validation.txt", "--dictionary", folder / "dict.txt", "--info", folder / "info.json",
            "--sentences", folder / "out" / "sentences.parquet", "--corpus", folder / "out" / "corpus.safetensors",
            "--counts", folder / "out" / "counts.parquet"]  # fmt: skip
