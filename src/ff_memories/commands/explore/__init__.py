"""Set up and explore a run."""
