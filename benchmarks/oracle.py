"""Check rows of a finished run against `transformers`: python -m benchmarks.oracle results/stories15m data/stories15m

The library runs its own model in float64, one sentence at a time, with eager attention. Of the package this uses
nothing: tables, corpus and model are read as files. It knows models whose layers are named as Llama's are. A row may
differ only by rounding: coefficients and probabilities by 1e-4, predictions and counts where two candidates are that
close, which is counted as a near-tie. Counts over the whole text (`firing`, `histogram`) and what follows from other
tables (`levels`, `similar`) are left to `ff-memories verify`.
"""

import argparse
import json
import sys
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

import polars as pl
import torch
from safetensors import safe_open
from tqdm import tqdm

LIMIT = 1e-4  # relative; of coefficients beside their layer's largest
TIE, STEP = 2e-5, 2e-6  # logits may change places if closer than this share of the largest, or than float32 has them
EQUAL, NEAR, DIFFERS = "equal", "near-tie", "differs"
Row = Mapping[str, Any]


class Seen(NamedTuple):
    """What a layer computes for a sentence, a row per token: m (rows, d_m); r, y, o (rows, d)."""

    m: torch.Tensor
    residual: torch.Tensor
    update: torch.Tensor
    output: torch.Tensor


class Oracle:
    """A run's files, and its model as the library has it."""

    def __init__(self, run: Path, model: Path):
        from transformers import AutoModelForCausalLM

        self.run = run
        self.model = AutoModelForCausalLM.from_pretrained(
            model, dtype=torch.float64, attn_implementation="eager"
        ).eval()
        self.start = json.loads((run / "model/info.json").read_text())["start"]
        self.words = self.model.lm_head.weight.detach()
        self.values = [layer.mlp.down_proj.weight.detach().T for layer in self.model.model.layers]
        with safe_open(run / "corpus/corpus.safetensors", framework="np") as file:
            self.tokens, self.offsets = file.get_tensor("tokens"), file.get_tensor("offsets")
        self.layers = lru_cache(8)(self._layers)  # rows come by sentence
        self.tops = lru_cache(None)(self._tops)

    def table(self, name: str) -> pl.DataFrame:
        return pl.read_parquet(self.run / f"tables/{name}.parquet")

    def sentence(self, number: int) -> tuple[int, ...]:
        return tuple(self.tokens[self.offsets[number] : self.offsets[number + 1]].tolist())

    @torch.inference_mode()
    def _layers(self, tokens: tuple[int, ...]) -> list[Seen]:
        kept: list[dict[str, torch.Tensor]] = [{} for _ in self.values]
        hooks = []
        for layer, own in zip(self.model.model.layers, kept, strict=True):
            hooks.append(layer.mlp.down_proj.register_forward_pre_hook(lambda _, x, own=own: own.update(m=x[0][0])))
            hooks.append(layer.mlp.register_forward_hook(lambda _, x, y, own=own: own.update(y=y[0])))
            hooks.append(layer.register_forward_hook(lambda _, x, o, own=own: own.update(o=o[0])))
        self.model.model(input_ids=torch.tensor([[self.start, *tokens]]), use_cache=False)
        for hook in hooks:
            hook.remove()
        flat = lambda o: o.reshape(-1, o.shape[-1])
        return [Seen(k["m"], flat(k["o"]) - k["y"], k["y"], flat(k["o"])) for k in kept]

    def coefficient(self, row: Row, tokens: tuple[int, ...], position: int) -> tuple[float, float]:
        """Return a memory's coefficient after so many tokens, and the size that its rounding is measured by."""
        m = self.layers(tokens)[row["layer"] - 1].m[position]
        return row["sign"] * float(m[row["key"]]), float(m.abs().max())

    def value(self, row: Row) -> torch.Tensor:
        return row["sign"] * (self.words @ self.values[row["layer"] - 1][row["key"]])

    @torch.inference_mode()
    def logits(self, h: torch.Tensor) -> torch.Tensor:
        return self.model.lm_head(self.model.model.norm(h))

    @torch.inference_mode()
    def _tops(self, layer: int) -> tuple[torch.Tensor, torch.Tensor]:
        """Return the top tokens (2, d_m) of every value, and of every value with its sign changed, and what ties them.

        The second are the tokens behind them where both are too close to call, else the same tokens.
        """
        first, second = [], []
        for part in self.values[layer - 1].split(64):
            logits = part @ self.words.T
            close = TIE * logits.abs().amax(1, keepdim=True) + STEP
            best = torch.stack([logits.topk(2).indices, (-logits).topk(2).indices])
            size = logits.gather(1, best.transpose(0, 1).flatten(1)).view(-1, 2, 2).transpose(0, 1)
            tied = (size[..., 0] - size[..., 1]).abs() <= close.T
            first.append(best[..., 0])
            second.append(torch.where(tied, best[..., 1], best[..., 0]))
        return torch.cat(first, 1), torch.cat(second, 1)


