"""Hold the paper's claims as data, check them against a run's tables, and give verdicts."""
