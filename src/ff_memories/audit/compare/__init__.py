"""Compare two runs: which files they have, what is equal, what only a recomputation settles."""
