"""Get what a run starts from: registered sources, the demo's text, the demo's model."""
