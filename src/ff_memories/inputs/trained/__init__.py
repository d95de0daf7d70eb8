"""Train the demo runs' models."""
