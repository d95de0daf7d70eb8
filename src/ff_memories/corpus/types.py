"""The token types of a run's model: fairseq's dictionary, or a tokenizer of its own."""

import json
from pathlib import Path

import numpy as np

from ff_memories.base.errors import UserError, rebuild_hint
from ff_memories.base.files import require_file, write_whole
from ff_memories.corpus.dictionary import BOS, PAD, Dictionary
from ff_memories.corpus.tokenizer import Tokenizer

Types = Dictionary | Tokenizer


def read_types(path: str | Path) -> Types:
    """Read a ``dict.txt``, or a ``types.json`` that the model step wrote. Raises ``UserError`` where it is neither."""
    path = Path(path)
    if path.suffix != ".json":
        return Dictionary.read(path)
    require_file(path)
    try:
        saved = json.loads(path.read_text(encoding="utf-8"))
        return Tokenizer.of(json.dumps(saved["tokenizer"]), str(path), saved["vocab"])
    except (OSError, ValueError, TypeError, KeyError) as error:
        raise UserError(f"{path}: not the types of a model ({error})", rebuild_hint(path)) from None


def write_types(tokenizer: Tokenizer, path: Path) -> None:
    """Write a tokenizer as tokenizer.json has it, with the number of types that its model has."""
    content = {"vocab": len(tokenizer), "tokenizer": json.loads(tokenizer.fast.to_str())}
    write_whole(path, json.dumps(content, ensure_ascii=False) + "\n")


def never_trained(path: Path | None) -> list[int]:
    """Return ``never_trained`` of a file's types; without a file, what every dictionary has: ``<s>`` and ``<pad>``."""
    return [BOS, PAD] if path is None else read_types(path).never_trained()


def folded(types: Types) -> np.ndarray | None:
    """Return ``Tokenizer.folded``; ``None`` for a dictionary, whose runs compare ids alone."""
    return types.folded() if isinstance(types, Tokenizer) else None
