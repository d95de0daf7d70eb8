"""Judge the paper's claims from the run's tables, and gather all counts (tables `claims` and `counts`)."""

import json
from typing import Any

import polars as pl

from ff_memories import tables as schemas
from ff_memories.base.files import write_json, write_whole
from ff_memories.base.parameters import AnyInputs, Input, Output
from ff_memories.config import Settings
from ff_memories.judge.evidence import Evidence
from ff_memories.judge.register import register
from ff_memories.judge.verdicts import verdicts
from ff_memories.judge.wording import SAMPLED_TEXT, natural, self_sampled
from ff_memories.model.info import quantised, read_info


def run(
    config: Settings,
    info: Input,
    dictionary: Input,
    tables: AnyInputs,
    counts: AnyInputs,
    baselines: Input | None,
    claims: Output,
    out_counts: Output,
    metrics: Output,
    each: Output,
) -> None:
    """Measure and judge every claim.

    Args:
        tables: the run's tables; missing ones leave their claims unmeasured
        counts: every step's counts, as files or folders
        baselines: the table baselines; without it, no verdict takes untrained models into account
        out_counts: file to write: the table counts
        metrics: file to write: the verdicts as JSON
        each: folder to write: one JSON file per claim, for DVC's metrics
    """
    described = read_info(info)
    run_tables = {schemas.name_of(path): schemas.read(path) for path in tables}
    evidence = Evidence.of_run(config, described, dictionary, run_tables)
    beside = None if baselines is None else schemas.read(baselines)
    files = [file for path in counts for file in (sorted(path.glob("*.parquet")) if path.is_dir() else [path])]
    gathered = schemas.concat("counts", [schemas.read(file, "counts") for file in files])
    gathered = schemas.conform(gathered, schemas.TABLES["counts"])
    judged = verdicts(register(), evidence, described["scope"], beside, self_sampled(gathered))
    schemas.write(judged, claims)
    schemas.write(gathered, out_counts)
    summary = verdicts_of(judged, quantised(described))
    write_json(metrics, summary)
    for claim in register():
        _, letters, number = natural(claim.id)
        write_whole(each / f"{letters}{number:02}-{claim.name}.json", json.dumps(summary[claim.id]) + "\n")


def verdicts_of(claims: pl.DataFrame, weights: str | None = None) -> dict[str, dict[str, Any]]:
    """Return each claim's measured value, to six significant digits, its verdict and its group, in natural order.

    ``weights``: what quantised weights are; it stands beside every number, as does a text's being the model's own.
    """
    return {
        row["claim"]: {
            "measured": None if row["measured"] is None else float(f"{row['measured']:.6g}"),
            "verdict": row["verdict"],
            "group": row["group"],
            **({"weights": weights} if weights else {}),
            **({"text": SAMPLED_TEXT} if SAMPLED_TEXT in (row["reason"] or "") else {}),
        }
        for row in sorted(claims.iter_rows(named=True), key=lambda row: natural(row["claim"]))
    }
