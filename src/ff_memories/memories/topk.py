"""The top-t prefixes of every key, as a small value that can be merged in any order.

An entry is one int64, the coefficient's float32 bits above the complement of its prefix number. Positive floats order
like their bits, so a plain integer maximum is the total order (coefficient descending, prefix ascending), and a
key's list is the t largest codes, whatever order, batch or shard they came in. Code 0 is an empty place.
"""

import torch

MAX_PREFIXES = 2**32 - 1
_LOW = 2**32 - 1
_SMALLEST = torch.finfo(torch.float32).smallest_normal


def encode(coefficients: torch.Tensor, prefixes: torch.Tensor) -> torch.Tensor:
    """Return the codes of positive float32 coefficients at prefixes (int64, below 2**32 - 1)."""
    return (coefficients.contiguous().view(torch.int32).to(torch.int64) << 32) | (_LOW - prefixes)


def decode(codes: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Return (coefficients float32, prefixes int64) of codes; empty places give coefficient 0 and prefix -1."""
    prefixes = torch.where(codes == 0, -1, _LOW - (codes & _LOW))
    return (codes >> 32).to(torch.int32).view(torch.float32), prefixes


class TopTriggers:
    """The t best prefixes of every key of every layer.

    Merging is associative, commutative and idempotent on disjoint sets of prefixes. A key's ``gate`` is the
    coefficient that a prefix must reach to matter: candidates at or above it are logged and compacted now and then.

    Args:
        layers, keys, top: L, d_m and t.
        classes: (prefixes,) int64, for ``duplicates: drop``: prefixes of one class have the same text and only the
            best of them stays in a list.
    """

    def __init__(self, layers: int, keys: int, top: int, device="cpu", classes: torch.Tensor | None = None):
        self.top, self.classes = top, classes
        self.codes = torch.zeros(layers, keys, top, dtype=torch.int64, device=device)
        self.gate = torch.full((layers, keys), _SMALLEST, device=device)
        self._log: list[list[tuple[torch.Tensor, torch.Tensor]]] = [[] for _ in range(layers)]
        self._logged = [0] * layers
        self._limit = max(keys * top // 4, 4096)

    def raise_gate(self, layer: int, coefficients: torch.Tensor) -> None:
        """Raise a layer's gates to the t-th largest of (n, d_m) coefficients of different prefixes, where n >= t."""
        if self.classes is None and len(coefficients) >= self.top:
            bar = coefficients.topk(self.top, dim=0, sorted=False).values.amin(0)
            self.gate[layer] = torch.maximum(self.gate[layer], bar)

    def offer(self, layer: int, keys: torch.Tensor, coefficients: torch.Tensor, prefixes: torch.Tensor) -> None:
        """Offer candidates (n,): keys, positive coefficients and prefix numbers."""
        if keys.numel():
            self._log[layer].append((keys, encode(coefficients, prefixes)))
            self._logged[layer] += keys.numel()
            if self._logged[layer] >= self._limit:
                self._compact(layer)

    def merge(self, other: "TopTriggers") -> None:
        """Take in the lists of another part of the corpus."""
        other.finish()
        for layer in range(len(self.codes)):
            keys, places = other.codes[layer].nonzero(as_tuple=True)
            self._log[layer].append((keys, other.codes[layer][keys, places]))
            self._compact(layer)

    def finish(self) -> torch.Tensor:
        """Compact what is logged; return the codes (layers, keys, t), each list in descending order."""
        for layer in range(len(self.codes)):
            self._compact(layer)
        return self.codes

    def _compact(self, layer: int) -> None:
        log, self._log[layer], self._logged[layer] = self._log[layer], [], 0
        if not log:
            return
        keys, codes = torch.cat([k for k, _ in log]), torch.cat([c for _, c in log])
        if self.classes is None:
            keep = codes > self.codes[layer, :, -1][keys]
            keys, codes = keys[keep], codes[keep]
        if not keys.numel():
            return
        touched = torch.unique(keys)
        held, places = self.codes[layer][touched].nonzero(as_tuple=True)
        keys = torch.cat([keys, touched[held]])
        codes = torch.cat([codes, self.codes[layer][touched[held], places]])
        codes, order = codes.sort(descending=True)
        keys, order = keys[order].sort(stable=True)
        codes = codes[order]
        new = torch.ones_like(keys, dtype=torch.bool)
        new[1:] = (keys[1:] != keys[:-1]) | (codes[1:] != codes[:-1])  # the same entry twice is one entry
        keys, codes = keys[new], codes[new]
        if self.classes is not None:
            keys, codes = self._without_duplicates(keys, codes)
        _, counts = torch.unique_consecutive(keys, return_counts=True)
        starts = torch.repeat_interleave(counts.cumsum(0) - counts, counts)
        place = torch.arange(len(keys), device=keys.device) - starts
        kept = place < self.top
        self.codes[layer][touched] = 0
        self.codes[layer][keys[kept], place[kept]] = codes[kept]
        last = decode(self.codes[layer][touched, -1])[0]
        self.gate[layer][touched] = torch.maximum(self.gate[layer][touched], last)

    def _without_duplicates(self, keys: torch.Tensor, codes: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Keep the first of each (key, class) in lists that are sorted already."""
        pair = keys * (int(self.classes.max()) + 1) + self.classes[decode(codes)[1]]
        _, order = pair.sort(stable=True)
        first = torch.ones_like(keys, dtype=torch.bool)
        first[1:] = pair[order][1:] != pair[order][:-1]
        kept = order[first].sort().values
        return keys[kept], codes[kept]
