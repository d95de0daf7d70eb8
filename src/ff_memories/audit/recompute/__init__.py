"""Recompute rows of tables from the model and the text, and judge what differs."""
