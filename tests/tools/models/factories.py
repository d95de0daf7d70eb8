"""Small real inputs: fairseq checkpoints built by fairseq itself, dictionaries and texts, all seeded."""

import argparse
import random
from pathlib import Path

import torch

from ff_memories.model.files import checkpoint, converted
from tools import fairseq_tools  # noqa: F401  (before fairseq)


def fairseq_dictionary(words):
    from fairseq.data import Dictionary

    dictionary = Dictionary()
    for count, word in enumerate(reversed(words), 1):
        dictionary.add_symbol(word, n=count)
    return dictionary


def words(n, seed=0):
    """n distinct made-up words and the marks that the rule segmenter cuts at."""
    rng = random.Random(seed)
    made = sorted({"".join(rng.choices("aeioubdgkl", k=5)) for _ in range(3 * n)})
    rng.shuffle(made)
    return [".", ",", "the", "?", *made[: n - 4]]


def write_dictionary(path, types):
    Path(path).write_text("".join(f"{w} {i}\n" for i, w in enumerate(types, 1)), encoding="utf-8")


def arguments(**options):
    """A transformer_lm's options, as fairseq-train would store them."""
    adaptive = options.pop("adaptive", True)
    defaults = dict(
        arch="transformer_lm", task="language_modeling", decoder_layers=3, decoder_embed_dim=16,
        decoder_ffn_embed_dim=24, decoder_attention_heads=2, tokens_per_sample=64, max_target_positions=64,
        dropout=0.0, attention_dropout=0.0, no_decoder_final_norm=True, decoder_layerdrop=0,
        decoder_layers_to_keep=None,
    )  # fmt: skip
    if adaptive:
        defaults |= dict(
            adaptive_input=True, adaptive_input_factor=2, adaptive_input_cutoff="12,24",
            adaptive_softmax_cutoff="12,24",
            adaptive_softmax_factor=2, adaptive_softmax_dropout=0.2, tie_adaptive_weights=True, tie_adaptive_proj=True,
        )  # fmt: skip
    return argparse.Namespace(**{**defaults, **options})


def fairseq_model(types, seed=1, scale=None, **options):
    """Build a random transformer_lm with the installed fairseq, in evaluation mode."""
    from fairseq.models.transformer_lm import TransformerLanguageModel

    torch.manual_seed(seed)
    args = arguments(**options)
    task = argparse.Namespace(source_dictionary=fairseq_dictionary(types), target_dictionary=fairseq_dictionary(types))
    model = TransformerLanguageModel.build_model(args, task).eval()
    with torch.no_grad():  # fairseq starts biases at 0 and norms at 1: make every parameter count
        for parameter in model.parameters():
            if parameter.dim() == 1:
                parameter.add_(torch.randn_like(parameter) * 0.3)
            elif scale:
                parameter.mul_(scale)
    return model, args


def write_checkpoint(path, types, seed=1, style="legacy", **options):
    """Write a checkpoint as fairseq does: ``legacy`` (args Namespace), ``fused`` (in_proj), ``current`` (cfg)."""
    model, args = fairseq_model(types, seed, **options)
    state = model.state_dict()
    content = {"args": args, "model": state, "optimizer_history": [], "extra_state": {"epoch": 1}}
    if style == "fused":
        for layer in range(args.decoder_layers):
            at = f"decoder.layers.{layer}.self_attn."
            for kind, name in (("weight", "in_proj_weight"), ("bias", "in_proj_bias")):
                state[at + name] = torch.cat([state.pop(f"{at}{p}_proj.{kind}") for p in "qkv"])
    if style == "current":
        content["args"] = None
        content["cfg"] = {
            "_name": None,
            "model": {**vars(args), "_name": "transformer_lm"},
            "task": {"_name": "language_modeling", "tokens_per_sample": args.tokens_per_sample},
        }
    torch.save(content, path, _use_new_zipfile_serialization=style != "fused")
    return model, args


def write_text(path, types, sentences, seed=0, longest=9, unknown=0.02):
    """Write sentences of random words, several to a line, with blank lines and headings between."""
    rng = random.Random(seed)
    plain, lines, left = types[2:3] + types[4:], [], sentences
    while left:
        if rng.random() < 0.1:
            lines += ["", f" = {rng.choice(plain)} = "]
            left -= 1
        line = []
        for _ in range(min(rng.randint(1, 3), left)):
            body = [("zzz" if rng.random() < unknown else rng.choice(plain)) for _ in range(rng.randint(1, longest))]
            line += [*body, "."]
            left -= 1
        lines.append(" " + " ".join(line) + " ")
    Path(path).write_text("\n".join(lines) + "\n", encoding="utf-8")


ODD = ["'s", "n't", "@-@", '"', "(", ")", "<unk>", "zzz", "&", "|", "etc.", "1,234", "a-b-c"]  # Moses changes most
PIECES = ["&apos;s", "&quot;", "@", "-", "(", ")", "unk", "&lt;", "&gt;", "@-@", "etc"]  # and some pieces are known


def drawn(folder, seed):
    """Write a model and texts of which all is drawn: shapes, cutoffs, ties, odd words; return (fairseq model, types).

    Some sentences have one token, some occur again, some begin alike, and some words only Moses or nobody knows.
    """
    rng = random.Random(seed)
    pieces = rng.sample(PIECES, rng.randint(4, len(PIECES)))
    types = [*words(rng.randint(24, 40), seed), *pieces]
    cutoffs = sorted(rng.sample(range(8, len(types)), rng.choice([1, 2])))
    tie = rng.random() < 0.7
    model, _ = write_checkpoint(
        folder / "model.pt", types, seed, decoder_layers=rng.randint(1, 3), decoder_embed_dim=rng.choice([8, 16]),
        decoder_ffn_embed_dim=rng.randint(5, 24), decoder_attention_heads=rng.choice([1, 2]),
        adaptive_input_cutoff=",".join(map(str, cutoffs)), adaptive_softmax_cutoff=",".join(map(str, cutoffs)),
        tie_adaptive_proj=tie, scale=rng.choice([None, 2.0]), no_decoder_final_norm=rng.random() < 0.7,
    )  # fmt: skip
    write_dictionary(folder / "dict.txt", types)
    for split, n in (("train", 70), ("validation", 25)):
        plain, lines = [t for t in types if t.isalpha()], []
        for _ in range(n):
            kind = rng.random()
            if kind < 0.1:
                lines.append(rng.choice([*plain, *ODD]))
            elif kind < 0.2 and lines:
                lines.append(rng.choice(lines))
            else:
                start = lines[-1].split()[:2] if lines and kind < 0.4 else []
                body = [rng.choice(ODD) if rng.random() < 0.15 else rng.choice(plain) for _ in range(rng.randint(1, 7))]
                lines.append(" ".join([*start, *body, *rng.choice([["."], ["!"], []])]))
        (folder / f"{split}.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")
    return model, types


def convert(path, weights_path, description_path) -> tuple[converted.Description, converted.Weights]:
    """Convert a fairseq checkpoint, as the workflow's step does; return what is loaded again."""
    converted.write(*checkpoint.read(path), weights_path, description_path)
    return converted.load(weights_path, description_path)
