"""Random draws: one generator per purpose, each seeded from the config, so no draw affects another."""

import zlib

import numpy as np


def generator(seed: int, purpose: str) -> np.random.Generator:
    """Return the generator for one purpose; the same seed gives the same draws on every machine."""
    return np.random.default_rng([seed, zlib.crc32(purpose.encode())])
