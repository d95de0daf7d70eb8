"""Helpers for every other part: errors, files, arithmetic and machine, a step's parameters, draws, text, progress."""
