"""Check and record a run."""