def near(recorded: float, exact: float, scale: float = 0.0) -> str:
    return EQUAL if abs(recorded - exact) <= LIMIT * max(abs(exact), scale) else DIFFERS


def _close(logits: torch.Tensor) -> float:
    """Return how far apart two logits may be to change places; log-probabilities near -10 have steps of 1e-6."""
    return TIE * float(logits.abs().max()) + STEP


def top(recorded: int, logits: torch.Tensor) -> str:
    best = int(logits.argmax())
    if best == recorded:
        return EQUAL
    return NEAR if float(logits[best] - logits[recorded]) <= _close(logits) else DIFFERS


def rank(recorded: int, logits: torch.Tensor, token: int) -> str:
    own, close = logits[token], _close(logits)
    if int((logits > own).sum()) == recorded:
        return EQUAL
    return NEAR if int((logits > own + close).sum()) <= recorded <= int((logits > own - close).sum()) else DIFFERS


def same(recorded: object, exact: object) -> str:
    return EQUAL if recorded == exact else DIFFERS


def following(oracle: Oracle, row: Row) -> int | None:
    tokens = oracle.sentence(row["sentence"])
    return tokens[row["position"]] if row["position"] < len(tokens) else None


def triggers(oracle: Oracle, row: Row) -> list[str]:
    tokens = oracle.sentence(row["sentence"])
    found, scale = oracle.coefficient(row, tokens, row["position"])
    every = row["sign"] * oracle.layers(tokens)[row["layer"] - 1].m[1 : len(tokens), row["key"]]
    best = EQUAL if float(every.max()) <= found else NEAR if float(every.max()) <= found * (1 + LIMIT) else DIFFERS
    return [near(row["coefficient"], found, scale), best, same(row["next_token"], following(oracle, row))]


def mutations(oracle: Oracle, row: Row) -> list[str]:
    prefix = oracle.sentence(row["sentence"])[: row["position"]]
    whole, scale = oracle.coefficient(row, prefix, len(prefix))
    removed = prefix[: row["removed"] - 1] + prefix[row["removed"] :]
    found, other = oracle.coefficient(row, removed, len(removed))
    place = {"first": 1, "last": len(prefix)}.get(row["mutation"], row["removed"])
    return [near(row["coefficient"], whole, scale), near(row["mutated"], found, max(other, scale)),
            near(row["change"], row["mutated"] / row["coefficient"] - 1, 1), same(row["removed"], place)]  # fmt: skip


def values(oracle: Oracle, row: Row) -> list[str]:
    logits = oracle.value(row)
    probability = float(logits.softmax(0)[row["top_token"]])
    out = [top(row["top_token"], logits), near(row["top_probability"], probability)]
    if row["next_token"] is not None:
        out.append(rank(row["next_token_rank"], logits, row["next_token"]))
    return [*out, same(row["agrees"], row["next_token"] == row["top_token"] if row["targets"] else None),
            same(row["next_token"], row["targets"][0] if row["targets"] else None),
            same(row["agreeing_triggers"], row["targets"].count(row["top_token"]))]  # fmt: skip


def promoted(oracle: Oracle, row: Row) -> list[str]:
    logits = oracle.value(row)
    own = float(logits[row["token"]] - logits.mean())
    return [near(row["probability"], float(logits.softmax(0)[row["token"]])), near(row["logit"], own, 0.1),
            rank(row["token_rank"], logits, row["token"])]  # fmt: skip


def demoted(oracle: Oracle, row: Row) -> list[str]:
    logits = oracle.value(row)
    own = float(logits[row["token"]] - logits.mean())
    return [near(row["logit"], own, 0.1), rank(row["token_rank"], -logits, row["token"])]


def shading(oracle: Oracle, row: Row) -> list[str]:
    found, scale = oracle.coefficient(row, oracle.sentence(row["sentence"]), row["position"])
    return [near(row["coefficient"], found, scale)]


def samples(oracle: Oracle, row: Row) -> list[str]:
    return shading(oracle, row)


def examples(oracle: Oracle, row: Row) -> list[str]:
    last = oracle.layers(oracle.sentence(row["sentence"]))[-1].output[row["position"]]
    return [top(row["model_top"], oracle.logits(last)), same(row["next_token"], following(oracle, row))]


