"""The top-t prefixes of every key, as a small value that can be merged in any order.

Prefixes with the same tokens have the same coefficient, but float32 products of differently shaped batches differ in
their last bits. So equal prefixes are recognised by a hash of their tokens and share the largest coefficient computed
for any of them: they are exact ties, and ties go to the earlier sentence, then to the shorter prefix. Whatever lies
within the precision's ``SLACK`` of a key's t-th coefficient is held until the end, so no order of merging changes
the outcome.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file

from ff_memories.base.arithmetic import SLACK, Precision
from ff_memories.base.errors import UserError, rebuild_hint
from ff_memories.base.files import atomic_write, require_file

MAX_PREFIXES = 2**32 - 1
_LOW = 2**32 - 1
_MIX = 0x1E3779B97F4A7C15  # odd: keys times it, modulo 2**64, differ
COLUMNS = ("key", "coefficient", "prefix", "text")  # of ``Entries``, in order


@dataclass(frozen=True)
class Entries:
    """Prefixes of keys, (n,) each: key, coefficient float32 > 0, prefix number, hash of the prefix's tokens."""

    key: torch.Tensor
    coefficient: torch.Tensor
    prefix: torch.Tensor
    text: torch.Tensor

    @classmethod
    def cat(cls, parts: list["Entries"]) -> "Entries":
        return cls(*(torch.cat([getattr(p, n) for p in parts]) for n in COLUMNS))

    def __getitem__(self, index: torch.Tensor) -> "Entries":
        if index.dtype == torch.bool:
            index = index.nonzero().squeeze(1)  # once, rather than for every column
        return Entries(self.key[index], self.coefficient[index], self.prefix[index], self.text[index])

    def __len__(self) -> int:
        return len(self.key)


def _sorted(codes: torch.Tensor) -> torch.Tensor:
    """Return (n,) int64 codes in ascending order; on the CPU by numpy, whose sort is vectorised."""
    return torch.from_numpy(np.sort(codes.numpy())) if codes.device.type == "cpu" else codes.sort().values


def _order(codes: torch.Tensor) -> torch.Tensor:
    """Return (n,) the indices that sort int64 codes; equal ones come in any order."""
    return torch.from_numpy(np.argsort(codes.numpy())) if codes.device.type == "cpu" else codes.argsort()


def _nth_largest(rows: torch.Tensor, n: int) -> torch.Tensor:
    """Return (columns,) the n-th largest of each column."""
    if rows.device.type != "cpu":
        return rows.topk(n, dim=0, sorted=False).values.amin(0)
    return torch.from_numpy(np.partition(rows.t().contiguous().numpy(), len(rows) - n)[:, len(rows) - n].copy())


def _descending(entries: Entries) -> torch.Tensor:
    """Return (n,) int64 that sort by key, then by falling coefficient: positive floats order like their bits.

    The key stands in the upper 32 bits, and 2**32 - 1 less the coefficient's bits in the lower ones:

        key  coefficient  bits of it   code
        0    2.0          0x40000000   0x00000000bfffffff
        0    1.0          0x3f800000   0x00000000c07fffff
        1    1.0          0x3f800000   0x00000001c07fffff
    """
    return (entries.key << 32) | (_LOW - entries.coefficient.view(torch.int32).to(torch.int64))


def _starts(*columns: torch.Tensor) -> torch.Tensor:
    """Return (n,) bool: where a run of equal rows begins in sorted columns: of 3 3 5, True False True."""
    new = torch.ones(len(columns[0]), dtype=torch.bool, device=columns[0].device)
    new[1:] = torch.stack([c[1:] != c[:-1] for c in columns]).any(0)
    return new


def _ranks(new: torch.Tensor) -> torch.Tensor:
    """Return (n,) int64: each row's number, from 0, within its run.

    rows                 a     a      b     b      b
    new, of ``_starts``  True  False  True  False  False
    ranks                0     1      0     1      2
    """
    index = torch.arange(len(new), device=new.device)
    return index - index[new][new.cumsum(0) - 1]


