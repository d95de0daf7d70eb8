"""Keep what Snakemake says of a job to a few lines."""

import logging

LONGEST = 300  # characters of a reason: that of `all` would name every file of a run


def brief(record: logging.LogRecord) -> bool:
    """Cut a long reason of a job, as a filter of Snakemake's logger."""
    reason = getattr(record, "reason", None)
    if isinstance(reason, str) and len(reason) > LONGEST:
        files = reason.count(", ") + 1
        record.reason = f"{reason[:LONGEST].rpartition(', ')[0]}, ... ({files} in all)"
    return True
