"""Texts that are made here: prose of docstrings, of Wikipedia, and what a model writes."""
