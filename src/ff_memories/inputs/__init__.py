"""Get a run's inputs: registered sources, the demo's text, the demo's model."""
