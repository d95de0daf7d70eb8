"""Helpers for every other part: errors, atomic writes, escaping, progress, seeds, GPU locks."""
