"""The released code's columns, computed literally."""

import math

import polars as pl
import torch

from contrib.released_code import columns
from ff_memories import tables
from ff_memories.corpus import store
from ff_memories.model.decoder import Decoder
from ff_memories.model.files import converted


def measured(out):
    """The 'layer' and 'dim' columns of a run's examples, with the examples' places."""
    decoder = Decoder(*converted.load(out / "model.safetensors", out / "model.json"))
    examples = tables.read(out / "examples.parquet")
    found = columns.columns(decoder, store.read(out / "corpus.safetensors"), examples, 16_384)
    return [frame.join(examples, on="example") for frame in found]


def literal(reference, tokens):
    """The 'layer' columns at the last position of a prefix, as the released scorer computes them."""
    layers, rows = reference.layers(tokens), []
    model_top = int(reference.log_probabilities(layers[-1][0][-1] + layers[-1][2][-1]).argmax())
    for block, (r, m, y) in zip(reference.blocks, layers, strict=True):
        r, m, y = r[-1], m[-1], y[-1]
        output, residual, ffn = (reference.log_probabilities(h).exp() for h in (r + y, r, y))
        rank = lambda p, token: int((p > p[token]).sum())
        values = block.fc2.weight.detach()
        weights = [*(m * values.norm(dim=0)).tolist(), float(r.norm())]
        scaled = [int(reference.log_probabilities(values[:, i] * m[i]).argmax()) for i in range(len(m))]
        top = int(output.argmax())
        rows.append(
            {
                "layer_output_argmax": top,
                "layer_output_argmax_prob": float(output.max()),
                "residual_argmax": int(residual.argmax()),
                "residual_argmax_prob": float(residual.max()),
                "residual_argmax_change": int(top != int(ffn.argmax())),
                "residual_output_rank": rank(residual, model_top),
                "residual_output_prob": float(residual[model_top]),
                "ffn_matching_dims_count": sum(s == top for s in scaled),
                "ffn_output_rank": rank(ffn, model_top),
                "ffn_output_prob": float(ffn[model_top]),
                "ffn_residual_output_rank": rank(ffn, int(residual.argmax())),
                "ffn_residual_output_prob": float(ffn[int(residual.argmax())]),
                "ffn_argmax": int(ffn.argmax()),
                "ffn_argmax_prob": float(ffn.max()),
                "coeffs_l0": sum(w > 0 for w in weights),
                "coeffs_residual_rank": sorted(range(len(weights)), key=lambda i: -weights[i]).index(len(weights) - 1),
            }
        )
    return rows


def script_softmax(embeddings, seed):
    """The released script's softmax by fairseq itself: made after a seed, embeddings loaded, in training mode."""
    from fairseq.modules.adaptive_input import AdaptiveInput
    from fairseq.modules.adaptive_softmax import AdaptiveSoftmax

    (*cutoff, types), d = embeddings.cutoff, embeddings.embedding_dim
    torch.manual_seed(seed)
    own = AdaptiveInput(types, 0, d, 2, d, cutoff)
    own.load_state_dict(embeddings.state_dict())
    return AdaptiveSoftmax(types, d, cutoff, 0.2, adaptive_inputs=own)


def assert_cells(rows, expected):
    """Each row, layer after layer, has the expected cells."""
    for got, cells in zip(rows, expected, strict=True):
        for name, value in cells.items():
            if isinstance(value, float):
                assert math.isclose(got[name], value, rel_tol=1e-3, abs_tol=1e-7), name
            else:
                assert got[name] == value, name


def check_dim_columns(reference, out, frame):
    """Compare the first examples' cells; return how many ranks only the order of equals decides."""
    corpus, block = store.read(out / "corpus.safetensors"), reference.blocks[-1]
    values = block.fc2.weight.detach()
    assert frame["layer"].unique().to_list() == [len(reference.blocks)]
    # as the released code finds a rank: among equals, the lower id comes first
    rank = lambda logp, token: logp.argsort(descending=True, stable=True).tolist().index(token)
    silent = 0
    for _, part in frame.filter(pl.col("example") < 12).sort("example", "key").group_by("example"):
        part = part.sort("key").to_dicts()
        assert len(part) == values.shape[1] + 1
        tokens = corpus.sentence(part[0]["sentence"])[: part[0]["position"]].tolist()
        own = literal(reference, tokens)[-1]
        r, m, y = (h[-1] for h in reference.layers(tokens)[-1])
        model_top, ffn_top = int(reference.log_probabilities(r + y).argmax()), own["ffn_argmax"]
        for i, row in enumerate(part[:-1]):
            logp = reference.log_probabilities(values[:, i] * m[i])
            assert math.isclose(row["coeffs_vals"], float(m[i] * values[:, i].norm()), rel_tol=1e-3, abs_tol=1e-6)
            assert row["dim_pattern_preds"] == int(logp.argmax())
            assert row["dim_pattern_output_rank"] == rank(logp, model_top)
            assert row["dim_pattern_ffn_output_rank"] == rank(logp, ffn_top)
            assert math.isclose(row["dim_pattern_ffn_output_prob"], float(logp[ffn_top].exp()), rel_tol=1e-3)
            silent += m[i] == 0 and row["dim_pattern_output_rank"] > int((logp > logp[model_top]).sum())
        assert math.isclose(part[-1]["coeffs_vals"], float(r.norm()), rel_tol=1e-4)
        assert part[-1]["dim_pattern_preds"] == own["residual_argmax"]
        assert part[-1]["dim_pattern_output_rank"] == own["residual_output_rank"]
        assert part[-1]["dim_pattern_ffn_output_rank"] is part[-1]["dim_pattern_ffn_output_prob"] is None
    return silent
