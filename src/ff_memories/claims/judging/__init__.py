"""Judge claims: against their limits, and against untrained models."""
