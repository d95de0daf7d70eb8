"""Check a run: recompute sampled rows in float64, compare two runs, and verify a run as a reviewer would."""
