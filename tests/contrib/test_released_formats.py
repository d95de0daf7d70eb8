"""Exports in the released formats, against a literal rendering of what the released scripts write."""

import html
import json
import math

import numpy as np
import polars as pl
import pytest
import torch
from contributed import use
from factories import words
from pipeline import config, run_steps, write_inputs
from reference import Reference, rule_sentences
from released_columns import measured, script_softmax
from safetensors.torch import load_file
from scorer import scorer_tokens

from contrib.released_code.agreement_script import target
from contrib.released_code.texts import printer
from ff_memories.corpus.text import moses
from ff_memories.model.files import checkpoint

TYPES = [*words(40)[:36], "&apos;s", "@", "-", "unk", "&lt;", "&gt;"]
TOP = 6


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("exports")
    model = write_inputs(folder, TYPES, seed=8, train=120, decoder_layers=2)
    model.decoder.layers[0].fc1.bias.data[:2] = -1e4  # keys that never fire
    torch.save(
        {"args": checkpoint.load_pickle(folder / "model.pt")["args"], "model": model.state_dict()}, folder / "model.pt"
    )
    plain = TYPES[4:30]
    odd = [f"{plain[1]} 's {plain[2]} @-@ {plain[3]} <unk> .", f"{plain[4]}-{plain[5]} {plain[6]} {plain[7]} ."]
    with (folder / "train.txt").open("a", encoding="utf-8") as file:
        file.write("\n".join(odd * 3) + "\n")
    settings = config(fidelity="released", triggers__top=TOP)
    out = run_steps(folder, settings)
    model_ = ["--weights", out / "model.safetensors", "--description", out / "model.json"]
    texts = ["--sentences", out / "sentences.parquet"]
    use("released_code", "triggers", "--triggers", out / "triggers.parquet", *texts, "--info", out / "info.json",
        "--top", TOP, "--out", out / "triggers.jsonl")  # fmt: skip
    use("released_code", "texts", "--jsonl", out / "triggers.jsonl", "--out", out / "texts")
    use("released_code", "agreement", *model_, "--texts", out / "texts", "--dictionary", folder / "dict.txt",
        "--projection-seed", 7, "--projections", out / "projections.safetensors", "--out",
        out / "agreement")  # fmt: skip
    examples = [*model_, "--corpus", out / "corpus.safetensors", "--examples", out / "examples.parquet", *texts]
    for name in ("layer", "dim"):
        use("released_code", name, *examples, "--device", "cpu", "--threads", 1, "--out", out / f"{name}.parquet")
    return folder, out, Reference(model, TYPES)


@pytest.fixture(scope="module")
def released(run):
    """The released trigger search, literally: arrays of zeros, the least entry replaced by what is greater."""
    folder, _, reference = run
    sentences = [" ".join(s) for s in rule_sentences(folder / "train.txt")]
    layers, keys = len(reference.blocks), reference.blocks[0].fc1.weight.shape[0]
    values = np.zeros((layers, TOP, keys))
    positions, numbers = np.zeros((layers, TOP, keys)), np.zeros((layers, TOP, keys), dtype=int)
    least = np.zeros((layers, keys), dtype=int)
    once = {}
    for number, text in enumerate(sentences):
        tokens = reference.encode(scorer_tokens(text))
        for layer, (r, _, _) in enumerate(reference.layers(tokens)):
            block = reference.blocks[layer]
            with torch.no_grad():
                raw = block.fc1(block.final_layer_norm(r))[: len(tokens)]
            # the same prefix has one value, whatever follows it
            raw = torch.stack([once.setdefault((layer, *tokens[:p]), raw[p]) for p in range(len(raw))])
            best, where = raw.max(0)
            for key in range(keys):
                at = least[layer, key]
                if best[key] > values[layer, at, key]:
                    values[layer, at, key] = best[key]
                    positions[layer, at, key], numbers[layer, at, key] = where[key], number
                    least[layer, key] = values[layer, :, key].argmin()
    return sentences, values, positions, numbers


