"""Section 4: values predict tokens, and whether these follow their keys' triggers.

Compute: ``predictions`` reads each value as a distribution over the vocabulary; ``projection_seeds`` does it as the
released script does, by random projections. Then ``tables``, ``measures``, ``claims`` (with ``claims.toml``: K10 to
K17), and ``figures`` (4 to 6).
"""
