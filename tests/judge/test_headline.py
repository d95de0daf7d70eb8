"""The headline's numbers, recomputed from a run's tables by polars and numpy alone, without the code that judges."""

import json
import math
import tomllib

import numpy as np
import polars as pl
import pytest
from running import ROOT

EXACT, MOST, OF = 1e-6, 100, 5_000  # the most predictive values, of so many at least
RESAMPLED = "K12"  # of random networks: a ratio whose interval has no upper end does not count
FEWEST = 10  # tokens of the values that agree, to tell these from the others in random networks
# chance without a closed form: draws, and the most frequent token
DRAWN = dict.fromkeys(("K12", "K17", "K26", "K28"), "random_pairs") | dict.fromkeys(("K23", "K31"), "unigram")
TABLES = ROOT.glob("results/*/tables/claims.parquet")
RECORDED = [path.parents[1] for path in TABLES if "group" in pl.read_parquet_schema(path)]
DECLARED = [tomllib.loads(p.read_text(encoding="utf-8")) for p in ROOT.glob("src/ff_memories/paper/*/claims.toml")]
HEADLINE = {claim["id"] for section in DECLARED for claim in section["claim"] if claim.get("headline")}


def ratio(above, below):
    return above / below if below else None


def in_paper(layers, first, last):
    """The layers that stand where the paper's ``first`` to ``last`` of 16 do."""
    return [layer for layer in range(1, layers + 1) if first - 1 < layer * 16 / layers <= last]


def mutations(table):
    memory = [name for name in ("layer", "key", "sign") if name in table.columns]
    change = pl.max_horizontal(pl.col("change").cast(pl.Float64), pl.lit(-1.0))
    keys = table.group_by(*memory, "mutation").agg(change.mean()).pivot("mutation", index=memory, values="change")
    return {"K1": ((keys["last"] - keys["first"]).mean(), None)}


def area(score, hit):
    """The share of pairs of a hit and another in which the hit has the higher score; a tie is half a pair."""
    others, hits = np.sort(score[~hit]), score[hit]
    below = np.searchsorted(others, hits, "left") + np.searchsorted(others, hits, "right")
    return ratio(below.sum() / 2, len(others) * len(hits))


def weighted_area(score, hit):
    """The same if each row is a hit with a chance of its own."""
    order = np.argsort(score, kind="stable")
    score, hit, other = score[order], hit[order], 1 - hit[order]
    sums = np.concatenate([[0.0], np.cumsum(other)])
    below = sums[np.searchsorted(score, score, "left")] + sums[np.searchsorted(score, score, "right")]
    return ratio((hit * below).sum() / 2, hit.sum() * other.sum())


def values(table, layers, tokens):
    known, upper = table.filter(pl.col("agrees").is_not_null()), in_paper(layers, 11, 16)
    rates, agree, paired = {}, 0, 0.0
    for (layer,), part in known.group_by("layer"):
        rates[layer] = part["agrees"].mean()
        if layer in upper:
            tops, wanted = (dict(part[name].value_counts().iter_rows()) for name in ("top_token", "next_token"))
            agree += part["agrees"].sum()
            paired += sum(n * wanted.get(token, 0) for token, n in tops.items()) / len(part)
    wanted = {(at, token): n for at, token, n in known.group_by("layer", "next_token").len().iter_rows()}
    sizes = dict(known.group_by("layer").len().iter_rows())
    rows = known.select("layer", "top_token", "top_probability").iter_rows()
    by_chance = np.array([(score, wanted.get((at, top), 0) / sizes[at]) for at, top, score in rows]).reshape(-1, 2)
    enough = known.filter("agrees")["top_token"].n_unique() >= tokens
    own = area(known["top_probability"].to_numpy(), known["agrees"].to_numpy()) if enough else None
    above, below = ([rates[at] for at in span if at in rates] for span in (upper, in_paper(layers, 1, 8)))
    best = table.sort(["top_probability", "layer", "key"], descending=[True, False, False]).head(MOST)
    few = tokens > 1 and len(table) < OF  # of random networks, no number then
    agreeing = best.filter(pl.col("triggers") > 0).select((pl.col("agreeing_triggers") > 0).mean()).item()
    return {
        "K12": (ratio(np.mean(above), np.mean(below)), None),
        "K13": (ratio(agree, paired), 1.0),
        "K15": (own, weighted_area(*by_chance.T)),
        "K16": (best["layer"].is_in(upper).mean() if len(table) > MOST and not few else None, len(upper) / layers),
        "K17": (None if few else agreeing, None),
    }