def test_triggers_are_those_of_the_released_search(run, released):
    _, out, _ = run
    sentences, values, positions, numbers = released
    lines = [json.loads(line) for line in (out / "triggers.jsonl").read_text(encoding="utf-8").splitlines()]
    assert [line["dim"] for line in lines] == list(range(values.shape[2]))
    empty = 0
    for line in lines:
        assert len(line["top_values"]) == values.shape[0]
        for layer, records in enumerate(line["top_values"]):
            key = line["dim"]
            assert [r["rank"] for r in records] == list(range(TOP))
            assert {r["layer_index"] for r in records} == {layer}
            expected = sorted(values[layer, :, key], reverse=True)
            for record, value in zip(records, expected, strict=True):
                assert math.isclose(record["fc1_value"], value, rel_tol=1e-4)
                assert record["text"] in sentences
            # which of equal values is kept or comes first is not determined there; where all differ, all is
            if len(set(expected)) == TOP and expected[-1] > 0:
                order = values[layer, :, key].argsort()[::-1]
                got = [(r["text"], r["token_indice"]) for r in records]
                assert got == [(sentences[numbers[layer, i, key]], positions[layer, i, key]) for i in order]
            empty += sum(r["fc1_value"] == 0.0 for r in records)
            assert all(r["text"] == sentences[0] and r["token_indice"] == 0 for r in records if r["fc1_value"] == 0.0)
    assert empty


def test_every_key_has_its_text_file_with_the_next_token_starred(run):
    from sacremoses import MosesTokenizer

    _, out, reference = run
    printer, seen = MosesTokenizer(lang="en"), 0
    for line in (out / "triggers.jsonl").read_text(encoding="utf-8").splitlines():
        record = json.loads(line)
        for layer, triggers in enumerate(record["top_values"]):
            shown = (out / "texts" / f"{record['dim']}_{layer}.txt").read_text(encoding="utf-8").split("\n")[:-1]
            assert len(shown) == len(triggers) == TOP
            for row, trigger in zip(shown, triggers, strict=True):
                value, text = row.split("\t")
                assert value == str(trigger["fc1_value"])
                tokens = printer.tokenize(trigger["text"])[: int(trigger["token_indice"]) + 1]
                assert text == " ".join([*tokens[:-1], f"*{tokens[-1]}*"])
                seen += 1
    assert seen == TOP * len(reference.blocks) * reference.blocks[0].fc1.weight.shape[0]


def test_agreement_is_what_the_released_script_tabulates(run):
    _, out, reference = run
    drawn = load_file(out / "projections.safetensors")
    bands = [reference.model.decoder.embed_tokens.weights_for_band(i)[0] for i in range(3)]

    @torch.no_grad()
    def log_probabilities(v):
        head = torch.log_softmax(torch.cat([bands[0] @ v, drawn["class_proj"].double() @ v]), 0)
        tails = [torch.log_softmax(bands[k + 1] @ (drawn[f"tail.{k}"].double() @ v), 0) for k in (0, 1)]
        return torch.cat([head[:12], *(t + head[12 + k] for k, t in enumerate(tails))])

    table = pl.read_csv(out / "agreement.tsv", separator="\t")
    assert table.columns == ["layer", "W2_dim", "max_prob", "embedding_index", "embedding_token",
                             "embedding_token_target_count", "target_rankings"]  # fmt: skip
    vocab = ["<s>", "<pad>", "</s>", "<unk>", *TYPES]
    maxima = json.loads((out / "agreement_max_probs.json").read_text())
    for row in table.iter_rows(named=True):
        value = reference.blocks[row["layer"]].fc2.weight[:, row["W2_dim"]].detach()
        logp = log_probabilities(value)
        assert row["embedding_index"] == int(logp.argmax())
        assert row["embedding_token"] == vocab[row["embedding_index"]]
        assert math.isclose(row["max_prob"], float(logp.max().exp()), rel_tol=1e-4)
        assert maxima[row["layer"]][row["W2_dim"]] == row["max_prob"]
        lines = (out / "texts" / f"{row['W2_dim']}_{row['layer']}.txt").read_text(encoding="utf-8").split("\n")[:-1]
        found = []
        for line in lines:
            tokens = line.split("\t")[1].split(" ")
            word = html.unescape(tokens[-2]) if len(tokens) > 1 else "<s>"
            found.append(f"<{word}>" if word in ("unk", "pad") else word)
        assert row["embedding_token_target_count"] == found.count(row["embedding_token"])
        ids = [vocab.index(w) if w in vocab else 3 for w in found]
        assert sorted(json.loads(row["target_rankings"])) == sorted(int((logp > logp[i]).sum()) for i in ids)


