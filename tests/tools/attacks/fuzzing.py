"""What is fuzzed: every reader of a file that somebody else made, and what it may say of one.

A reader takes bytes and returns, or raises ``UserError``; anything else is a fault. What was once one is in
tests/data/fuzz/READER/.
"""

import json
import sys
import tempfile
import warnings
from pathlib import Path

from ff_memories.base.errors import UserError

FOUND = Path(__file__).parents[2] / "data" / "fuzz"


def dictionary(path: Path) -> None:
    from ff_memories.corpus.dictionary import Dictionary

    Dictionary.read(path)


def description(path: Path) -> None:
    from safetensors.torch import save_file

    from ff_memories.model.files import converted

    weights = path.with_suffix(".safetensors")
    if not weights.exists():
        save_file({}, weights)
    converted.load(weights, path)


def checkpoint(path: Path) -> None:
    from ff_memories.model.files import checkpoint

    checkpoint.read(path)


def config(path: Path) -> None:
    from ff_memories import config

    config.load(path)


def annotations(path: Path) -> None:
    from ff_memories.annotate.annotation_files import Problems, read_all

    read_all([path], "small", Problems())


def exports(path: Path) -> None:
    """What Label Studio exports."""
    from contrib.label_studio import labelling
    from ff_memories.annotate.annotation_files import Problems

    labelling.read(path, "small", Problems())


def registry(path: Path) -> None:
    from ff_memories.inputs import registry

    registry.read(path)


def gguf(path: Path) -> None:
    from ff_memories.model.files import gguf_file

    gguf_file.read(path)


READERS = {f.__name__: f for f in (dictionary, description, checkpoint, config, annotations, exports, registry, gguf)}
SEEDS = {
    "dictionary": [b"the 9\nof 8\n", b"a 1 #fairseq:overwrite\n"],
    "description": [b'{"layers": 1, "model": 2, "keys": 3, "heads": 1, "vocab": 4, "input_cutoffs": [4], '
                    b'"adaptive_input": true, "output_cutoffs": [4], "adaptive_output": true, "learned_positions": '
                    b'false, "final_norm": false, "max_positions": 9, "embedding_scale": 1.5, "parameters": 5, '
                    b'"aliases": {"a": "b"}}'],
    "annotations": [b"run,annotator,item,pattern,type,description,prefixes\nsmall,ann,x1,1,shallow,ends,1 2 3\n",
                    b"run,annotator,item,label\nsmall,a,x,distant\n",
                    b"run,annotator,item,row,prefix,last token,pattern 1\nsmall,a,x,description,,,none\n"
                    b"small,a,x,type,,,\nsmall,a,x,1,a,b,x\n"],
    "exports": [b'[{"data": {"run": "small", "item": "x", "text": "a b\\nc"}, "annotations": [{"completed_by": '
                b'{"email": "a"}, "result": [{"from_name": "pattern", "type": "labels", "value": {"start": 0, '
                b'"end": 1, "labels": ["pattern 1"]}}]}]}]',
                b'{"text": "a b", "run": "small", "item": "x", "label": [[0, 1, "shallow 1"]], "Comments": ["c"]}\n'],
}  # fmt: skip


def seeds(reader: str) -> list[bytes]:
    """Return inputs to begin with: whole files that the reader takes, and what was found before."""
    from pipeline import SMALL

    given = list(SEEDS.get(reader, []))
    if reader == "config":
        given.append(json.dumps(SMALL).encode())
    elif reader == "registry":
        given.append((Path(sys.modules["ff_memories"].__path__[0]) / "inputs" / "registry.toml").read_bytes())
    elif reader == "checkpoint":
        given += _checkpoints()
    elif reader == "gguf":
        given.append(_gguf())
    return given + found(reader)


def _checkpoints() -> list[bytes]:
    from factories import words, write_checkpoint

    out = []
    with tempfile.TemporaryDirectory() as folder:
        for style in ("legacy", "fused", "current"):
            write_checkpoint(f"{folder}/m.pt", words(8), style=style, decoder_layers=1, decoder_embed_dim=4,
                             decoder_ffn_embed_dim=2, decoder_attention_heads=1, adaptive=False)  # fmt: skip
            out.append(Path(folder, "m.pt").read_bytes())
    return out


def _gguf() -> bytes:
    import gguf_files

    with tempfile.TemporaryDirectory() as folder:
        small = {"num_hidden_layers": 1, "hidden_size": 16, "intermediate_size": 8, "head_dim": 4}
        gguf_files.save(f"{folder}/m.gguf", "qwen3", change=small)
        return Path(folder, "m.gguf").read_bytes()


def found(reader: str) -> list[bytes]:
    """Return the inputs that were once faults."""
    return [path.read_bytes() for path in sorted((FOUND / reader).glob("*"))]


def one(reader: str, content: bytes, folder: Path) -> None:
    """Have a reader read these bytes."""
    path = folder / f"input.{reader}"
    path.write_bytes(content)
    with warnings.catch_warnings(action="ignore"):
        try:
            READERS[reader](path)
        except UserError as error:
            assert len(str(error)) < 100_000
