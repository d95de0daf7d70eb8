"""Ways to find the top triggers, batch by batch: the engine, and what it is compared with.

Each is a function of a batch. ``floor`` is the forward pass alone, up to the last layer's first matrix: no method that
sees every coefficient does without it.
"""

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

from ff_memories.corpus.dictionary import EOS, PAD
from ff_memories.corpus.store import POSITIONS, Corpus
from ff_memories.memories.search import batching
from ff_memories.memories.search.topk import TopTriggers
from ff_memories.memories.search.trigger_table import Prefixes
from ff_memories.memories.search.triggers import AllKeys, run_batch
from ff_memories.model.batches import packed
from ff_memories.model.batches.buffers import ScratchBuffer
from ff_memories.model.decoder import Batch, Decoder
from ff_memories.model.matmul import linear
from ff_memories.model.transformer.hooked import HookedModel
from tools import fairseq_tools  # noqa: F401  (before fairseq)

Method = Callable[[batching.Plan], None]
LOW, HIGH = POSITIONS["inner"]


def pack(decoder: Decoder | HookedModel, corpus: Corpus, part: batching.Plan) -> Batch:
    return decoder.pack([corpus.sentence(s)[:HIGH] for s in part.sentences])


def forward(
    decoder: Decoder,
    batch: Batch,
    look: Callable[[int, torch.Tensor], None] | None = None,
    space: ScratchBuffer | None = None,
) -> None:
    x, space = decoder.embed(batch), space or ScratchBuffer()
    for index, layer in enumerate(decoder.layers):
        seen = layer(x, batch, last=index + 1 == len(decoder.layers), out=space.like(x, decoder.description.keys))
        if look:
            look(index, seen.coefficients)
        x = seen.output


def floor(decoder: Decoder, corpus: Corpus) -> Method:
    space = ScratchBuffer()
    return lambda part: forward(decoder, pack(decoder, corpus, part), space=space)


def products(decoder: Decoder, corpus: Corpus, budget: int) -> Method:
    """The forward pass's products with weights and nothing else, on batches of at most ``budget`` rows."""
    longest = max(budget, int(corpus.lengths.max()))
    vectors = torch.randn(longest, decoder.description.model, device=decoder.device)
    hidden = torch.randn(longest, decoder.description.keys, device=decoder.device)

    def run(part: batching.Plan) -> None:
        x = vectors[: (rows := int(corpus.lengths[part.sentences].sum()))]
        for index, layer in enumerate(decoder.layers):
            linear(x, *layer.qkv)
            linear(x, *layer.attention_out)
            linear(x, layer.keys, layer.key_bias)
            if index + 1 < len(decoder.layers):
                layer.combine(hidden[:rows])

    return run


def engine(decoder: Decoder, corpus: Corpus, top: int, per_sentence: str, best: TopTriggers | None = None) -> Method:
    """Ours, as ``trigger_examples`` runs it."""
    prefixes, space, columns = Prefixes.of(corpus), ScratchBuffer(), [AllKeys()] * decoder.description.layers
    best = best or lists(decoder, top)
    return lambda part: run_batch(decoder, corpus, prefixes, part, best, LOW, HIGH, per_sentence, columns, space)


def lists(decoder: Decoder, top: int) -> TopTriggers:
    """Return empty lists of a model's keys."""
    shape = decoder.description
    return TopTriggers(shape.layers, decoder.memories, top, device=decoder.device, precision=decoder.precision)


def concatenate(decoder: Decoder, corpus: Corpus, top: int) -> Method:
    """The plain way: ``topk(cat(so far, batch))`` for every layer and batch, with the prefixes' numbers."""
    keep, space = Running(decoder, top), ScratchBuffer()

    def run(part: batching.Plan) -> None:
        batch = pack(decoder, corpus, part)
        number = keep.number(len(batch.tokens))
        forward(decoder, batch, lambda layer, coefficients: keep.add(layer, coefficients, number), space)

    return run


