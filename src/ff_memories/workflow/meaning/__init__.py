"""What the code of a step means: a digest that comments, docstrings and other steps' code do not change."""
