"""Update the part of docs/paper.md that measures what later work found; docs/data/later.csv keeps the numbers.

``--results`` names the folders of finished runs, whose tables and models are read:

    python docs/tools/later.py --results results/smollm2 results/stories15m results/qwen results/demo
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Literal

import numpy as np
import polars as pl
import torch
from pages import ROOT, options, read_rows, renew, replaced, table, write_rows

from ff_memories import tables
from ff_memories.base.draws import generator
from ff_memories.base.parameters import Execution
from ff_memories.config import Settings
from ff_memories.corpus import store
from ff_memories.judge.numbers import measured, spread
from ff_memories.model.decoder import LanguageModel
from ff_memories.model.info import has_inactive, read_info
from ff_memories.model.loading import load_model
from ff_memories.model.transformer.hooked import HookedModel
from ff_memories.steps import models
from ff_memories.workflow.opening import opened

KEPT = Path("docs/data/later.csv")
BEGIN = "<!-- later work: python docs/tools/later.py -->"
GERSTNER = (
    "[Gerstner and Schütze 2025](https://arxiv.org/abs/2505.17936): those that strengthen what they read lead in lower "
    "layers, those that weaken it in upper ones"
)
FAR = 0.5  # a cosine
WEAKEST, MUCH = 0.02, 0.1  # of the output layer's directions; of a value's squared length
SENTENCES = 60  # validation sentences that a model reads: how often a gate is positive is known to about a point
LARGE = 10**9  # parameters; beside a larger model no untrained one is drawn, which takes minutes
COLUMNS = ("quantity", "run", "measured", "random_low", "random_high")


@dataclass(frozen=True)
class Quantity:
    """What a later paper measured: the question, the paper with its number, and how a model's tables give ours.

    ``of`` returns ``None`` if it is not defined. It takes the folder of one model's tables and the run's model info; or
    the model alone, if it ``reads`` weights; or the model and sentences, if it reads text.
    """

    question: str
    paper: str
    of: Callable[..., float | None]
    reads: Literal["tables", "weights", "text"] = "tables"
    unit: str = "share"


def saved(folder: Path, info: dict) -> float | None:
    """Return the share of layers above the first from which each layer's output predicts the final token."""
    refinement = tables.read(folder / "refinement.parquet")
    wrong = pl.when(pl.col("output_top") != pl.col("model_top")).then("layer")
    last_wrong = refinement.group_by("example").agg(wrong.max().fill_null(0).cast(pl.Int64).alias("last"))
    above = (info["layers"] - last_wrong["last"] - 1).to_numpy()
    return float(above.mean() / info["layers"])


def nonzero(folder: Path, info: dict) -> float | None:
    """Return the mean share of memories with a coefficient above zero; they are all nonzero if none is inactive."""
    if not has_inactive(info):
        return None
    active = tables.read(folder / "composition.parquet")["active"].to_numpy()
    return float(active.mean() / info["keys"])


def dead(folder: Path, info: dict) -> float | None:
    """Return the share of keys that never fire, in the layer where it is highest; random networks are not counted."""
    if not has_inactive(info) or not (folder / "firing.parquet").exists():
        return None
    never = tables.read(folder / "firing.parquet").group_by("layer").agg((pl.col("fired") == 0).mean().alias("share"))
    return float(never["share"].to_numpy().max())


def controlled(folder: Path, info: dict) -> float | None:
    """Return how often the model's prediction changes without a layer's 20 largest memories."""
    removals = tables.read(folder / "removals.parquet").filter(by="size", removed=20)
    return float(removals["top_changed"].to_numpy().mean()) if len(removals) else None


def cosines(model: LanguageModel) -> np.ndarray:
    """Return (layers, memories) the cosine of what each memory reads and writes.

    A gated memory reads by its row of ``up``: its gate says how much.
    """
    d, keys = model.description.model, model.description.keys
    read_and_written = ((layer.keys[:, -d:].float(), layer.values[:keys].float()) for layer in model.layers)
    return torch.stack([torch.cosine_similarity(*pair) for pair in read_and_written]).numpy()


def strengthen(model: LanguageModel, upper: bool) -> float:
    return float((np.array_split(cosines(model)[::-1], 2)[not upper] > FAR).mean())


def weaken(model: LanguageModel, upper: bool) -> float:
    return float((np.array_split(cosines(model)[::-1], 2)[not upper] < -FAR).mean())


def open_gates(model: HookedModel, sentences: Sequence[np.ndarray]) -> np.ndarray:
    """Return (layers, memories) the share of the sentences' tokens at which each memory's gate is positive."""
    family, found = model.family, list[torch.Tensor]()
    batch, _ = model.pack_unsorted(sentences)

    def see(_: torch.nn.Module, __: object, out: torch.Tensor) -> None:
        gates = out.flatten(0, -2)[batch.positions > 0, : model.description.keys]  # of a fused matrix, its first half
        found.append((gates > 0).float().mean(0))

    gates = [layer.module.get_submodule(family.gate or family.up) for layer in model.layers]
    hooks = [gate.register_forward_hook(see) for gate in gates]
    model.forward(batch)
    for hook in hooks:
        hook.remove()
    return torch.stack(found).numpy()


def gate_by_cosine(model: LanguageModel, sentences: Sequence[np.ndarray]) -> float | None:
    """Return the correlation of both over a layer's memories, mean over layers."""
    if not (isinstance(model, HookedModel) and model.family.gated):
        return None
    pairs = zip(open_gates(model, sentences), cosines(model), strict=True)
    return float(np.mean([np.corrcoef(gates, cosine)[0, 1] for gates, cosine in pairs]))


