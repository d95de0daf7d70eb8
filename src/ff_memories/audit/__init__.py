"""Check a run: recompute its rows in float64, compare it with another run, and verify it as a reviewer would."""
