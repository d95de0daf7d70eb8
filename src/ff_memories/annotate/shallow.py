"""Find shallow patterns (section 3.1): what the last tokens of a key's prefixes literally have in common."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from ff_memories.annotate.permutation_test import Candidate, Correction, Draws, distinct, frequent, tail
from ff_memories.annotate.study import FEWEST, Prefix
from ff_memories.annotate.words import is_content, shape, stem

WINDOW = 5  # tokens at the end of a prefix in which n-grams may recur
LONGEST = 3
LENGTHS = (1, 2, 3, 4, 6, 9, 14, 21)  # first length of each class; short prefixes are openings, with fewer words
PRIOR = 100  # pseudo-count of prefixes of all lengths in each class

Feature = tuple[str, tuple[Any, ...]]  # kind, and token ids or a word


class Shallow:
    """Find n-grams, word forms and shapes that recur at the ends of prefixes more often than by chance."""

    def __init__(self, types: Sequence[str], reference: Sequence[Prefix], pool: Sequence[Prefix], rng_of: Draws):
        self.types = types
        classes = length_classes(reference)
        self._prefixes = np.bincount(classes, minlength=len(LENGTHS) + 1)
        self._unseen = [0] * (len(LENGTHS) + 1)
        self._counts: dict[Feature, list[int]] = defaultdict(self._unseen.copy)
        for prefix, length in zip(reference, classes.tolist(), strict=True):
            for feature in self.features(prefix):
                self._counts[feature][length] += 1
        self._pool = [self.features(prefix) for prefix in pool]
        self._pool_classes = length_classes(pool)
        self.corrected = Correction(self._smallest, len(pool), rng_of)

    def features(self, prefix: Prefix) -> list[Feature]:
        """Return all features that a prefix could share with others, once each, in a fixed order.

        ``end``: its last one to three tokens; ``form``: its last word in any form; ``shape``: its last word's shape;
        ``near``: n-grams with a content word among its last five tokens.
        """
        if not prefix:
            return [("empty", ())]
        out: list[Feature] = [("end", prefix[-n:]) for n in range(1, min(LONGEST, len(prefix)) + 1)]
        word = self.types[prefix[-1]]
        if is_content(word):
            out.append(("form", (stem(word),)))
        if looks := shape(word):
            out.append(("shape", (looks,)))
        window = prefix[-WINDOW:]
        for first in range(len(window)):
            content = False
            for end in range(first + 1, min(first + LONGEST, len(window)) + 1):
                content = content or is_content(self.types[window[end - 1]])
                if content:
                    out.append(("near", window[first:end]))
        return list(dict.fromkeys(out))

    def _frequent(self, features: Sequence[Iterable[Feature]], classes: np.ndarray) -> tuple[list[Feature], np.ndarray]:
        """Return the frequent features of prefixes, and their p-values, by the length class of each (prefixes,)."""
        counts = Counter(f for prefix_features in features for f in prefix_features)
        several = [f for f, n in counts.items() if n >= FEWEST]
        if not several:
            return [], np.empty(0)
        in_key = np.array([counts[f] for f in several])
        shares = np.bincount(classes, minlength=len(LENGTHS) + 1) / len(classes)
        in_reference = np.array([self._counts.get(f, self._unseen) for f in several])
        overall = (in_reference.sum(1, keepdims=True) + 1) / (self._prefixes.sum() + 1)
        chance = ((in_reference + PRIOR * overall) / (self._prefixes + PRIOR) * shares).sum(1)
        shows = frequent(in_key, len(features), chance)
        return [f for f, s in zip(several, shows, strict=True) if s], tail(in_key, len(features), chance)[shows]

    def _smallest(self, indices: np.ndarray) -> float:
        features = [self._pool[i] for i in indices.tolist()]
        return min(self._frequent(features, self._pool_classes[indices])[1], default=1.0)

    def find(self, prefixes: Sequence[Prefix], alpha: float) -> tuple[list[Candidate], set[int]]:
        """Return the patterns of one key, and the tokens of everything that recurs, redundant candidates included.

        ``alpha``: probability of any pattern in random prefixes.
        """
        features = [self.features(prefix) for prefix in prefixes]
        significant = [
            (feature, float(p))
            for feature, p in zip(*self._frequent(features, length_classes(prefixes)), strict=True)
            if self.corrected(float(p), len(prefixes)) <= alpha
        ]
        patterns, parts = [], set()
        for (kind, what), p in significant:
            members = frozenset(i for i, listed in enumerate(features) if (kind, what) in listed)
            if kind == "near" and len(what) == 1 and not concentrated(what[0], prefixes):
                continue  # it recurs anywhere in the prefixes, so it is a topic
            if kind in ("end", "near"):
                words, tokens = tuple(self.types[t] for t in what), set(what)
            else:
                last = {prefixes[i][-1] for i in members if prefixes[i]}
                words, tokens = tuple(sorted({self.types[t] for t in last})), last
            parts |= tokens
            if kind == "form" and len(words) < 2:
                continue  # equal to its only form
            patterns.append(Candidate(words, kind if kind != "shape" else what[0], members, p))
        return distinct(patterns), parts


def length_classes(prefixes: Sequence[Prefix]) -> np.ndarray:
    """Return each prefix's length class: 0 for the empty one, then by ``LENGTHS``."""
    return np.searchsorted(LENGTHS, [len(prefix) for prefix in prefixes], side="right")


def concentrated(token: int, prefixes: Sequence[Prefix]) -> bool:
    """Say whether a token is near the end of its prefixes more often than at random places."""
    holders = [prefix for prefix in prefixes if token in prefix]
    near = sum(token in prefix[-WINDOW:] for prefix in holders)
    elsewhere = [max(1 - WINDOW / len(prefix), 0.0) ** prefix.count(token) for prefix in holders]
    return float(tail(near, len(holders), 1 - sum(elsewhere) / len(holders))) <= 0.05


def describe(pattern: Candidate) -> str:
    """Return a pattern's description, with at most three words in a row."""
    words = " ".join(pattern.words)
    match pattern.kind:
        case "end":
            return f'ends with "{words}"'
        case "near":
            return f'"{words}" near the end'
        case "form":
            return f"ends with a form of: {', '.join(pattern.words[:3])}"
        case "empty":
            return "is empty"
        case looks:
            return f"ends with a {looks}"