def hardly_read(model: LanguageModel) -> float:
    """Return the share of the last layer's values with much of their length where the output layer reads least."""
    words = model.vocabulary.word_vectors().float()
    words = words if model.vocabulary.scale is None else words * model.vocabulary.scale
    directions = torch.linalg.eigh(words.T @ words).eigenvectors  # weakest first
    weakest = directions[:, : max(1, round(WEAKEST * len(directions)))]
    values = model.layers[-1].values[: model.description.keys].float()
    return float(((values @ weakest).square().sum(1) > MUCH * values.square().sum(1)).float().mean())


QUANTITIES = {
    "saved": Quantity(
        "layers after which no layer changes the prediction any more",
        "[Geva et al. 2022](https://aclanthology.org/2022.emnlp-main.3): an exit rule saves 20 % of computation",
        saved,
    ),
    "nonzero": Quantity(
        "coefficients above zero after a ReLU, mean",
        "[Li et al. 2023](https://arxiv.org/abs/2210.06313): 3.0 % in T5-Base, fewer in larger models",
        nonzero,
    ),
    "dead": Quantity(
        "keys that never fire, in the layer with most of them",
        "[Voita et al. 2024](https://arxiv.org/abs/2309.04827): more than 70 % in some layers of OPT-66B",
        dead,
    ),
    "controlled": Quantity(
        "predictions that change without one layer's 20 largest memories",
        "[Arora et al. 2026](https://arxiv.org/abs/2601.22594): some 10² neurons, of all layers, control agreement of "
        "subject and verb",
        controlled,
    ),
    **{
        f"{name}_{half}": Quantity(
            f"{half} half of the layers: memories that {says}",
            GERSTNER if (name, half) == ("strengthen", "lower") else "the same",
            partial(of, upper=half == "upper"),
            "weights",
        )
        for name, says, of in (
            ("strengthen", "write what they read (cosine above ½)", strengthen),
            ("weaken", "write against what they read (below −½)", weaken),
        )
        for half in ("lower", "upper")
    },
    "hardly_read": Quantity(
        "values of the last layer with over 10 % of their squared length in the 2 % of directions that the output "
        "layer reads least",
        "[Stolfo et al. 2024](https://arxiv.org/abs/2406.16254): some neurons write into its null space",
        hardly_read,
        "weights",
    ),
    "gate_by_cosine": Quantity(
        "correlation of the cosine of what a gated memory reads and writes with how often its gate is positive, mean "
        "over layers",
        "[Gerstner and Schütze 2026](https://arxiv.org/abs/2602.23826): strongly negative",
        gate_by_cosine,
        "text",
        "correlation",
    ),
}


def of_models(results: Path, untrained: Sequence[str]) -> dict[str, list[float | None]]:
    """Return {quantity: its number in the run's model, and in each untrained one}, of those that no table gives."""
    own, found = results / "model" / "model.json", {name: [] for name, q in QUANTITIES.items() if q.reads != "tables"}
    seed, corpus = opened(results).config.seed, store.read(results / "corpus" / "corpus.safetensors")
    chosen = generator(seed, "later work").permutation(np.arange(corpus.train, len(corpus)))[:SENTENCES]
    sentences = [corpus.sentence(i) for i in chosen]
    with TemporaryDirectory() as folder, torch.inference_mode():
        for name in ("same_sample", *untrained):
            models.run(Settings({"seed": seed}), own, description := Path(folder, name, "model.json"))
            model = load_model(own.with_name("model.safetensors"), description, Execution(threads=1))
            for quantity, numbers in found.items():
                given = (model, sentences) if QUANTITIES[quantity].reads == "text" else (model,)
                numbers.append(QUANTITIES[quantity].of(*given))
    return found


def of_run(results: Path) -> list[dict[str, str]]:
    """Return the rows of a finished run: each quantity of its model, and the range over its untrained models."""
    info, rows = read_info(results / "model" / "info.json"), []
    untrained = sorted(results.glob("models/untrained-*/tables"))
    draws = [folder.parent.name for folder in untrained if info["parameters"] < LARGE]
    in_models = of_models(results, draws)
    for name, quantity in QUANTITIES.items():
        if quantity.reads == "tables":
            own, *random = [quantity.of(folder, info) for folder in (results / "tables", *untrained)]
        else:
            own, *random = in_models[name]
        random = [number for number in random if number is not None]
        ends = (min(random), max(random)) if random else (None, None)
        numbers = ["" if number is None else f"{number:.6g}" for number in (own, *ends)]
        rows.append(dict(zip(COLUMNS, (name, results.name, *numbers), strict=True)))
    return rows


def part(rows: Sequence[dict[str, str]]) -> str:
    """Return the table of the page."""
    runs = list(dict.fromkeys(row["run"] for row in rows))
    cells = {(row["quantity"], row["run"]): row for row in rows}

    def cell(row: dict[str, str]) -> str:
        unit = QUANTITIES[row["quantity"]].unit
        found, low, high = (float(row[name]) if row[name] else None for name in COLUMNS[2:])
        return measured(found, unit) + (f" ({spread(low, high, unit)})" if row["random_low"] else "")

    lines = [[q.question, q.paper, *(cell(cells[name, run]) for run in runs)] for name, q in QUANTITIES.items()]
    return table(["what", "there", *runs], lines)


def main(argv: Sequence[str] | None = None) -> None:
    parser = options(__doc__, ROOT / "docs" / "paper.md")
    parser.add_argument("--results", type=Path, nargs="+", help="folders of finished runs")
    args = parser.parse_args(argv)
    if args.results:
        write_rows(ROOT / KEPT, COLUMNS, (row for folder in args.results for row in of_run(folder)))
    page = (ROOT / "docs" / "paper.md").read_text(encoding="utf-8")
    renew(args.out, replaced(page, BEGIN, part(read_rows(ROOT / KEPT))), args.check)


if __name__ == "__main__":
    main()
