"""Share a run."""
