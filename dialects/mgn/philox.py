"""Philox 4×32-10 (Salmon, Moraes, Dror, Shaw: Parallel random numbers: as easy as 1, 2, 3; 2011).

In: counters and keys of 32-bit words. Out: random words, the same for the same counter and key
everywhere: of any two counters, the words are independent.
"""

import numpy as np

Array = np.ndarray

ROUNDS = 10
MULTIPLIERS = (0xD2511F53, 0xCD9E8D57)
"""By which two of the counter's words are multiplied in each round."""

STEPS = (0x9E3779B9, 0xBB67AE85)
"""What is added to the key's words from round to round."""

_LOW = np.uint64(0xFFFFFFFF)
_HALF = np.uint64(32)


def philox(c0: Array, c1: Array, c2: Array, c3: Array, k0: Array, k1: Array, word: int) -> Array:
    """One of the four words that a counter of four words and a key of two stand for."""
    counter = [np.asarray(item, np.uint64) for item in (c0, c1, c2, c3)]
    key = [np.asarray(item, np.uint64) for item in (k0, k1)]
    for _ in range(ROUNDS):
        first, second = (
            counter[place] * np.uint64(factor)
            for place, factor in zip((0, 2), MULTIPLIERS, strict=True)
        )
        counter = [
            (second >> _HALF) ^ counter[1] ^ key[0],
            second & _LOW,
            (first >> _HALF) ^ counter[3] ^ key[1],
            first & _LOW,
        ]
        key = [item + np.uint64(step) & _LOW for item, step in zip(key, STEPS, strict=True)]
    shape = np.broadcast_shapes(*(np.shape(item) for item in (c0, c1, c2, c3, k0, k1)))
    return np.broadcast_to(counter[word], shape).astype(np.uint32)


def key_of(seed: int) -> Array:
    """What the state of random numbers holds before the first run with a seed: the two words of its
    key, and the number of the run.
    """
    return np.array([seed & 0xFFFFFFFF, seed >> 32 & 0xFFFFFFFF, 0], np.uint32)
