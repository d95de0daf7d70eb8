"""Simulate annotators who err at known rates, to try out a study before people annotate."""
