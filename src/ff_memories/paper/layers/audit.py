"""How rows of section 5's tables are recomputed, and what all of them follow from."""

from collections.abc import Iterator

import numpy as np
import polars as pl
import torch
from torch import Tensor

from ff_memories.audit.audit_inputs import AuditInputs, TableAudit, TableRow
from ff_memories.audit.equations import Activations
from ff_memories.audit.near_equal import Result, equal, together, within
from ff_memories.paper.layers import composition
from ff_memories.paper.values.audit import suffixes


def _prefix(inputs: AuditInputs, row: TableRow) -> np.ndarray:
    """Return the prefix of the example that a row is, or is of."""
    if "sentence" not in row:
        row = inputs.tables["examples"].filter(pl.col("example") == row["example"]).row(0, named=True)
    return inputs.prefix(row)


def _runs(inputs: AuditInputs, row: TableRow) -> tuple[int, list[np.ndarray]]:
    return inputs.oracle.keys[0], [_prefix(inputs, row)]


def _example(inputs: AuditInputs, row: TableRow) -> Result:
    """Check a row of ``examples``: the next token, and the model's own prediction."""
    last = inputs.layers(_prefix(inputs, row))[-1]
    top = inputs.near.top("model_top", row["model_top"], inputs.oracle.of_layer(last.output[-1]))
    return together([equal("next_token", row["next_token"], inputs.following(row)), top])


def _example_table(inputs: AuditInputs) -> Iterator[str]:
    corpus, options, again = inputs.corpus, inputs.config.composition, inputs.given
    if again is None:
        again = composition.sample_examples(corpus.lengths[corpus.train :], corpus.train, options, inputs.config.seed)
    again = again.select("example", "sentence", "position")
    yield from inputs.other_rows("examples", again.with_columns(inputs.following_all(again)))


def _composition(inputs: AuditInputs, row: TableRow) -> Result:
    """Check a row of E8-E10: a layer's active memories, its predictions, and how many memories agree with it."""
    activations = inputs.layers(_prefix(inputs, row), row["layer"])[-1]
    ffn, output = inputs.oracle.of_layer(torch.stack([activations.ffn[-1], activations.output[-1]]))
    energies = (activations.m[-1] * inputs.norms(row["layer"])).square()
    ratio = float(energies.sum() ** 2 / energies.square().sum()) if energies.any() else 0.0
    if (share := composition.SHARES.get(inputs.config.composition.memories)) is not None:
        fires, unsure = _fewest(activations, energies, share)
    else:
        fires = activations.coefficients()[-1] > 0
        unsure = activations.unsure(inputs.near.limits.noise, inputs.near.error)
    says = row["ffn_top" if inputs.config.composition.layer_prediction == "ffn" else "output_top"]
    may = torch.ones_like(fires) if inputs.config.composition.memories == "all" else fires
    active, open_ = int(fires.sum()), int(unsure.sum())
    sure, agreeing = may & ~unsure, []
    for types, suffix in suffixes(inputs, row, "agreeing_memories"):
        left_out, limit = [] if types == "all" else inputs.never, inputs.near.limits.probability
        agree, tied = inputs.oracle.predicting(row["layer"], says, left_out, limit, may | unsure)
        near = int((tied | (agree & ~sure)).sum())
        count = int((agree & sure).sum())
        column = "agreeing_memories" + suffix
        agreeing.append(within(column, row[column], count, count - near, count + near))
    results = [within("active", row["active"], active, active - open_, active + open_)]
    if "effective" in row:
        results.append(inputs.near.ratio("effective", row["effective"], ratio))
    results += [inputs.near.top(name, row[name], said) for name, said in (("ffn_top", ffn), ("output_top", output))]
    return together(results + agreeing)


def _fewest(seen: Activations, energies: Tensor, share: float) -> tuple[Tensor, Tensor]:
    """Return (memories,) bool: the fewest with a share of the energy (d_m,), and those that rounding may swap."""
    ordered, index = energies.sort(descending=True)
    reached, target = ordered.cumsum(0), share * energies.sum()
    count = int((reached < target).sum()) + 1 if energies.any() else 0
    chosen, close = torch.zeros_like(energies, dtype=torch.bool), torch.zeros_like(energies, dtype=torch.bool)
    chosen[index[:count]] = True
    if count:
        alike = (energies - ordered[count - 1]).abs() <= 1e-4 * ordered[count - 1]
        close = alike & (alike.sum() > 1)
        close[index[(reached - target).abs() <= 1e-4 * target]] = True
        close[index[1:][(reached - target).abs()[:-1] <= 1e-4 * target]] = True
    m = seen.m[-1]
    if seen.signs == 1:  # a negative coefficient has a share of the energy, but its memory isn't active
        return chosen & (m > 0), close & (m > 0)
    return torch.cat([chosen & (m > 0), chosen & (m < 0)]), torch.cat([close, close])


def _observed(inputs: AuditInputs) -> pl.DataFrame:
    """Return the (example, layer) that are looked at, with the tokens that the model predicts."""
    layers = pl.DataFrame({"layer": range(1, inputs.oracle.keys[0] + 1)}, schema={"layer": pl.UInt8})
    return inputs.tables["examples"].select("example", "model_top").join(layers, how="cross")


def _composition_counts(inputs: AuditInputs) -> dict[str, int]:
    examples, asked = len(inputs.tables["examples"]), inputs.config.composition.examples
    return composition.reasons(inputs.tables["refinement"], examples, asked - examples if inputs.given is None else 0)


def _refinement(inputs: AuditInputs, row: TableRow) -> Result:
    """Check a row of E11-E13: predictions of residual, feed-forward and output at a layer, and the resulting kind."""
    layers = inputs.layers(_prefix(inputs, row))
    here, last = layers[row["layer"] - 1], layers[-1]
    vectors = [here.residual[-1], here.ffn[-1], here.output[-1], last.output[-1]]
    residual, ffn, output, model = inputs.oracle.of_layer(torch.stack(vectors))
    tops = {"residual_top": residual, "ffn_top": ffn, "output_top": output, "model_top": model}
    results = [inputs.near.top(name, row[name], said) for name, said in tops.items()]
    same = (row["output_top"] == row["residual_top"], row["output_top"] == row["ffn_top"])
    kind = {(True, True): "agreement", (True, False): "residual", (False, True): "ffn"}.get(same, "composition")
    recorded, token = row["residual_probability"], row["model_top"]
    results.append(inputs.near.probability("residual_probability", recorded, residual, token))
    return together([*results, equal("kind", row["kind"], kind)])


def _refinement_table(inputs: AuditInputs) -> Iterator[str]:
    recorded, on = inputs.tables["refinement"], ["example", "layer"]
    again = _observed(inputs).join(inputs.tables["composition"].select(*on, "ffn_top", "output_top"), on=on)
    again = again.join(recorded.select(*on, composition.kinds().alias("kind")), on=on)
    yield from inputs.other_rows("refinement", again)


AUDITS = {
    "examples": TableAudit(row=_example, runs=_runs, faults=_example_table),
    "composition": TableAudit(
        row=_composition,
        runs=_runs,
        faults=lambda inputs: inputs.other_rows("composition", _observed(inputs).drop("model_top")),
        counts=_composition_counts,
    ),
    "refinement": TableAudit(row=_refinement, runs=_runs, faults=_refinement_table),
}
