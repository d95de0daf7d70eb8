"""Claims on models of `transformers`: what is judged, what is not defined, and what differs."""

import polars as pl

from ff_memories.judge.evidence import Evidence
from ff_memories.judge.register import register
from ff_memories.judge.verdicts import verdicts
from ff_memories.judge.wording import definition, line

CLAIMS = {claim.id: claim for claim in register()}
COMPOSITION = pl.DataFrame(
    {"example": [e for e in range(12) for _ in (1, 2)], "layer": [1, 2] * 12, "active": [50, 50] * 12,
     "effective": [8.0, 4.0] * 12, "ffn_top": [1] * 24, "output_top": [1] * 24, "agreeing_memories": [0] * 24}
)  # fmt: skip
INFO = {"scope": "model", "gated": True, "signs": 2, "activation": "silu", "final_norm": True, "readout_bias": False,
        "wiring": "sequential", "norm_after": False, "inactive_memories": False}  # fmt: skip


def of(**more):
    table = verdicts(register(), Evidence({"composition": COMPOSITION}, 2, 100, 50, **more), "model")
    return {row["claim"]: row for row in table.iter_rows(named=True)}


def test_active_memories_are_measured_with_relu_and_effective_ones_shown_without():
    with_relu, without = of(), of(inactive=False, activation="silu")
    assert (with_relu["K18"]["verdict"], with_relu["K18"]["measured"]) == ("undecided", 0.5)
    for claim, said in (("K18", "6 % of 100"), ("K19", "lowest in layer 2, with a median of 4")):
        assert (without[claim]["verdict"], without[claim]["measured"]) == ("not_applicable", None)
        assert "not defined with silu" in without[claim]["reason"] and said in without[claim]["reason"]


def test_what_differs_from_the_papers_definition_is_said_in_one_sentence():
    said = {claim: definition(CLAIMS[claim].rests_on, INFO) for claim in CLAIMS}
    assert "gate" in said["K1"] and "−v" in said["K1"] and said["K1"].count(". ") == 0
    assert "by construction" in said["K29"] and "measured" in definition(
        CLAIMS["K29"].rests_on, INFO | {"readout_bias": True}
    )
    assert "final norm" in said["K24"] and "did not read" not in said["K24"]
    assert "did not read" in definition(CLAIMS["K24"].rests_on, INFO | {"wiring": "parallel"})
    assert "every memory is active" in said["K20"] and "90 %" in definition(CLAIMS["K20"].rests_on, INFO, "share:0.9")
    relu = INFO | {"gated": False, "signs": 1, "inactive_memories": True, "final_norm": False}
    assert not definition(CLAIMS["K1"].rests_on, relu)
    assert not any(definition(CLAIMS[claim].rests_on, {"scope": "surrogate"}) for claim in CLAIMS)


def test_a_run_in_one_line_is_not_called_a_surrogate():
    assert line("x", "model", {"open": 1}) == "x (not the paper's model): 1 cannot tell"
