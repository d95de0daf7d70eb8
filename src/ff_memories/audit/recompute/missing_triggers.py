"""Find prefixes that should be among a key's triggers but are not."""

import numpy as np
import polars as pl
import torch

from ff_memories.audit.recompute.audit_inputs import AuditInputs
from ff_memories.audit.recompute.near_equal import DIFFERS, MATCH, NEAR_TIE, Result


class Unlisted:
    """Compare whole sentences with the last triggers of all keys at once."""

    def __init__(self, inputs: AuditInputs):
        self.inputs, self.options, self.limits = inputs, inputs.config.triggers, inputs.near.limits
        triggers = inputs.tables["triggers"]
        full = triggers.filter(pl.col("rank") == self.options.top)
        self.last = torch.zeros(inputs.oracle.keys, dtype=torch.float64)  # 0: a list with room; any prefix beats it
        if inputs.looked_at is not None:  # nothing beats the list of a key that the run did not look at
            self.last[:] = torch.inf
            layers, keys = torch.tensor(inputs.looked_at).unbind(1)
            self.last[layers - 1, keys] = 0
        self.last[_index(full["layer"]) - 1, _index(full["key"])] = torch.from_numpy(
            full["coefficient"].to_numpy().astype(np.float64)
        )
        self.listed = triggers.select("sentence", "position", "layer", "key").partition_by("sentence", as_dict=True)

    def of(self, sentence: int) -> Result:
        """Run a whole sentence and check that no prefix beats the last trigger of a key that does not list it."""
        seen = self.inputs.layers(self.inputs.corpus.sentence(sentence))
        allowed = self.inputs.lengths(sentence)
        own = self.listed.get((sentence,), self.inputs.tables["triggers"].clear())
        results = []
        for layer, here in enumerate(seen, 1):
            m = here.coefficients()[allowed.start : allowed.stop]
            noise = here.noise(self.limits.noise)  # a smaller score may have either sign
            beats = m > (self.last[layer - 1] * (1 - self.limits.coefficient)).clamp(min=noise)
            if self.options.per_sentence == "best":
                best = torch.zeros_like(beats)
                best[m.argmax(0), torch.arange(m.shape[1])] = True
                beats &= best
            mine = own.filter(pl.col("layer") == layer)
            any_place = slice(None) if self.options.per_sentence == "best" else _index(mine["position"]) - allowed.start
            beats[any_place, _index(mine["key"])] = False
            for row, key in beats.nonzero().tolist():
                results.append(self._against_last(layer, key, sentence, row + allowed.start, float(m[row, key])))
        missing = [result for result in results if result.state == DIFFERS]
        if missing:
            more = f", and {len(missing) - 1} more" if len(missing) > 1 else ""
            return Result(DIFFERS, missing[0].says + more)
        return Result(NEAR_TIE if any(result.state == NEAR_TIE for result in results) else MATCH)

    def _against_last(self, layer: int, key: int, sentence: int, position: int, found: float) -> Result:
        """Compare an unlisted prefix with its key's last trigger, both recomputed; the earlier place wins a tie."""
        missing = Result(
            DIFFERS,
            f"its prefix of {position} tokens should be a trigger of layer {layer} key {key} (coefficient {found:.7g})",
        )
        rows = self.inputs.lists.get((layer, key))
        if rows is None:
            return missing
        text = self.inputs.read_as({"sentence": sentence, "position": position})
        same = [rows.row(i, named=True) for i in self.inputs.listed(layer, key).get(text, ())]
        if same and self.options.duplicates == "drop":
            return Result() if (same[0]["sentence"], same[0]["position"]) < (sentence, position) else missing
        if len(rows) < self.options.top:
            return missing
        last = rows.row(-1, named=True)
        if same and same[-1] == last:
            return Result() if (last["sentence"], last["position"]) < (sentence, position) else missing
        tokens = self.inputs.corpus.sentence(last["sentence"])
        bar = float(self.inputs.oracle.layers(tokens, layer)[-1].coefficients()[last["position"], key])
        if abs(found - bar) <= self.limits.tie * bar:
            return Result(NEAR_TIE)
        return missing if found > bar else Result()


def _index(column: pl.Series) -> torch.Tensor:
    return torch.from_numpy(column.to_numpy().astype(np.int64))