@pytest.fixture(scope="module")
def script(run):
    """What each layer's values predict by the released script's softmax, whose weights are kept."""
    _, out, reference = run
    softmax = script_softmax(reference.model.decoder.embed_tokens, 7)
    torch.save(softmax.state_dict(), out / "softmax.pt")
    with torch.no_grad():
        return [softmax.get_log_prob(b.fc2.weight.float().T.unsqueeze(0), None).squeeze() for b in reference.blocks]


def agreement(out, folder, name, *options):
    model = ["--weights", out / "model.safetensors", "--description", out / "model.json"]
    use("released_code", "agreement", *model, "--texts", out / "texts", "--dictionary", folder / "dict.txt", *options,
        "--out", out / name)  # fmt: skip
    return pl.read_csv(out / f"{name}.tsv", separator="\t")


def test_a_seed_means_what_it_would_in_the_released_script_dropout_included(run, script):
    folder, out, _ = run
    table = agreement(out, folder, "dropped", "--dropout", "--projection-seed", 7)
    ids = {w: i for i, w in enumerate(["<s>", "<pad>", "</s>", "<unk>", *TYPES])}
    for row in table.iter_rows(named=True):
        logp = script[row["layer"]][row["W2_dim"]]
        assert row["embedding_index"] == int(logp.argmax())
        assert math.isclose(row["max_prob"], float(logp.max().exp()), rel_tol=1e-4)
        lines = (out / "texts" / f"{row['W2_dim']}_{row['layer']}.txt").read_text(encoding="utf-8").split("\n")[:-1]
        order = logp.argsort(descending=True).tolist()
        expected = [order.index(ids.get(target(line.split("\t")[1]), 3)) for line in lines]
        assert sorted(json.loads(row["target_rankings"])) == sorted(expected)
    calm = pl.read_csv(out / "agreement.tsv", separator="\t")
    assert not table.equals(calm)  # dropout moves ranks
    assert table.select("layer", "W2_dim").equals(calm.select("layer", "W2_dim"))


def test_projections_drawn_elsewhere_are_taken(run, script):
    folder, out, _ = run
    drawn = pl.read_csv(out / "agreement.tsv", separator="\t")
    for given in ("softmax.pt", "projections.safetensors"):
        assert agreement(out, folder, "given", "--projections-from", out / given, "--projection-seed", 3).equals(drawn)
    assert not agreement(out, folder, "other", "--projection-seed", 3).equals(drawn)


@pytest.mark.parametrize(
    "record, word",
    [("a b *c*", "b"), ("*a*", "<s>"), ("it &apos; *s*", "'"), ("&lt; unk *&gt;*", "<unk>"), ("pad *x*", "<pad>")],
)
def test_a_records_target_is_the_token_before_the_starred_one(record, word):
    assert target(record) == word


