"""Rehearse an annotation study with simulated annotators, or put its items to a language model."""
