"""Recompute the tables `histogram` and `samples` from the model: all coefficients in the seed's sample of sentences.

Every key's histogram is counted again. A row of `samples` must show a prefix whose coefficient is the percentile that
the row names.
"""

from collections.abc import Callable, Iterable

import numpy as np
import polars as pl
import torch

from ff_memories.audit.recompute.basis import Basis, TableRow
from ff_memories.audit.recompute.closeness import DIFFERS, MATCH, NEAR_TIE, Result
from ff_memories.audit.recompute.structure import in_gallery
from ff_memories.memories.shown import coefficient_sample
from ff_memories.memories.shown.coefficient_sample import PERCENTILES
from ff_memories.tables import HISTOGRAM_BINS as BINS

AT_ONCE = 2000  # prefixes counted at once


class Spread:
    """The coefficients of all keys in the sample.

    Args:
        basis: a run's.
        keys: (layer, key) whose coefficients are kept, to find percentiles.
        step: called after every sentence.
    """

    def __init__(
        self, basis: Basis, keys: Iterable[tuple[int, int]] = (), step: Callable[[int], None] = lambda _: None
    ):
        self.basis, config = basis, basis.config
        layers, memories = basis.oracle.keys
        self.top = torch.full((layers, memories), torch.inf, dtype=torch.float64)  # of keys without triggers: no bin
        first = basis.tables["triggers"].filter(pl.col("rank") == 1)
        at = [torch.from_numpy(first[name].to_numpy().astype(np.int64)) for name in ("layer", "key")]
        self.top[at[0] - 1, at[1]] = torch.from_numpy(first["coefficient"].to_numpy().astype(np.float64))
        self.own, self.less, self.more = (torch.zeros(layers, memories, BINS, dtype=torch.int64) for _ in range(3))
        self.fires, self.may_fire = (torch.zeros(layers, memories, dtype=torch.int64) for _ in range(2))
        self.prefixes = 0
        self.kept: dict[tuple[int, int], list[np.ndarray]] = {key: [] for key in sorted(set(keys))}
        self.noise: dict[int, float] = {}
        self._held: list[list[tuple[torch.Tensor, float]]] = [[] for _ in range(layers)]
        rows = 0
        with torch.inference_mode():
            for sentence in coefficient_sample.drawn(
                basis.corpus, config.gallery.sampled, config.triggers.positions, config.seed
            ).tolist():
                allowed = basis.lengths(sentence)
                rows += len(allowed)
                self.prefixes += len(allowed)
                for layer, seen in enumerate(basis.oracle.layers(basis.corpus.sentence(sentence))):
                    m, noise = seen.coefficients(), seen.noise(basis.near.limits.noise)
                    self._held[layer].append((m[allowed.start : allowed.stop], noise))
                if rows >= AT_ONCE:
                    rows = self._count()
                step(1)
            self._count()

    def _count(self) -> int:
        """Count the coefficients that are held, and let go of them."""
        for layer, held in enumerate(self._held):
            if held:
                noise = torch.cat([torch.full((len(m),), error, dtype=torch.float64) for m, error in held])
                self._add(layer, torch.cat([m for m, _ in held]), noise)
                held.clear()
        return 0

    def _add(self, layer: int, m: torch.Tensor, noise: torch.Tensor) -> None:
        """Count a layer's coefficients (rows, memories), given the largest error of each row."""
        self.noise[layer + 1] = max(float(noise.max()), self.noise.get(layer + 1, 0.0))
        row, key = (torch.isfinite(self.top[layer]) & (m > -noise[:, None])).nonzero(as_tuple=True)
        self.may_fire[layer] += torch.bincount(key, minlength=m.shape[1])
        self.fires[layer] += torch.bincount(key[m[row, key] > noise[row]], minlength=m.shape[1])
        own, scale = m[row, key], BINS / self.top[layer, key]
        place = own * scale
        here = place.long().clamp(0, BINS - 1)
        size = self.own[layer].numel()
        counts = lambda at, bins: torch.bincount(key[at] * BINS + bins, minlength=size).view(-1, BINS)
        fires = own > 0
        self.own[layer] += counts(fires, here[fires])
        error = (noise[row] + self.basis.near.limits.coefficient * own.abs()) * scale
        close = ((place - place.round()).abs() <= error).nonzero()[:, 0]  # to the edge of a bin: few
        sure = counts(close[fires[close]], here[close[fires[close]]])
        self.less[layer] += sure
        least, most = ((place[close] + sign * error[close]).clamp(min=0).long().clamp(max=BINS - 1) for sign in (-1, 1))
        for further in range(BINS):  # every bin that a coefficient may be counted in
            if not (part := least + further <= most).any():
                break
            self.more[layer] += counts(close[part], (least + further)[part])
        self.more[layer] -= sure
        for (of, kept), values in self.kept.items():
            if of == layer + 1:
                values.append(m[:, kept].numpy().copy())

    def histogram(self, found: pl.DataFrame) -> list[tuple[TableRow, Result]]:
        """Compare the whole table; return its rows that differ or are near-ties, those that it lacks included."""
        counts = np.zeros(tuple(self.own.shape), np.int64)
        layer, key, bin_ = (found[name].to_numpy().astype(np.int64) for name in ("layer", "key", "bin"))
        inside = bin_ < BINS
        counts[layer[inside] - 1, key[inside], bin_[inside]] = found["n"].to_numpy()[inside]
        shown = np.zeros(counts.shape[:2], bool)
        keys = in_gallery(self.basis)
        shown[keys["layer"].to_numpy().astype(np.int64) - 1, keys["key"].to_numpy().astype(np.int64)] = True
        own, low, high = (part.numpy() for part in (self.own, self.own - self.less, self.own + self.more))
        out = [
            ({"layer": int(at), "key": int(k), "bin": int(b), "n": 0}, Result(DIFFERS, "there is no such bin"))
            for at, k, b in zip(layer[~inside], key[~inside], bin_[~inside], strict=True)
        ]
        for at in np.argwhere((counts != own) & shown[..., None]):
            n, right = int(counts[tuple(at)]), int(own[tuple(at)])
            close = low[tuple(at)] <= n <= high[tuple(at)]
            row = {"layer": int(at[0]) + 1, "key": int(at[1]), "bin": int(at[2]), "n": n}
            out.append((row, Result(NEAR_TIE if close else DIFFERS, f"n is {n}, recomputed {right}")))
        return out

    def firing(self, found: pl.DataFrame) -> list[tuple[TableRow, Result]]:
        """Return the keys of ``firing`` that the sample contradicts: they fire more often there, or less often."""
        layer, key = found["layer"].to_numpy().astype(np.int64) - 1, found["key"].to_numpy().astype(np.int64)
        least, most = self.fires.numpy()[layer, key], self.may_fire.numpy()[layer, key]
        fired = found["fired"].cast(pl.Int64).to_numpy()
        most = most + found["prefixes"].cast(pl.Int64).to_numpy() - self.prefixes
        known = np.isfinite(self.top.numpy()[layer, key])
        odd = np.flatnonzero(known & ((fired < least) | (fired > most)))
        return [
            (row, Result(DIFFERS, f"fires {row['fired']:,} times, recomputed from {low:,} to {high:,}"))
            for row, low, high in zip(found[odd.tolist()].to_dicts(), least[odd], most[odd], strict=True)
        ]

    def percentile(self, row: TableRow) -> Result:
        """Check that a row of ``samples`` is at the percentile that it names; its key must have been kept."""
        m = np.concatenate(self.kept[row["layer"], row["key"]])
        noise, limits = self.noise[row["layer"]], self.basis.near.limits
        most, least = (int((m > bound).sum()) for bound in (-noise, noise))
        if row["percentile"] not in PERCENTILES or not most:
            return Result(DIFFERS, "the key has no such percentile")
        ordered = np.sort(m)[::-1]
        places = {max(fires - 1, 0) - max(fires - 1, 0) * row["percentile"] // 100 for fires in range(least, most + 1)}
        right = [float(ordered[place]) for place in sorted(places)]
        slack = noise + limits.coefficient * max(abs(value) for value in right)
        if not min(right) - slack <= row["coefficient"] <= max(right) + slack:
            return Result(
                DIFFERS, f"percentile {row['percentile']} is {row['coefficient']:.7g}, recomputed {right[0]:.7g}"
            )
        return Result(MATCH)

    def lacking(self, layer: int, key: int, found: pl.DataFrame) -> str:
        """Say which percentile a key's rows of ``samples`` lack; nothing if none. The key must have been kept.

        Of percentiles that fall on one prefix, or on equal coefficients, the table may have the first alone.
        """
        m = np.concatenate(self.kept[layer, key])
        noise = self.noise[layer]
        fires = int((m > 0).sum())
        if not int((m > noise).sum()):
            return ""
        ordered, before = np.sort(m)[::-1], None
        known = set(found.filter((pl.col("layer") == layer) & (pl.col("key") == key))["percentile"])
        for percentile in PERCENTILES:
            value = float(ordered[fires - 1 - (fires - 1) * percentile // 100])
            slack = noise + self.basis.near.limits.coefficient * abs(value)
            if percentile in known:
                before = value
            elif before is None or abs(value - before) > slack:
                return f"the key lacks its percentile {percentile}"
        return ""
