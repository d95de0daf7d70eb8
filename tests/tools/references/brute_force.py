"""Tables compared with a brute force in float64, one prefix at a time."""

import math

import torch


def check_sentences(run):
    _, _, sentences, frames = run
    lengths = [len(s) for split in ("train", "validation") for s in sentences[split]]
    assert frames["sentences"]["tokens"].to_list() == lengths
    assert frames["sentences"]["sentence"].to_list() == list(range(len(lengths)))


def rank(log_probabilities, token):
    return int((log_probabilities > log_probabilities[token]).sum())


def check_values(run):
    settings, reference, sentences, frames = run
    listed = {}
    for row in frames["triggers"].iter_rows(named=True):
        tokens = sentences["train"][row["sentence"]]
        if settings["values"]["target"] == "last":
            target = tokens[row["position"] - 1] if row["position"] else 0  # <s>
        else:
            target = row["next_token"]
        listed.setdefault((row["layer"], row["key"]), []).append(target)
    every = [block.fc2.weight.detach() for block in reference.blocks]
    mean = torch.cat([values.norm(dim=0) for values in every]).mean()
    assert frames["values"].height == sum(block.fc2.weight.shape[1] for block in reference.blocks)
    for row in frames["values"].iter_rows(named=True):
        value = every[row["layer"] - 1][:, row["key"]]
        value = value * mean / value.norm() if settings["values"].get("length") == "mean" else value
        logp = reference.log_probabilities(value)
        targets = listed.get((row["layer"], row["key"]), [])
        known = [t for t in targets if t is not None]
        assert row["triggers"] == len(known)
        assert row["next_token"] == (targets[0] if targets else None)
        kinds = {"all": logp, "trained": trained(logp)}
        for types, among in kinds.items():
            check_predicted(row, suffix_of(settings, types), among, targets, known)


def suffix_of(settings, types):
    """Return the suffix of the columns of some types: none of those that the config asks for."""
    return "" if settings["values"].get("types", "all") == types else f"_{types}"


def trained(log_probabilities):
    """Return them without those of the types that are never trained: the small dictionary counts all of its own."""
    out = log_probabilities.clone()
    out[:2] = -math.inf
    return out


def check_predicted(row, suffix, logp, targets, known):
    """Check what a value predicts among some types against their log-probabilities."""
    assert row["top_token" + suffix] == int(logp.argmax())
    assert math.isclose(row["top_probability" + suffix], math.exp(logp.max()), rel_tol=1e-4)
    assert row["agreeing_triggers" + suffix] == sum(t == row["top_token" + suffix] for t in known)
    if targets and targets[0] is not None:
        assert row["agrees" + suffix] == (targets[0] == row["top_token" + suffix])
        if logp[targets[0]] > -math.inf:
            assert row["next_token_rank" + suffix] == rank(logp, targets[0])
    else:
        assert row["next_token_rank" + suffix] is row["agrees" + suffix] is None


def check_composition(run):
    settings, reference, sentences, frames = run
    said = [[reference.log_probabilities(v) for v in b.fc2.weight.detach().t()] for b in reference.blocks]
    tops = [
        {"all": [int(p.argmax()) for p in layer], "trained": [int(trained(p).argmax()) for p in layer]}
        for layer in said
    ]
    rows = frames["composition"].join(frames["refinement"], on=["example", "layer"], suffix="_again")
    rows = rows.join(frames["examples"], on="example", suffix="_example").sort("example", "layer")
    assert rows.height == frames["examples"].height * len(reference.blocks)
    first, kinds = len(sentences["train"]), set()
    for _, part in rows.group_by("example", maintain_order=True):
        part = part.to_dicts()
        prefix = sentences["validation"][part[0]["sentence"] - first][: part[0]["position"]]
        layers = reference.layers(prefix)
        r, _, y = layers[-1]
        model_top = reference.top(r[-1] + y[-1], final=True)
        for row, (r, m, y), top in zip(part, layers, tops, strict=True):
            residual, ffn, output = r[-1], y[-1], r[-1] + y[-1]
            assert row["model_top"] == row["model_top_example"] == model_top
            assert row["residual_top"] == reference.top(residual, final=True)
            assert row["ffn_top"] == row["ffn_top_again"] == reference.top(ffn, final=True)
            assert row["output_top"] == row["output_top_again"] == reference.top(output, final=True)
            probability = float(reference.log_probabilities(residual, final=True)[model_top].exp())
            assert math.isclose(row["residual_probability"], probability, rel_tol=1e-3)
            active = [float(c) > 0 for c in m[-1]]
            assert row["active"] == sum(active)
            says = row["output_top" if settings["composition"]["layer_prediction"] == "output" else "ffn_top"]
            may = [True] * len(active) if settings["composition"]["memories"] == "all" else active
            for types, own in top.items():
                agreeing = sum(a and t == says for a, t in zip(may, own, strict=True))
                assert row["agreeing_memories" + suffix_of(settings, types)] == agreeing
            same = (row["output_top"] == row["residual_top"], row["output_top"] == row["ffn_top"])
            kind = {(True, True): "agreement", (True, False): "residual", (False, True): "ffn"}
            assert row["kind"] == kind.get(same, "composition")
            kinds.add(row["kind"])
    assert len(kinds) > 1
