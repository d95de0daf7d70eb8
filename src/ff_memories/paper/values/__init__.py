"""Section 4: values predict tokens, and whether these follow their keys' triggers.

Compute: ``values`` reads each value as a distribution over the vocabulary. Then ``tables``, ``measures``,
``claims`` (with ``claims.toml``: K10 to K17), and ``figures`` (4 to 6).
"""
