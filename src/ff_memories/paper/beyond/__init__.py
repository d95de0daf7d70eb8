"""Beyond the paper: what changing or removing memories does to predictions.

Compute: ``survey`` finds where memories fire, ``causal`` changes one coefficient there, and ``removals`` sets several
to zero. Then ``tables``, ``measures``, ``claims`` (with ``claims.toml``: B1 to B4), and ``figures`` (B1 to B3, and that
of the table `sensitivity`).
"""