def hook_and_cache(decoder: Decoder, corpus: Corpus, top: int) -> Method:
    """As analysis libraries do it: cache all activations of a batch, then take the top of each layer and merge."""
    keep, space = Running(decoder, top), ScratchBuffer()

    def run(part: batching.Plan) -> None:
        batch = pack(decoder, corpus, part)
        cache: dict[int, torch.Tensor] = {}
        forward(decoder, batch, lambda layer, coefficients: cache.__setitem__(layer, coefficients.clone()), space)
        number = keep.number(len(batch.tokens))
        for layer, coefficients in cache.items():
            found = coefficients.topk(min(top, len(coefficients)), dim=0)
            keep.add(layer, found.values, number[found.indices])

    return run


class Running:
    """The plain running lists, (t, d_m) per layer."""

    def __init__(self, decoder: Decoder | HookedModel, top: int):
        shape, device = decoder.description, decoder.device
        self.top, self.seen = top, 0
        self.value = [torch.zeros(top, shape.keys, device=device) for _ in range(shape.layers)]
        self.prefix = [torch.zeros(top, shape.keys, dtype=torch.int64, device=device) for _ in range(shape.layers)]

    def number(self, rows: int) -> torch.Tensor:
        self.seen += rows
        return torch.arange(self.seen - rows, self.seen, device=self.value[0].device)

    def add(self, layer: int, coefficients: torch.Tensor, number: torch.Tensor) -> None:
        number = number if number.dim() == 2 else number[:, None].expand_as(coefficients)
        found = torch.cat([self.value[layer], coefficients]).topk(self.top, dim=0)
        self.value[layer] = found.values
        self.prefix[layer] = torch.cat([self.prefix[layer], number]).gather(0, found.indices)


@dataclass(frozen=True)
class Fairseq:
    """fairseq's own model of the same dimensions, and the sentences batched and padded as fairseq does.

    Attributes:
        decoder: its decoder, with weights of its own.
        batches: (sentences, longest) token ids, padded.
    """

    decoder: Any
    batches: list[torch.Tensor]

    @property
    def rows(self) -> int:
        """Tokens without padding."""
        return sum(int((tokens != PAD).sum()) for tokens in self.batches)

    def forward(self, tokens: torch.Tensor) -> None:
        """Run a batch, without the vocabulary."""
        with warnings.catch_warnings(action="ignore"):  # of the mask types that fairseq hands to torch
            self.decoder.extract_features(tokens)

    def hook_and_cache(self, decoder: Decoder, top: int) -> tuple[Callable[[torch.Tensor], None], Running]:
        """Return a pass over a batch with hooks that cache every layer's coefficients, and the lists that it fills.

        Padding is left out before the top is taken.
        """
        keep = Running(decoder, top)
        cache: dict[int, torch.Tensor] = {}

        def run(tokens: torch.Tensor) -> None:
            hooks = [
                layer.fc1.register_forward_hook(lambda _, inputs, out, i=i: cache.__setitem__(i, out))
                for i, layer in enumerate(self.decoder.layers)
            ]
            self.forward(tokens)
            for hook in hooks:
                hook.remove()
            inside = (tokens != PAD).T  # coefficients come as (longest, sentences, d_m)
            number = keep.number(int(inside.sum()))
            for layer in list(cache):
                coefficients = torch.relu(cache.pop(layer)[inside])
                found = coefficients.topk(min(top, len(coefficients)), dim=0)
                keep.add(layer, found.values, number[found.indices])

        return run, keep


