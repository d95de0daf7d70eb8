"""A run's tables in the formats of the authors' released code, for scripts that were written for it.

Layers and ranks count from 0 here, as they do there, and places that no prefix fills hold value 0 and
the first sentence at position 0.
"""
