"""One small function per kind of claim, by section of the paper: tables in, a ``Measurement`` out.

Each takes the ``Evidence`` and the claim's parameters of ``claims.toml``; layers among them are the paper's, of 16.
"""
