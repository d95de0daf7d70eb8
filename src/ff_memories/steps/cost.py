"""What a run cost: time and memory of every rule, with the hardware, as a page outside of all comparisons."""

from ff_memories import tables
from ff_memories.base.files import write_whole
from ff_memories.base.machine import hardware
from ff_memories.base.parameters import Input, Output
from ff_memories.base.progress import duration
from ff_memories.report.cost import costs
from ff_memories.report.rendering import render


def run(logs: Input, out: Output) -> None:
    """Write the page.

    Args:
        logs: folder with Snakemake's benchmark files (.tsv)
        out: cost.html
    """
    measured = logs.parent / "tables" / "benchmark.parquet"
    write_whole(
        out,
        render(
            "cost.html.j2",
            costs=costs([str(path) for path in sorted(logs.rglob("*.tsv"))]),
            hardware=hardware(),
            duration=duration,
            benchmark=tables.read(measured).to_dicts() if measured.exists() else [],
        ),
    )
