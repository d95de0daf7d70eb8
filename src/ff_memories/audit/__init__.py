"""Check a run: recompute sampled rows, compare two runs, and verify a run as a reviewer would."""
