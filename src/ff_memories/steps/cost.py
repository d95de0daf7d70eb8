"""Write a page with a run's cost: time and memory of every rule, and the hardware. No comparison includes it."""

from ff_memories.base.files import write_whole
from ff_memories.base.machine import hardware
from ff_memories.base.parameters import Input, Output
from ff_memories.base.progress import duration
from ff_memories.report.cost import costs
from ff_memories.report.html import render


def run(logs: Input, out: Output) -> None:
    """Write the page.

    Args:
        logs: folder with Snakemake's benchmark files (.tsv)
        out: file to write: cost.html
    """
    write_whole(
        out,
        render(
            "cost.html.j2",
            costs=costs([str(path) for path in sorted(logs.rglob("*.tsv"))]),
            hardware=hardware(),
            duration=duration,
        ),
    )