class TopTriggers:
    """The t best prefixes of every key of every layer.

    Merging is associative and commutative. A key's ``gate`` is the coefficient that a prefix must reach to matter:
    candidates at or above it are logged and compacted now and then. ``fired`` (layers, keys) int64 counts the prefixes
    on which each key fires; merging adds the counts. With t = 2, the list of one key:

        offered                        list                       gate
        coefficient 3 of prefix 7      3 of 7                     > 0
        1 of 4, and 2 of 9             3 of 7, 2 of 9             2 (1 - slack)
        2 of 5, equal to that of 9     3 of 7, 2 of 5, 2 of 9     2 (1 - slack)

    Ranks 1 and 2 are then prefixes 7 and 5: of equal coefficients, the earlier prefix comes first.

    Args:
        layers, keys, top: L, d_m and t.
        copies: how many prefixes with the same tokens a list may hold: t, or 1 for ``duplicates: drop``.
        precision: ``extraction.precision`` of the coefficients.
        neurons: d_m, where keys count both signs.
    """

    def __init__(
        self,
        layers: int,
        keys: int,
        top: int,
        copies: int | None = None,
        device: torch.device | str = "cpu",
        precision: Precision = "float32",
        neurons: int | None = None,
    ):
        self.neurons = neurons
        self.precision, self._slack = precision, SLACK[precision]
        self.top, self.copies = top, top if copies is None else copies
        self.keys = keys
        self.again = False  # whether prefixes may come a second time: then lists are levelled before they are cut
        empty = torch.zeros(0, dtype=torch.int64, device=device)
        self.lists = [Entries(empty, empty.float(), empty, empty)] * layers
        self.gate = torch.full((layers, keys), torch.finfo(torch.float32).smallest_normal, device=device)
        self.fired = torch.zeros(layers, keys, dtype=torch.int64, device=device)
        self._log: list[list[Entries]] = [[] for _ in range(layers)]
        self._logged = [0] * layers
        self._settled = [True] * layers  # whether the list is compacted, and nothing logged since
        self._limit = self._bound = 0  # a list longer than the bound holds many prefixes of the same text: level it
        self.expect(keys)

    def is_new(self, layer: int) -> bool:
        """Say whether nothing was offered to a layer yet."""
        return not len(self.lists[layer]) and not self._logged[layer]

    def expect(self, keys: int) -> None:
        """Make the logs as long as lists of so many keys per layer need."""
        self._limit = max(keys * self.top, 4096)
        self._bound = int((2 + 32 * self._slack) * self._limit)  # a wide slack holds more, whatever their text

    def raise_gate(self, layer: int, coefficients: torch.Tensor, keys: torch.Tensor | None = None) -> None:
        """Raise a layer's gates to the t-th largest of (n, columns) coefficients of different sentences, where n >= t.

        ``keys``: of the columns (columns,); ``None``: 0, 1, 2 and so on.
        """
        if self.copies == self.top and len(coefficients) >= self.top:
            bar = _nth_largest(coefficients, self.top) * (1 - self._slack)
            keys = torch.arange(len(bar), device=bar.device) if keys is None else keys
            self.gate[layer, keys] = torch.maximum(self.gate[layer, keys], bar)

    def offer(self, layer: int, entries: Entries) -> None:
        """Offer candidates with positive coefficients; of a long log, drop what can't be among a key's t best."""
        self._add(layer, entries)
        if self._logged[layer] < self._limit:
            return
        if self._cuts:
            self._cut(layer)
        if not self._cuts or len(self.lists[layer]) > self._bound:
            self._compact(layer)

    def _add(self, layer: int, entries: Entries) -> None:
        if len(entries):
            self._log[layer].append(entries)
            self._logged[layer] += len(entries)
            self._settled[layer] = False

    def merge(self, other: "TopTriggers") -> None:
        """Take in the lists of another part of the corpus. Raises ``ValueError`` where their precision is another."""
        if other.precision != self.precision:
            raise ValueError(f"lists in {other.precision} do not merge with lists in {self.precision}")
        other.finish()
        self.fired += other.fired.to(self.fired.device)
        for layer, entries in enumerate(other.lists):
            self._add(layer, entries)
            self._compact(layer)

    def finish(self) -> None:
        """Compact all that is logged."""
        for layer, settled in enumerate(self._settled):
            if not settled and self._cuts:
                self._cut(layer)  # less is left to level and sort
            self._compact(layer)

    def ranked(self, layer: int) -> tuple[Entries, torch.Tensor]:
        """Return a layer's triggers, key by key in descending order, and their ranks from 1."""
        self._compact(layer)
        entries = self.lists[layer]
        rank = _ranks(_starts(entries.key)) + 1
        return entries[rank <= self.top], rank[rank <= self.top]

    def _taken(self, layer: int) -> Entries:
        """Return a layer's list and log as one. Raises ``ValueError`` where a coefficient is not finite."""
        entries = Entries.cat([self.lists[layer], *self._log[layer]])
        self.lists[layer], self._log[layer], self._logged[layer] = entries, [], 0  # all there, should memory run out
        if not torch.isfinite(entries.coefficient).all():
            raise ValueError("memory coefficients that are not finite")
        return entries

    @property
    def _cuts(self) -> bool:
        """Whether a key's t-th largest coefficient tells what can't matter: no prefix twice, all copies count."""
        return self.copies == self.top and not self.again

    def _cut(self, layer: int) -> None:
        """Drop what lies below its key's t-th coefficient by more than the slack, whatever its text; one plain sort.

        In the sorted codes, a key with ``count`` entries begins where those of smaller keys end. With t = 2:

            key of the sorted codes   0  0  0  2  2      count 3 0 2, begin 0 3 3
            its t-th stands at           1        4      begin + t - 1
        """
        entries = self._taken(layer)
        codes = _sorted(_descending(entries))
        count = torch.bincount(entries.key, minlength=self.keys)
        full = (count >= self.top).nonzero().squeeze(1)
        last = _LOW - (codes[(count.cumsum(0) - count)[full] + self.top - 1] & _LOW)
        bar = self.gate[layer].index_copy(0, full, last.to(torch.int32).view(torch.float32) * (1 - self._slack))
        self.gate[layer] = torch.maximum(self.gate[layer], bar)
        self.lists[layer] = entries[entries.coefficient >= self.gate[layer][entries.key]]

    def _compact(self, layer: int) -> None:
        """Level equal prefixes, sort, and drop what lies below the t-th by more than the slack.

        The sort by key and falling coefficient is unstable, so a second one orders prefixes within equal codes:

            code     c1  c1  c2        run  1  1  2
            prefix   9   5   7         (run, prefix) sorts to 5, 9, 7
        """
        if self._settled[layer]:
            return
        entries = self._level(self._taken(layer))
        codes = _descending(entries)
        order = _order(codes)
        run = _starts(codes[order]).cumsum(0)
        entries = entries[order[_order((run << 32) | entries.prefix[order])]]  # of equals the first prefix
        rank = _ranks(_starts(entries.key))
        bar = torch.zeros(self.keys, device=entries.key.device)
        last = entries[rank == self.top - 1]
        bar[last.key] = last.coefficient * (1 - self._slack)
        self.lists[layer] = entries[entries.coefficient >= bar[entries.key]]
        self.gate[layer] = torch.maximum(self.gate[layer], bar)
        self._settled[layer] = True

    def _level(self, entries: Entries) -> Entries:
        """Give equal prefixes of a key one coefficient, and keep the first ``copies`` of them.

        key  text  prefix  coefficient        levelled, copies = 1
        3    a     4       1.0                1.0000001
        3    a     8       1.0000001          dropped
        3    b     6       0.5                alone: as it is
        """
        hashes = entries.text + entries.key * _MIX  # modulo 2**64: equal where key and text are, and hardly elsewhere
        order = _order(hashes)
        new = _starts(hashes[order])
        alone = new & new.roll(-1)
        single, entries = entries[order[alone]], entries[order[~alone]]
        for column in ("prefix", "text", "key"):
            entries = entries[getattr(entries, column).sort(stable=True).indices]
        new = _starts(entries.key, entries.text)
        run = new.cumsum(0) - 1
        best = torch.zeros(len(entries), device=run.device).scatter_reduce_(0, run, entries.coefficient, "amax")
        entries = Entries(entries.key, best[run], entries.prefix, entries.text)
        entries, new = entries[once := _starts(entries.key, entries.text, entries.prefix)], new[once]
        return Entries.cat([single, entries[_ranks(new) < self.copies]])


