"""Whole models of fairseq and `transformers` in float64, run one prefix at a time with a change."""

import contextlib

import numpy as np
import tiny
import torch
from factories import convert, words, write_checkpoint

from ff_memories.corpus.dictionary import EOS
from ff_memories.corpus.store import Corpus
from ff_memories.model.decoder import Decoder


def corpus_of(types, seed=0, sentences=60):
    rng = np.random.default_rng(seed)
    lengths = rng.integers(1, 12, sentences)
    offsets = np.concatenate([[0], np.cumsum(lengths)])
    return Corpus(rng.integers(4, types, offsets[-1]).astype(np.int32), offsets, 10)


def scale_of(norm):
    return 1 + norm.weight if "Gemma" in type(norm).__name__ else norm.weight


def held(norm, change, at):
    """A change behind a norm whose deviation is held at ``at``."""
    if isinstance(norm, torch.nn.LayerNorm):
        return norm.weight * (change - change.mean()) / (at.var(unbiased=False) + norm.eps).sqrt()
    epsilon = norm.variance_epsilon if hasattr(norm, "variance_epsilon") else norm.eps
    return scale_of(norm) * change / (at.square().mean() + epsilon).sqrt()


class OfTransformers:
    """The whole model of `transformers`, with eager attention."""

    def __init__(self, name):
        self.made, self.row = tiny.model(name, torch.float64), tiny.family(name)
        signs = 2 if self.row.gated else 1
        self.decoder = tiny.analysed(self.made, signs=signs)
        self.blocks, self.start = self.made.get_submodule(tiny.layers_at(self.made)), tiny.START
        self.norm = self.made.get_submodule(self.row.final_norm)

    def down(self, layer):
        return self.blocks[layer - 1].get_submodule(self.row.down)

    def value(self, layer, memory):
        weight = self.down(layer).weight
        values = weight if self.row.architecture == "GPT2LMHeadModel" else weight.t()
        return values[memory % len(values)] * (1 if memory < len(values) else -1)

    def run(self, prefix):
        """Return m by layer at the last token, the outcome of ``down`` there, the final hidden state and the logits."""
        seen, hooks = {}, []
        for layer in range(1, tiny.LAYERS + 1):
            keep = lambda _, args, layer=layer: seen.__setitem__(layer, args[0].flatten(0, -2)[-1].clone())
            hooks.append(self.down(layer).register_forward_pre_hook(keep))
            keep = lambda _, args, out, layer=layer: seen.__setitem__(-layer, out.flatten(0, -2)[-1].clone())
            hooks.append(self.down(layer).register_forward_hook(keep))
        hooks.append(self.norm.register_forward_pre_hook(lambda _, args: seen.__setitem__("h", args[0][0, -1].clone())))
        tokens = torch.tensor([[self.start, *map(int, prefix)]])
        logits = self.made(input_ids=tokens, use_cache=False).logits[0, -1]
        for hook in hooks:
            hook.remove()
        return seen, seen["h"], logits

    def linear(self, h):
        """Logits of a hidden state before bias and cap."""
        return self.made.get_output_embeddings().weight @ self.norm(h[None])[0]

    def said(self, h, logits):
        return torch.log_softmax(logits, 0)

    def direct(self, layer, vector, base):
        """What a change of ``down`` adds to the stream, with the norm behind it held."""
        if self.row.norm_after is None:
            return vector
        return held(self.blocks[layer - 1].get_submodule(self.row.norm_after), vector, base[-layer])

    def linear_part(self, change, h):
        """What a change adds to logits, with the final norm held at h."""
        return self.made.get_output_embeddings().weight @ held(self.norm, change, h)

    def promoted(self, layer, memory):
        v = self.value(layer, memory)
        if self.row.norm_after:
            v = v * scale_of(self.blocks[layer - 1].get_submodule(self.row.norm_after))
        return (self.made.get_output_embeddings().weight @ v).topk(10).indices


class OfFairseq:
    """fairseq's own model."""

    def __init__(self, folder, **options):
        types = words(44)
        self.made, _ = write_checkpoint(folder / "model.pt", types, **options)
        loaded = convert(folder / "model.pt", folder / "model.safetensors", folder / "model.json")
        self.decoder = Decoder(*loaded, dtype=torch.float64)
        self.made = self.made.double()
        self.own = self.made.decoder
        if hasattr(self.own.embed_positions, "weights"):
            self.own.embed_positions.weights = self.own.embed_positions.weights.double()
        self.softmax = self.own.adaptive_softmax

    def down(self, layer):
        return self.own.layers[layer - 1].fc2

    def value(self, layer, memory):
        return self.down(layer).weight[:, memory]

    def run(self, prefix):
        seen, hooks = {}, []
        for number, block in enumerate(self.own.layers, 1):
            keep = lambda _, args, number=number: seen.__setitem__(number, args[0].flatten(0, -2)[-1].clone())
            hooks.append(block.fc2.register_forward_pre_hook(keep))
        hooks.append(block.fc2.register_forward_hook(lambda _, args, out: seen.update(y=out.flatten(0, -2)[-1])))
        hooks.append(
            block.final_layer_norm.register_forward_pre_hook(lambda _, args: seen.update(r=args[0].flatten(0, -2)[-1]))
        )
        self.own.extract_features(torch.tensor([[EOS, *map(int, prefix)]]))
        for hook in hooks:
            hook.remove()
        return seen, seen["r"] + seen["y"], None

    def direct(self, layer, vector, base):
        return vector

    def linear_part(self, change, h):
        norm = self.own.layer_norm
        found = change if norm is None else held(norm, change, h)
        return self.linear(found) if self.softmax is not None else self.own.output_layer(found)

    def final(self, h):
        return h if self.own.layer_norm is None else self.own.layer_norm(h)

    def linear(self, h):
        if self.softmax is None:
            return self.own.output_layer(self.final(h))
        head = self.softmax.head(h[None])[0]
        size = len(head) - len(self.softmax.tail)
        return torch.cat([head[:size], *(head[size + i] + t(h[None])[0] for i, t in enumerate(self.softmax.tail))])

    def said(self, h, _):
        if self.softmax is None:
            return torch.log_softmax(self.own.output_layer(self.final(h)), 0)
        return self.softmax.get_log_prob(h.view(1, 1, -1), None).view(-1)

    def promoted(self, layer, memory):
        value = self.value(layer, memory)
        return (self.own.output_layer(value) if self.softmax is None else self.said(value, None)).topk(10).indices


def whole_model(name, folder):
    """Return a family's model, or one of fairseq with an ``adaptive`` softmax or a ``final norm``."""
    if name == "adaptive":
        return OfFairseq(folder)
    if name == "final norm":
        return OfFairseq(folder, adaptive=False, no_decoder_final_norm=False, seed=3)
    return OfTransformers(name)


@contextlib.contextmanager
def adding(truth, layer, vector):
    """Let a layer's second matrix give a vector more at the last token."""

    def add(_, args, out):
        out = out.clone()
        out.view(-1, out.shape[-1])[-1] += vector
        return out

    hook = truth.down(layer).register_forward_hook(add)
    try:
        yield
    finally:
        hook.remove()
