"""Check a named checkpoint against its known numbers (G1-G5), before the run computes anything with it."""

from ff_memories.audit import golden
from ff_memories.base.errors import UserError
from ff_memories.base.files import write_json
from ff_memories.base.parameters import Execution, Input, Output, Param, Params
from ff_memories.corpus.dictionary import Dictionary
from ff_memories.inputs import registry as registries
from ff_memories.model.loading import load_decoder


def run(
    source: Param,
    registry: Params,
    weights: Input,
    description: Input,
    dictionary: Input,
    test: Input,
    out: Output,
    execution: Execution,
    windows: int | None = None,
) -> None:
    """Measure the checkpoint and compare.

    Args:
        source: the checkpoint's name in the registry
        registry: another registry of sources
        test: the test text
        out: file to write: the findings as JSON; written only if all checks pass
        windows: number of windows of text; default: all on a GPU, a few on a CPU
    """
    others = registry[0] if registry else None
    row = registries.source(source, others, "model")
    known, decoder = golden.expected(row, others), load_decoder(weights, description, execution)
    if windows is None and decoder.device.type == "cpu":
        windows = golden.WINDOWS_WITHOUT_GPU
    measured, faults = golden.check(decoder, Dictionary.read(dictionary), test, known, windows)
    if faults:
        lines = "\n  ".join(faults)
        hint = f"remove {row.folder} and fetch it again, or set sources.golden: off; the run then counts as a surrogate"
        raise UserError(f"this is not the known {source}\n  {lines}", hint)
    write_json(out, measured, sort_keys=True)
