"""The paper's claims as data, the checks that judge them by a run's tables, and their verdicts."""
