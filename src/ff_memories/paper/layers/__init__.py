"""Section 5: memories compose a layer's prediction, and layers refine the model's.

Compute: ``composition`` observes all layers at validation prefixes, and says what each does to the prediction
(``kinds``); ``tracing`` follows one text through them. Then ``tables``, ``measures``, ``claims`` (with ``claims.toml``:
K18 to K31), and ``figures`` (7 to 11).
"""
