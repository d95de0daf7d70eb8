"""Rehearse an annotation study with simulated annotators."""