def test_the_dim_columns_come_as_lists_and_pairs(run):
    _, out, reference = run
    frame, examples = pl.read_parquet(out / "dim.parquet"), pl.read_parquet(out / "examples.parquet")
    layer, dim = measured(out)
    last, ordered = layer.filter(layer=len(reference.blocks)).sort("example"), dim.sort("example", "key")
    assert frame["random_pos"].to_list() == examples["position"].to_list()
    known = ordered["coeffs_vals"].to_list()
    assert frame["coeffs_vals"].explode().to_list() == pytest.approx(known, rel=1e-4, abs=1e-6)
    assert frame["dim_pattern_preds"].explode().to_list() == ordered["dim_pattern_preds"].to_list()
    pairs = list(zip(last["residual_argmax"], last["ffn_argmax"], strict=True))
    assert [tuple(p) for p in frame["residual_ffn_argmax"]] == pairs


@pytest.mark.parametrize("suffix", ["parquet", "jsonl", "pkl"])
def test_data_frames_have_the_released_columns_in_the_released_order(run, suffix):
    import pandas

    _, out, reference = run
    given = ["--weights", out / "model.safetensors", "--description", out / "model.json", "--corpus",
             out / "corpus.safetensors", "--examples", out / "examples.parquet", "--sentences",
             out / "sentences.parquet", "--device", "cpu"]  # fmt: skip
    use("released_code", "layer", *given, "--distributions", "--out", out / f"full.{suffix}")
    use("released_code", "dim", *given, "--out", out / f"full_dim.{suffix}")
    read = {"parquet": lambda p: pl.read_parquet(p).to_dicts(), "jsonl": lambda p: pl.read_ndjson(p).to_dicts(),
            "pkl": lambda p: pandas.read_pickle(p).to_dict("records")}[suffix]  # fmt: skip
    layer, dim = read(out / f"full.{suffix}"), read(out / f"full_dim.{suffix}")
    assert " ".join(layer[0]) == (
        "text output_dist_vals layer_output_argmax layer_output_argmax_prob residual_argmax residual_argmax_prob "
        "residual_argmax_change residual_output_rank residual_output_prob ffn_matching_dims_count ffn_output_rank "
        "ffn_output_prob ffn_residual_output_rank ffn_residual_output_prob ffn_argmax ffn_argmax_prob coeffs_l0 "
        "coeffs_residual_rank random_pos"
    )
    assert " ".join(dim[0]) == (
        "text residual_ffn_output_rank residual_ffn_output_prob residual_ffn_argmax residual_ffn_argmax_prob "
        "ffn_residual_output_rank ffn_residual_output_prob dim_pattern_preds dim_pattern_output_rank "
        "dim_pattern_ffn_output_rank dim_pattern_ffn_output_prob coeffs_vals random_pos"
    )
    for row in layer[:6]:
        tokens = reference.encode(scorer_tokens(row["text"]))[: row["random_pos"]]
        r, _, y = reference.layers(tokens)[-1]
        expected = reference.log_probabilities(r[-1] + y[-1], final=True).exp()
        assert np.allclose(row["output_dist_vals"], expected, rtol=1e-3, atol=1e-7)
        assert row["layer_output_argmax"][-1] == int(np.argmax(row["output_dist_vals"]))


def test_tokens_are_those_of_fairseqs_hub_interface():
    """The released scorer encodes by fairseq's wrapper of Moses; its printer calls Moses plainly."""
    from argparse import Namespace

    from factories import ODD
    from fairseq.data.encoders.moses_tokenizer import MosesTokenizer

    hub = MosesTokenizer(Namespace(moses_no_dash_splits=False, moses_no_escape=False))
    rng = np.random.default_rng(0)
    pieces = [*ODD, "word", "Mr.", "U.S.", "x.", "…", "[", "é-è", "日本語", "<b>", "$5", "'", "--", "a\u00a0b", "it's"]
    for _ in range(300):
        text = " ".join(rng.choice(pieces, rng.integers(1, 9)))
        assert moses()(text) == hub.encode(text).split()
        assert printer()(text) == hub.tok.tokenize(text)
