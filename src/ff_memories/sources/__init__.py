"""Texts, checkpoints and pipelines that a config names instead of a path: where they are fetched, and how checked."""