def none_active(memories, same, active):
    """The chance that none of ``active`` memories drawn from all is among the ``same`` that predict one token."""
    log = lambda n: math.lgamma(n + 1)
    rest = memories - same - active
    return math.exp(log(memories - same) - log(rest) - log(memories) + log(memories - active)) if rest >= 0 else 0.0


def composition(table, of_values):
    lowest = table.group_by("layer").agg((pl.col("agreeing_memories") == 0).mean()).sort("agreeing_memories", "layer")
    layer, share = lowest.row(0)
    here, drawn = of_values.filter(layer=layer), table.filter(layer=layer).select("ffn_top", "active").iter_rows()
    tops = dict(here["top_token"].value_counts().iter_rows())
    chance = np.mean([none_active(len(here), tops.get(top, 0), active) for top, active in drawn])
    return {"K20": (share, chance if here["key"].max() < len(here) else None)}  # of a sample of memories, none is known


def refinement(table, layers):
    settled = lambda part: (part["residual_top"] == part["model_top"]).mean()
    of = dict(table["kind"].cast(pl.String).value_counts().iter_rows())
    third = of.get("composition", 0)
    changed = third + of.get("ffn", 0)
    early = table.filter(pl.col("layer").is_in(in_paper(layers, 1, 5)))
    return {"K23": (settled(early), None), "K31": (settled(table.filter(layer=layers)), None),
            "K26": (1 - changed / len(table), None), "K28": (ratio(third, changed), None)}  # fmt: skip


def recomputed(folder, layers, tokens=1):
    """Each claim's number, and what chance gives where that follows from the tables."""
    names = ("mutations", "values", "composition", "refinement")
    keys, own, composed, refined = (pl.read_parquet(folder / f"{name}.parquet") for name in names)
    return mutations(keys) | values(own, layers, tokens) | composition(composed, own) | refinement(refined, layers)


def check(run, least):
    """Compare; ``least``: so many numbers at least."""
    layers = json.loads((run / "model/info.json").read_text(encoding="utf-8"))["layers"]
    claims = {row["claim"]: row for row in pl.read_parquet(run / "tables/claims.parquet").iter_rows(named=True)}
    baselines = pl.read_parquet(run / "tables/baselines.parquet").cast({"baseline": pl.String})
    drawn = {(row["claim"], row["baseline"]): row["measured"] for row in baselines.iter_rows(named=True)}
    own = recomputed(run / "tables", layers)
    assert set(own) == HEADLINE
    folders = [path / "tables" for path in sorted(run.glob("models/untrained-*"))]
    models = [recomputed(folder, layers, FEWEST) for folder in folders]
    together = values(pl.concat(pl.read_parquet(folder / "values.parquet") for folder in folders), layers, FEWEST)
    for claim, (number, chance) in own.items():
        row, random = claims[claim], [of[claim][0] for of in models if of[claim][0] is not None]
        assert row["measured"] == pytest.approx(number, abs=EXACT), claim
        if number is not None:
            assert row["expected"] == pytest.approx(drawn.get((claim, DRAWN.get(claim)), chance), abs=EXACT), claim
        if claim != RESAMPLED:
            of_all = together.get(claim, (None,))[0]  # if no single one has a number
            assert row["baseline"] == pytest.approx(np.mean(random) if random else of_all, abs=EXACT), claim
    assert sum(number is not None for number, _ in own.values()) >= least


def test_the_headline_of_a_run_follows_from_its_tables(planted_run):
    check(planted_run / "results/planted", 9)


@pytest.mark.parametrize("run", RECORDED, ids=lambda run: run.name)
def test_so_does_that_of_a_recorded_run(run):
    check(run, 10)
