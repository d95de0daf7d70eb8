"""Check claims with one small function per kind of claim, grouped by the paper's sections.

Each takes the ``Evidence`` and the claim's parameters from ``claims.toml`` (layers refer to the paper's 16), and
returns a ``Measurement``.
"""
