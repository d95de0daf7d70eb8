"""Random draws: one generator for each purpose, all from the config's seed, so that no draw moves another."""

import zlib

import numpy as np


def generator(seed: int, purpose: str) -> np.random.Generator:
    """Return the generator of one purpose, the same for the same seed on every machine."""
    return np.random.default_rng([seed, zlib.crc32(purpose.encode())])
