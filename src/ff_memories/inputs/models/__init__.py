"""Folders with a model of `transformers`, and what is converted to one."""
