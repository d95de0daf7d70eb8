"""What a run cost: time and memory of every rule, with the hardware, as a page outside of all comparisons."""

from ff_memories.claims.writing import write_whole
from ff_memories.report.cost import costs, duration, hardware
from ff_memories.report.rendering import render


def arguments(parser):
    parser.add_argument("--benchmarks", nargs="*", default=[], metavar="TSV", help="Snakemake's benchmark files")
    parser.add_argument("--out", required=True, metavar="cost.html", help="page to write")


def run(args):
    write_whole(
        args.out,
        render("cost.html.j2", costs=costs(args.benchmarks), hardware=hardware(), duration=duration),
    )