def save(best: TopTriggers, path: str | Path) -> None:
    """Write the lists of a shard, whole or not at all."""
    best.finish()
    every = Entries.cat(best.lists)
    arrays = {name: getattr(every, name).cpu().contiguous() for name in COLUMNS}
    arrays |= {"length": torch.tensor([len(entries) for entries in best.lists]), "fired": best.fired.cpu()}
    shape = {"keys": best.keys, "top": best.top, "copies": best.copies, "precision": best.precision}
    shape |= {} if best.neurons is None else {"neurons": best.neurons}
    with atomic_write(path) as partial:
        save_file(arrays, partial, metadata={"shape": json.dumps(shape)})  # one entry: several come in any order


def merged(paths: Sequence[Path]) -> TopTriggers:
    """Read and merge the lists of all shards."""
    best = load(paths[0])
    for path in paths[1:]:
        best.merge(load(path))
    return best


def load(path: str | Path) -> TopTriggers:
    """Read the lists of a shard. Raises ``UserError`` when the file is missing or damaged."""
    require_file(path)
    try:
        with safe_open(path, framework="pt") as file:
            shape = json.loads(file.metadata()["shape"])
            columns = [file.get_tensor(name) for name in COLUMNS]
            lengths, fired = file.get_tensor("length").tolist(), file.get_tensor("fired")
        best = TopTriggers(len(lengths), **shape)
        best.fired += fired
        for layer, parts in enumerate(zip(*(c.split(lengths) for c in columns), strict=True)):
            best.offer(layer, Entries(*parts))
        best.finish()
    except (OSError, KeyError, ValueError, AttributeError, TypeError, RuntimeError, SafetensorError) as error:
        raise UserError(f"{path}: not a readable shard ({error})", rebuild_hint(path)) from None
    return best
