"""The types of a step's parameters: each defines an option on the command line and the value that a rule passes."""

import os
from dataclasses import dataclass
from pathlib import Path

from ff_memories.base.errors import UserError

Input = Path  # a file that the rule reads
Inputs = list[Path]  # files that the rule reads, at least one
AnyInputs = list[Path]  # files that the rule reads; there may be none
Output = Path  # a file or a folder that the rule writes
Outputs = list[Path]
EveryOutput = list[Path]  # all files that the rule writes
Wildcard = str  # a wildcard of the rule's paths
Shard = str  # "1-of-4": Snakemake's item of a scatter
Param = str
Params = list[str]  # there may be none
Threads = int


class Tables(dict[str, Path]):
    """Tables that the rule reads, {name: file}; files are named after their tables. There may be none."""

    @classmethod
    def of(cls, files: list[Path]) -> "Tables":
        """Return files by the tables that they are named after."""
        return cls((file.stem, file) for file in files)

    def __missing__(self, name: str) -> Path:
        raise UserError(f"the table {name} is missing", f"add {name}.parquet to --tables")


@dataclass(frozen=True)
class Execution:
    """How to run the model. Results do not depend on it, beyond near-ties.

    device: auto, cpu or cuda. threads: CPU threads. batch_tokens: tokens in one forward pass. arithmetic: portable (the
    same bits on every CPU with AVX2, on one thread) or fast; it is chosen before torch is loaded.
    """

    device: str = "auto"
    threads: int = os.cpu_count() or 1
    batch_tokens: int = 16_384
    arithmetic: str = "fast"
