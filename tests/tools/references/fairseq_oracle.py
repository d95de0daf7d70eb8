"""fairseq's own model in float64, one prefix at a time: what the audit's equations are tested against."""

from argparse import Namespace
from collections.abc import Collection
from pathlib import Path
from typing import Any

import torch

from ff_memories.audit.references.activations import Activations, Enough, held, stop
from ff_memories.audit.references.equations import Equations
from ff_memories.base.errors import UserError
from ff_memories.corpus.dictionary import EOS, SPECIALS, Dictionary
from ff_memories.model.files import checkpoint
from tools import fairseq_tools  # noqa: F401  (before fairseq)


class FairseqOracle(Equations):
    """A fairseq ``transformer_lm`` in float64 that also turns vectors into predictions.

    Args:
        path: the checkpoint.
        dictionary: its token types.
        reading, seed: ``values.projection`` and its seed. With ``random``, layers still use the model's own softmax.
    """

    library, signs = "fairseq", 1

    def __init__(self, path: str | Path, dictionary: Dictionary, reading: str = "adaptive", seed: int = 1):
        self.path, loaded = Path(path), checkpoint.load_pickle(path)
        self.model: Any = _model(self.path, loaded, dictionary).double().eval()
        self.decoder = self.model.decoder
        places = self.decoder.embed_positions
        if hasattr(places, "weights"):  # sinusoids are not parameters, so `double` skips them
            places.weights = places.weights.double()
        self.reading, self.seed = reading, seed
        self._other = self.read_otherwise(*checkpoint.described(loaded, self.path))

    @property
    def keys(self) -> tuple[int, int]:
        """The numbers of layers and of keys per layer, L and d_m."""
        return len(self.decoder.layers), self.decoder.layers[0].fc1.out_features

    def vectors(self, of: str, layer: int) -> torch.Tensor:
        """Return the keys or the values (d_m, d) of layer 1..L."""
        block = self.decoder.layers[layer - 1]
        return (block.fc1.weight if of == "key" else block.fc2.weight.T).detach()

    @torch.no_grad()
    def layers_changed(self, tokens: Collection[int], layer: int, vector: torch.Tensor) -> list[Activations]:
        """Run one sentence with a vector (d,) added to a layer's feed-forward output at its last token."""
        given = list(tokens)
        last = torch.zeros(len(given) + 1, 1, 1, dtype=vector.dtype)
        last[-1] = 1
        hook = self.decoder.layers[layer - 1].fc2.register_forward_hook(lambda m, i, o: o + last * vector)
        try:
            return self.layers(given)
        finally:
            hook.remove()

    @torch.no_grad()
    def layers(self, tokens: Collection[int], until: int | None = None) -> list[Activations]:
        """Run one sentence (ids without ``</s>``) by itself and return the activations of layers 1 to ``until``."""
        kept, blocks = [], self.decoder.layers[:until]
        hooks = [blocks[-1].register_forward_hook(stop)]
        for block in blocks:
            record: dict[str, torch.Tensor] = {}
            hooks += [
                block.final_layer_norm.register_forward_pre_hook(lambda m, i, r=record: r.update(residual=i[0][:, 0])),
                block.fc1.register_forward_hook(lambda m, i, o, r=record: r.update(score=o[:, 0].clone())),
                block.fc2.register_forward_hook(lambda m, i, o, r=record: r.update(ffn=o[:, 0])),
            ]
            kept.append(record)
        try:
            self.decoder.extract_features(torch.tensor([[EOS, *map(int, tokens)]]))
        except Enough:
            pass
        finally:
            for hook in hooks:
                hook.remove()
        return [
            Activations(r["residual"], r["score"].clamp(min=0), (r["score"],), r["ffn"], r["residual"] + r["ffn"])
            for r in kept
        ]

    def final(self, h: torch.Tensor) -> torch.Tensor:
        """Return a layer's output as the softmax reads it: behind the model's final norm, if it has one."""
        return h if self.decoder.layer_norm is None else self.decoder.layer_norm(h)

    @torch.no_grad()
    def held_final(self, change: torch.Tensor, h: torch.Tensor) -> torch.Tensor:
        """Return what a change (d,) adds behind the final norm, whose deviation is held at that of h (d,)."""
        norm = self.decoder.layer_norm
        return change if norm is None else held(norm.weight, norm.eps, True, change, h)

    @torch.no_grad()
    def linear(self, h: torch.Tensor) -> torch.Tensor:
        """Return the logits (vocab,) of h (d,), which is behind the final norm; see ``Reference``."""
        return self._linear(h)

    def _linear(self, h: torch.Tensor) -> Any:
        if self.decoder.project_out_dim is not None:
            h = self.decoder.project_out_dim(h)
        adaptive = self.decoder.adaptive_softmax
        if adaptive is None:
            return self.decoder.output_layer(h)
        head, tails = adaptive.head(h[None])[0], [tail(h[None])[0] for tail in adaptive.tail]
        words = len(head) - len(tails)
        return torch.cat([head[:words], *(head[words + i] + tail for i, tail in enumerate(tails))])

    def word(self, token: int) -> torch.Tensor:
        """Return what ``linear`` multiplies by for a token's logit, (d,): the logit's slope."""
        with torch.inference_mode(False), torch.enable_grad():
            h = torch.zeros(self.decoder.layers[0].embed_dim, dtype=torch.float64, requires_grad=True)
            return torch.autograd.grad(self._linear(h)[token], h)[0]

    def softmax(self, h: torch.Tensor) -> torch.Tensor:
        """Return log p (..., vocab) under the model's own output layer."""
        if self.decoder.project_out_dim is not None:
            h = self.decoder.project_out_dim(h)
        if self.decoder.adaptive_softmax is not None:
            every = self.decoder.adaptive_softmax.get_log_prob(h.view(1, -1, h.shape[-1]), None)
        else:
            every = torch.log_softmax(self.decoder.output_layer(h.view(1, -1, h.shape[-1])), -1)
        return every.view(*h.shape[:-1], -1)


def _model(path: Path, loaded: dict[str, Any], dictionary: Dictionary) -> Any:
    """Build the checkpoint's model with the installed fairseq and load its weights."""
    from fairseq.data import Dictionary as Types
    from fairseq.models.transformer_lm import TransformerLanguageModel

    types = Types()
    for word in dictionary.types[len(SPECIALS) :]:
        types.add_symbol(word)
    given = checkpoint.model_options(loaded, path)
    options = Namespace(**{name: value for name, value in given.items() if value is not None})
    options.decoder_layers_to_keep = None
    options.decoder_layerdrop = 0  # newer versions of fairseq save it differently
    options.adaptive_softmax_cutoff = given.get("adaptive_softmax_cutoff")
    state = dict(loaded["model"])
    head = state.pop("decoder.output_projection.weight", None)
    if head is not None and not getattr(options, "share_decoder_input_output_embed", False):
        state["decoder.embed_out"] = head
    try:
        model = TransformerLanguageModel.build_model(
            options, Namespace(source_dictionary=types, target_dictionary=types)
        )
        model.load_state_dict(state, strict=True)
    except (RuntimeError, AssertionError, AttributeError, TypeError, ValueError) as error:
        raise UserError(
            f"{path}: the installed fairseq cannot load this checkpoint ({str(error).splitlines()[0]})"
        ) from None
    return model
