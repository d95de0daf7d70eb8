"""Write what long campaigns measured into the pages: the rehearsal, the GPU, the benchmark.

docs/data/{rehearsal,gpu}.json and benchmark.csv keep the data; ``tools.qa`` and ``tools.benchmarks`` write these.
"""

import json
import sys

from pages import ROOT, options, renew, replaced, table

from ff_memories.base.progress import duration

sys.path[:0] = [str(ROOT)]

from tools.benchmarks import page as benchmark  # noqa: E402

DATA = ROOT / "docs" / "data"
SCRIPT = "python docs/tools/campaigns.py"


def rehearsal() -> str:
    """Return the time of the whole run, the estimate for the paper's, and how well the plan had estimated each step."""
    recorded = json.loads((DATA / "rehearsal.json").read_text(encoding="utf-8"))["legacy"]
    steps = [(step["measured"], step) for step in recorded["steps"]]
    times, memory = (
        [measured[name] / estimated[name] for measured, estimated in steps if measured[name]]
        for name in ("seconds", "memory")
    )
    machine = recorded["machine"]
    whole = ", ".join(f"{duration(recorded['whole'][n])} on {n}" for n in sorted(recorded["whole"], key=int))
    return (
        f"{machine['processor']}, {machine['cores']} cores, {machine['memory']}: the golden checks stopped the run "
        f"after {duration(recorded['refused_seconds'])}; without them, the report took "
        f"{duration(recorded['seconds'])}. {len(steps)} steps took {min(times):.2g} to {max(times):.2g} times the "
        f"estimated time, and {min(memory):.2g} to {max(memory):.2g} times the estimated memory.\n\n"
        f"Estimate for the paper's whole run ({recorded['whole_tokens']:,} tokens) without a GPU, on machines like "
        f"this one: {whole}."
    )


def gpu() -> str:
    """Return what the trigger pass reached on the card."""
    record = json.loads((DATA / "gpu.json").read_text(encoding="utf-8"))
    machine, parts = record["machine"], record["parts"]
    rows = []
    for name, part in parts.items():
        if name.startswith("pass-"):
            reached = {row["measure"]: row["reached"] for row in part["rows"]}
            rows.append(
                [name.removeprefix("pass-"), f"{reached['pass alone']:.3g} s",
                 f"{reached['pass alone: speed']:,.0f}", f"{reached['pass alone: products']:.3g}",
                 f"{reached['fastest product here']:.3g}"]
            )  # fmt: skip
    return f"{machine['device']}, torch {machine['torch']}, the trigger pass at the paper's dimensions:\n\n" + table(
        ["tokens, precision", "time", "tokens/s", "TFLOP/s", "fastest product, TFLOP/s"], rows
    )


def measured_speed() -> str:
    """Return the benchmark's summary and measures."""
    return benchmark.markdown(benchmark.read())


PLACES = {"cluster.md": (("rehearsal", rehearsal), ("gpu", gpu)), "performance.md": (("benchmark", measured_speed),)}


def page(name: str) -> str:
    """Return a page of docs/ with its parts from the campaigns' data."""
    text = (ROOT / "docs" / name).read_text(encoding="utf-8")
    for part, write in PLACES[name]:
        text = replaced(text, f"<!-- {part}: {SCRIPT} -->", write())
    return text


def main(argv: list[str] | None = None) -> None:
    args = options(__doc__, ROOT / "docs").parse_args(argv)
    for name in PLACES:
        renew(args.out / name, page(name), args.check)


if __name__ == "__main__":
    main()
