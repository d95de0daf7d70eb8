"""The text's sentences; claims and what they are judged by: baselines, other choices, counts; the engine's speed."""

import polars as pl

from ff_memories.schema import LAYER, SENTENCE, Column, Schema

SAMPLED = "tokens_sampled_from_the_model"  # a reason in the table `counts` of the step `corpus`
# whether a model shows what the paper claims: {the answer: (the verdict on the paper's model, on other models)}
SHOWS = {
    "yes": ("reproduced", "holds"),
    "too_small": ("not_reproduced", "too_small"),
    "no": ("not_reproduced", "fails"),
    "undecided": ("undecided", "undecided"),
}
TRAINING = ("higher", "lower", "same", "undecided")  # a number against those of untrained models
GROUPS = ("signal", "common", "absent", "open")  # seen here, and in random networks too? not here; cannot tell
LIMITS = ("paper", "figure", "ours")  # where a claim's limit comes from
VERDICTS = ("reproduced", "not_reproduced", "holds", "too_small", "fails", "undecided", "measured", "not_applicable",
            "not_attempted")  # fmt: skip
VERDICT = pl.Enum(VERDICTS)
BASELINES = ("untrained", "same_sample", "together", "shuffled", "random_pairs", "unigram", "every_case")
NUMBER = Column(pl.Float64, null=True)
OF_EXAMPLES = ("active", "zero_agreement", "residual_predicts")  # numbers of the table `control`


def bounded(name: str) -> dict[str, Column]:
    """Return the columns of a number and of the ends of its interval."""
    return dict.fromkeys((name, f"{name}_low", f"{name}_high"), NUMBER)


TABLES = {
    "sentences": Schema(
        about="every sentence of the corpus and its place in the text files",
        by={"sentence": SENTENCE},
        fields={
            "split": Column(pl.Enum(["train", "validation"])),
            "file": Column(pl.String),
            "line": Column(pl.UInt32),
            "first_token": Column(pl.UInt32),
            "tokens": Column(pl.UInt16),
            # of sentences that begin or end inside a word: characters of it before the sentence, and of the sentence
            "first_character": Column(pl.UInt32, null=True, optional=True),
            "characters": Column(pl.UInt32, null=True, optional=True),
        },
    ),
    "control": Schema(
        about="untrained models of the same shape, on a sample of the text: number of keys that fire, agreement "
        "of their values, median share of active memories, share of examples with zero agreement, and "
        "share with a residual that predicts the output. Each number is a mean over the models; `_low` "
        "and `_high` are the extremes",
        by={"layer": LAYER},
        fields={
            "keys": Column(pl.UInt32),
            "agreement": NUMBER,
            "examples": Column(pl.UInt32),
            **dict.fromkeys(OF_EXAMPLES, Column(pl.Float64)),
            **dict.fromkeys(("agreement_low", "agreement_high"), NUMBER),
            **dict.fromkeys([f"{name}_{end}" for name in OF_EXAMPLES for end in ("low", "high")], Column(pl.Float64)),
        },
        compared="follows",
        measured=True,
    ),
    "counts": Schema(
        about="how many items each step skipped, split, cut or left unfilled, and why",
        by={"step": pl.String, "reason": pl.String},
        fields={"n": Column(pl.UInt64)},
        compared="follows",
        open_rows=True,
    ),
    "sensitivity": Schema(
        about="every claim under each alternative choice; the choice `baseline` is the run itself",
        by={"claim": pl.String, "choice": pl.String, "value": pl.String},
        fields={
            **dict.fromkeys(("measured", "low", "high"), Column(pl.Float64, null=True, compared="statistic")),
            "verdict": Column(VERDICT),
        },
    ),
    "baselines": Schema(
        about="every claim's measure on its baselines: untrained models, models whose matrices have the run's entries "
        "in a random order (`shuffled`), values paired with random keys, and guesses. `measured`, `low` and `high` are "
        "the mean and the extremes over `runs` seeds, `deviation` their standard deviation, `error` the standard error "
        "of one of them; `judged`, `judged_low` and `judged_high` are the same of the number that is judged. `models` "
        "were measured, and the claim holds in `holding` of them. `same_sample` is the run's own model on the smaller "
        "text of the untrained models; its `low` and `high` are its 95 % interval",
        by={"claim": pl.String, "baseline": pl.Enum(BASELINES)},
        fields={
            **dict.fromkeys(("measured", "low", "high"), NUMBER),
            **dict.fromkeys(("runs", "models", "holding"), Column(pl.UInt16)),
            **bounded("judged"),
            "deviation": NUMBER,
            "error": NUMBER,
        },
        compared="follows",
    ),
    "claims": Schema(
        about="every claim of the paper, with the value measured here and a verdict. `low` and `high` bound the "
        "interval, and `resampled` names its unit. `shows` says whether the model shows what the paper claims: "
        "`judged`, with its interval, against `limit`. `also_random` of `random_models` untrained models show it "
        "too, each judged as the run is; `group` is `signal` if the run shows it and they do not, `common` if they do "
        "too, `absent` if the run does not, and `open` if that cannot be told. `expected` is what chance gives: random "
        "pairs, or a base rate. `sample` is the number on the untrained models' sentences, "
        "`baseline` the mean of untrained models, with an interval for one more of them; `training` says whether the "
        "two differ, and `p_training` is its p-value after Holm's correction; `shuffled` is the number of a model with "
        "the entries of the run's matrices in a random order. `p` is the p-value of the one-sided test "
        "of the direction, if there is one, and `p_holm` the same after Holm's correction",
        by={"claim": pl.String},
        fields={
            **dict.fromkeys(("statement", "source", "paper_value"), Column(pl.String, compared="exact")),
            **dict.fromkeys(("measured", "low", "high"), NUMBER),
            "n": Column(pl.UInt64, null=True),
            "scope": Column(pl.Enum(["paper", "surrogate", "model"]), compared="exact"),
            "verdict": Column(VERDICT, compared="exact"),
            "shows": Column(pl.Enum(list(SHOWS)), null=True, compared="exact"),
            **bounded("judged"),
            "limit": NUMBER,
            "limit_source": Column(pl.Enum(LIMITS), null=True),
            "also_random": Column(pl.UInt16, null=True),
            "random_models": Column(pl.UInt16, null=True),
            "group": Column(pl.Enum(GROUPS), null=True, compared="exact"),
            "expected": NUMBER,
            "training": Column(pl.Enum(TRAINING), null=True),
            **bounded("sample"),
            **bounded("baseline"),
            "shuffled": NUMBER,
            "p_training": NUMBER,
            "resampled": Column(pl.String, null=True),
            "p": NUMBER,
            "p_holm": NUMBER,
            "reason": Column(pl.String, null=True),
        },
        compared="follows",
    ),
}