def fairseq(decoder: Decoder, corpus: Corpus, budget: int) -> Fairseq:
    """Build fairseq's model, and batch the sentences as ``--max-tokens`` does."""
    import argparse

    from fairseq.data import Dictionary, data_utils
    from fairseq.models.transformer_lm import TransformerLanguageModel

    shape = decoder.description
    dictionary = Dictionary()
    for word in range(shape.vocab - len(dictionary)):
        dictionary.add_symbol(str(word))
    args = argparse.Namespace(
        arch="transformer_lm", task="language_modeling", decoder_layers=shape.layers, decoder_embed_dim=shape.model,
        decoder_ffn_embed_dim=shape.keys, decoder_attention_heads=shape.heads, tokens_per_sample=shape.max_positions,
        max_target_positions=shape.max_positions, no_decoder_final_norm=True, decoder_layerdrop=0,
        decoder_layers_to_keep=None, adaptive_input=True, adaptive_input_factor=4,
        adaptive_input_cutoff=",".join(map(str, shape.input_cutoffs[:-1])), adaptive_softmax_factor=4,
        adaptive_softmax_cutoff=",".join(map(str, shape.output_cutoffs[:-1])), adaptive_softmax_dropout=0.0,
        tie_adaptive_weights=True, tie_adaptive_proj=True,
    )  # fmt: skip
    task = argparse.Namespace(source_dictionary=dictionary, target_dictionary=dictionary)
    model = TransformerLanguageModel.build_model(args, task).eval().to(decoder.device)
    lengths = corpus.lengths
    order = sorted(range(len(corpus)), key=lambda s: (lengths[s], s))
    groups: list[list[int]] = []
    current: list[int] = []
    for s in order:  # --max-tokens: rows times the longest, which is the last
        if current and (len(current) + 1) * int(lengths[s]) > budget:
            groups.append(current)
            current = []
        current.append(s)
    groups.append(current)
    eos = torch.tensor([EOS])
    rows = lambda s: torch.cat([eos, torch.from_numpy(corpus.sentence(s)[:HIGH].astype("int64"))])
    batches = [data_utils.collate_tokens([rows(s) for s in group], PAD).to(decoder.device) for group in groups]
    return Fairseq(model.decoder, batches)


def plain_transformers(model: HookedModel, corpus: Corpus) -> Method:
    """`transformers`' own loop over our packed rows, without hooks of its layers: nothing is read."""

    def run(part: batching.Plan) -> None:
        batch = pack(model, corpus, part)
        with packed.over(batch):
            model.model.base_model(input_ids=batch.tokens[None], position_ids=batch.positions[None], use_cache=False)

    return run


def padded_transformers(model: HookedModel, corpus: Corpus, top: int) -> tuple[Method, Running]:
    """As one does it with `transformers` alone: pad a batch, hook every layer, and search what the hooks saw."""
    keep, shape = Running(model, top), model.description
    cache: dict[int, torch.Tensor] = {}

    def run(part: batching.Plan) -> None:
        sentences = [torch.from_numpy(corpus.sentence(s)[:HIGH].astype("int64")) for s in part.sentences]
        rows = [torch.cat([torch.tensor([shape.start]), sentence]) for sentence in sentences]
        tokens = torch.nn.utils.rnn.pad_sequence(rows, batch_first=True).to(model.device)
        lengths = torch.tensor([len(row) for row in rows], device=model.device)
        inside = torch.arange(tokens.shape[1], device=model.device) < lengths[:, None]
        hooks = [
            layer.down.register_forward_pre_hook(lambda _, inputs, i=i: cache.__setitem__(i, inputs[0]))
            for i, layer in enumerate(model.layers)
        ]
        model.model.set_attn_implementation("sdpa")
        model.model.base_model(input_ids=tokens, attention_mask=inside.long(), use_cache=False)
        model.model.set_attn_implementation(packed.NAME)
        for hook in hooks:
            hook.remove()
        number = keep.number(int(inside.sum()))
        for layer in list(cache):
            coefficients = cache.pop(layer)[inside]
            found = coefficients.topk(min(top, len(coefficients)), dim=0)
            keep.add(layer, found.values, number[found.indices])

    return run, keep