def composition(oracle: Oracle, row: Row) -> list[str]:
    seen, at = oracle.layers(oracle.sentence(row["sentence"]))[row["layer"] - 1], row["position"]
    m, (first, second) = seen.m[at], oracle.tops(row["layer"])
    says, fires = row["ffn_top"], torch.stack([m > 0, m < 0])
    found, may = (int((here & fires).sum()) for here in (first == says, (first == says) | (second == says)))
    sure = int(((first == says) & (second == says) & fires).sum())
    agreeing = (
        EQUAL if row["agreeing_memories"] == found else NEAR if sure <= row["agreeing_memories"] <= may else DIFFERS
    )
    energies = (m * oracle.values[row["layer"] - 1].norm(dim=1)).square()
    return [top(says, oracle.logits(seen.update[at])), top(row["output_top"], oracle.logits(seen.output[at])),
            same(row["active"], int((m != 0).sum())), agreeing,
            near(row["effective"], float(energies.sum() ** 2 / energies.square().sum()))]  # fmt: skip


def refinement(oracle: Oracle, row: Row) -> list[str]:
    layers, at = oracle.layers(oracle.sentence(row["sentence"])), row["position"]
    seen = layers[row["layer"] - 1]
    residual = oracle.logits(seen.residual[at])
    kind = (
        ("agreement" if row["ffn_top"] == row["residual_top"] else "residual")
        if row["output_top"] == row["residual_top"]
        else "ffn" if row["output_top"] == row["ffn_top"] else "composition"
    )  # fmt: skip
    said = float(residual.softmax(0)[row["model_top"]])
    return [top(row["residual_top"], residual), top(row["ffn_top"], oracle.logits(seen.update[at])),
            top(row["output_top"], oracle.logits(seen.output[at])), same(row["kind"], kind),
            top(row["model_top"], oracle.logits(layers[-1].output[at])),
            near(row["residual_probability"], said, 1e-6)]  # fmt: skip


CHECKS: dict[str, Callable[[Oracle, Row], list[str]]] = {
    "triggers": triggers, "mutations": mutations, "values": values, "promoted": promoted, "demoted": demoted,
    "shading": shading, "samples": samples, "examples": examples, "composition": composition, "refinement": refinement,
}  # fmt: skip


def rows(oracle: Oracle, name: str, number: int, seed: int) -> pl.DataFrame:
    """Return rows of a table, drawn with a seed, with what other tables say of their prefixes."""
    drawn = oracle.table(name)
    drawn = drawn.sample(min(number, len(drawn)), seed=seed)
    if "sign" not in drawn.columns and "key" in drawn.columns:
        drawn = drawn.with_columns(sign=pl.lit(1))
    if name in ("mutations", "shading"):
        own = oracle.table("triggers").with_columns(pl.col("position").alias("end"))
        by = [column for column in ("layer", "key", "sign", "rank") if column in own.columns]
        more = ["sentence", "position"] if name == "mutations" else ["sentence"]
        drawn = drawn.join(own.select(*by, *more), on=by, how="left")
    if name == "values":
        own = oracle.table("triggers")
        by = [column for column in ("layer", "key", "sign") if column in own.columns]
        listed = own.sort("rank").group_by(by, maintain_order=True).agg(targets=pl.col("next_token"))
        drawn = drawn.join(listed, on=by, how="left").with_columns(pl.col("targets").fill_null([]))
    if name in ("composition", "refinement"):
        drawn = drawn.join(oracle.table("examples").select("example", "sentence", "position"), on="example", how="left")
    return drawn


def check(
    run: Path, model: Path, number: int = 1000, seed: int = 1, only: Sequence[str] = tuple(CHECKS)
) -> dict[str, Counter[str]]:
    """Return for every table how many rows are equal, equal but for near-ties, and different."""
    oracle, found = Oracle(run, model), {name: Counter[str]() for name in only}
    drawn = [(name, row) for name in only for row in rows(oracle, name, number, seed).iter_rows(named=True)]
    drawn.sort(key=lambda one: (one[1].get("sentence", -1), one[0] == "mutations"))  # tables share a sentence's pass
    for name, row in tqdm(drawn, unit=" rows", disable=not sys.stderr.isatty()):
        said = CHECKS[name](oracle, row)
        worst = DIFFERS if DIFFERS in said else NEAR if NEAR in said else EQUAL
        found[name][worst] += 1
        if worst == DIFFERS:
            print(f"{name}: {row} {said}", file=sys.stderr)
    for name, counts in found.items():
        print(f"{name}: " + ", ".join(f"{n:,} {what}" for what, n in sorted(counts.items())))
    return found


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("run", type=Path, help="results of a finished run")
    parser.add_argument("model", type=Path, help="folder with its model")
    parser.add_argument("--rows", type=int, default=1000, help="of each table")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", nargs="+", choices=list(CHECKS), default=list(CHECKS), help="tables to check")
    args = parser.parse_args()
    found = check(args.run, args.model, args.rows, args.seed, args.only)
    sys.exit(any(counts[DIFFERS] for counts in found.values()))
