"""Section 3: keys are pattern detectors. Triggers, what removing a token does to them, the patterns that people see.

Compute: ``triggers`` runs the model over the training text, ``topk`` keeps each key's best prefixes, ``trigger_table``
writes them down, and ``mutations`` runs them again without a token; ``memory_selection`` says which keys are looked at.
Then ``tables``, ``measures``, ``claims`` (with ``claims.toml``: K1 to K9), and ``figures`` (2 and 3).
"""
