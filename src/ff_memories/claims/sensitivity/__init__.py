"""Measure how each choice that the paper leaves open affects its claims."""
