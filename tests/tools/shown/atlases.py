"""Small finished runs with known numbers, for atlases."""

import json
from pathlib import Path

import polars as pl
import yaml
from running import ROOT

from ff_memories import tables
from ff_memories.judge.register import register

VOCAB, NEURONS = 8, 4
CLAIMS = {"K1": ("holds", -0.5, "signal"), "K4": ("holds", 0.1, "common"), "K12": ("fails", 1.25, "absent"),
          "K13": ("undecided", 3.0, "open"), "K29": ("holds", 0.0, None)}  # fmt: skip
LABELS = [["shallow", "none"], ["both"], ["semantic"], ["none"]]  # of the triggers of keys 0 to 3
RANKS = {1: [0, 2, 4, 7], 2: [0, 0, 1, 1]}
CHANGES = [[-0.5, -0.7], [-0.2], [-0.3]]  # of the triggers of keys 0 to 2, without their last tokens
KINDS = ["residual", "residual", "agreement", "ffn"]
EFFECTS = [(1.0, 0.5), (-2.0, -0.7)]  # of keys 0 and 1, direct and total: 1.2 of 3 is left
STAYS = [True, True, True, False]  # whether a prediction stays without its largest memory, by prefix


def frames(layers=2, agreeing=1, annotator="proxy"):
    """Tables of a run: of 4 values in layer 1, ``agreeing`` agree, and in the other layers none."""
    every = range(1, layers + 1)
    values = [
        {"layer": layer, "key": key, "top_token": key, "top_probability": 0.5,
         "next_token": key if layer == 1 and key < agreeing else (key + 1) % NEURONS,
         "next_token_rank": RANKS[min(layer, 2)][key], "agrees": layer == 1 and key < agreeing,
         "agreeing_triggers": 0, "triggers": 1}
        for layer in every for key in range(4)
    ]  # fmt: skip
    mutations = [
        {"layer": layer, "key": key, "rank": rank, "mutation": mutation, "removed": 0, "coefficient": 1.0,
         "mutated": 1 + change, "change": change if mutation == "last" else 0.9}
        for layer in every for key, own in enumerate(CHANGES) for rank, change in enumerate(own, 1)
        for mutation in ("first", "last", "random")
    ]  # fmt: skip
    composition = [
        {"example": example, "layer": layer, "active": 2, "ffn_top": 1, "output_top": 1, "agreeing_memories": 0,
         "effective": effective}
        for layer in every for example, effective in enumerate([1.0, 2.0, 6.0])
    ]  # fmt: skip
    refinement = [
        {"example": example, "layer": layer, "residual_top": 1 if example else 2, "ffn_top": 1, "output_top": 1,
         "model_top": 1, "residual_probability": 0.5, "kind": kind}
        for layer in every for example, kind in enumerate(KINDS)
    ]  # fmt: skip
    labels = [
        {"annotator": annotator, "layer": layer, "key": key, "rank": rank, "label": label}
        for layer in every for key, own in enumerate(LABELS) for rank, label in enumerate(own, 1)
    ]  # fmt: skip
    causal = [
        {"layer": layer, "key": key, "prefix": 5, "intervention": "mean", "control": control, "matched_key": None,
         "other_prefix": None, "coefficient": 1.0, "set_to": 0.5, "direct": direct,
         "total": total if control == "none" else 0.0, "total_frozen": total, "other_total": 0.0,
         "top_log_probability": 0.0, "loss": 0.0, "kl": 0.0, "top_changed": False}
        for layer in every for key, (direct, total) in enumerate(EFFECTS) for control in ("none", "matched")
    ]  # fmt: skip
    removals = [
        {"layer": layer, "prefix": prefix, "by": by, "removed": 1, "share": 0.5, "layer_top_changed": not stays,
         "top_changed": False, "top_log_probability": 0.0, "loss": 0.0, "kl": 0.0}
        for layer in every for prefix, kept in enumerate(STAYS) for by, stays in (("margin", kept), ("size", False))
    ]  # fmt: skip
    rows: dict[str, list[dict]] = {
        "values": values, "mutations": mutations, "composition": composition, "refinement": refinement,
        "pattern_labels": labels, "causal": causal, "removals": removals,
    }  # fmt: skip
    return {name: pl.DataFrame(own, schema=columns(name, own)) for name, own in rows.items()}


def columns(name, rows):
    return {column: (tables.TABLES[name].columns | tables.TABLES[name].optional)[column] for column in rows[0]}


def finished(project: Path, name: str, layers=2, agreeing=1, transformer=True, config=True, untrained=(2, 0), **keys):
    """Write a finished run with its config into a project's folder; return the run's folder.

    ``keys``: sections of its config with the keys to change.
    """
    folder = project / "results" / name
    for table, frame in frames(layers, agreeing).items():
        tables.write(frame, folder / "tables" / f"{table}.parquet")
    for seed, own in enumerate(untrained, 1):
        for table, frame in frames(layers, own).items():
            inside = "proxy" if table == "pattern_labels" else "tables"
            tables.write(frame, folder / "models" / f"untrained-{seed}" / inside / f"{table}.parquet")
    info: dict = {"scope": "model" if transformer else "surrogate", "layers": layers, "keys": 2 * NEURONS, "signs": 2,
            "neurons": NEURONS, "vocab": VOCAB, "adaptive_output": False, "final_norm": True, "max_positions": 9,
            "model_type": "llama", "activation": "silu", "gated": True}  # fmt: skip
    if not transformer:
        info |= {"keys": NEURONS, "signs": 1}
    (folder / "model").mkdir(parents=True)
    (folder / "model" / "info.json").write_text(json.dumps(info))
    claims: dict = {claim.id: ("measured", None, None) for claim in register()} | CLAIMS
    said = {claim: dict(zip(("verdict", "measured", "group"), row, strict=True)) for claim, row in claims.items()}
    (folder / "claims.json").write_text(json.dumps(said))
    if config:
        write_config(project, name, transformer, **keys)
    return folder


def write_config(project: Path, name: str, transformer=True, **keys):
    """Write a run's config, as the demo's but for ``keys``; return its path."""
    data = yaml.safe_load((ROOT / "config" / ("demo-gpt2.yaml" if transformer else "config.yaml")).read_text())
    data["run"] = name
    data["model"]["files" if transformer else "sha256"] = {} if transformer else None
    for section, own in keys.items():
        data[section] = data.get(section, {}) | own if isinstance(own, dict) else own
    path = project / "config" / f"{name}.yaml"
    path.parent.mkdir(exist_ok=True)
    path.write_text(yaml.safe_dump(data))
    return path
