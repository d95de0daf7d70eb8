"""A fairseq ``transformer_lm`` checkpoint, read without running pickled code, under the paper's names.

``read`` gives a description (what the architecture is) and the weights. Every key of layer l is a row of
``layers.l.keys``, every value a row of ``layers.l.values`` (equation 1: FF(x) = f(x K^T) V).
"""

import argparse
import math
import re
import warnings
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from ff_memories.base.errors import UserError
from ff_memories.base.files import require_file
from ff_memories.model.files.converted import Description, Weights

# what a checkpoint may hold besides tensors: its options, and fairseq's training meters, whose numbers nobody needs
_ALLOWED: list[Callable[..., Any] | tuple[Callable[..., Any], str]] = [
    argparse.Namespace,
    *(
        (type(name, (), {}), f"{module}.{name}")
        for module in ("fairseq.meters", "fairseq.logging.meters")
        for name in ("AverageMeter", "TimeMeter", "StopwatchMeter")
    ),
]

_REFUSED = {  # options of fairseq's transformer_lm that change the forward pass, and no weight tells of them
    "decoder_layers_to_keep": "pruned layers",
    "add_bos_token": "a <s> before every sentence",
}


def load_pickle(path: str | Path) -> dict[str, Any]:
    """Load a checkpoint file with ``weights_only``.

    Raises ``UserError`` if it is damaged, would run code, or holds more than its size on the disk.
    """
    loaded = _unpickle(Path(path))
    if not isinstance(loaded, dict) or "model" not in loaded:
        raise UserError(f"{path}: not a fairseq checkpoint, it has no 'model'")
    return loaded


def load_tensors(path: Path) -> Weights:
    """Load a ``state_dict`` that torch saved, as a checkpoint is loaded. Raises ``UserError`` like ``load_pickle``."""
    state = _unpickle(path)
    _refuse_odd_tensors(state, path, "it")
    return state


def _unpickle(path: Path) -> Any:
    require_file(path)
    if not path.exists():
        raise UserError(f"{path}: no such checkpoint", "check model.checkpoint, or pull it with: dvc pull")
    try:
        _check_zip(path)
        with torch.serialization.safe_globals(_ALLOWED), warnings.catch_warnings(action="ignore"):
            return torch.load(path, map_location="cpu", weights_only=True)
    except UserError:
        raise
    except Exception as error:  # whatever a damaged file makes torch stumble over
        if match := re.search(r"(?:GLOBAL|Unsupported (?:class|global):?(?: GLOBAL)?) `?([\w.]+)", str(error)):
            what = f"refused, it holds a pickled {match[1]}, which could run code when loaded"
            hint = "save the checkpoint again with plain tensors and an argparse.Namespace only"
            raise UserError(f"{path}: {what}", hint) from None
        first = (str(error) or type(error).__name__).splitlines()[0][:200]
        raise UserError(f"{path}: truncated or not a checkpoint ({first})", "fetch the file again") from None


def _check_zip(path: Path) -> None:
    """Refuse a zip whose parts are larger than the file: torch stores them as they are, one after the other."""
    with path.open("rb") as file:
        if file.read(4) != b"PK\x03\x04":
            return
    with zipfile.ZipFile(path) as archive:
        parts = archive.infolist()
        if any(part.compress_type != zipfile.ZIP_STORED for part in parts):
            raise UserError(f"{path}: refused, its parts are compressed, which torch never does")
        if sum(part.file_size for part in parts) > path.stat().st_size:
            raise UserError(f"{path}: refused, its parts are more bytes than the file")


def _is_option(value: Any) -> bool:
    plain = (str, int, float, type(None))
    return isinstance(value, plain) or (isinstance(value, list | tuple) and all(isinstance(v, plain) for v in value))


def _as_dict(options: Any) -> Any:
    return dict(vars(options)) if isinstance(options, argparse.Namespace) else options


def model_options(loaded: dict[str, Any], path: Path) -> dict[str, Any]:
    """Return the model's options, from a legacy ``args`` Namespace or a current ``cfg``."""
    args, cfg = loaded.get("args"), loaded.get("cfg")
    if args is None and isinstance(cfg, dict):
        args, task = (_as_dict(cfg.get(part) or {}) for part in ("model", "task"))
        args.setdefault("arch", args.get("_name"))
        args.setdefault("tokens_per_sample", task.get("tokens_per_sample"))
    args = _as_dict(args)
    if not isinstance(args, dict):
        raise UserError(f"{path}: not a fairseq checkpoint, it has neither 'args' nor 'cfg'")
    args = {name: value if _is_option(value) else "nested" for name, value in args.items()}  # shown, it may not end
    # as fairseq does for checkpoints older than these options
    if "no_tie_adaptive_proj" in args:
        args["no_decoder_final_norm"] = True
        if args["no_tie_adaptive_proj"] is False:
            args["tie_adaptive_proj"] = True
    if "decoder_final_norm" in args:
        args["no_decoder_final_norm"] = not args["decoder_final_norm"]
    return args


def _refuse_other_architectures(options: dict[str, Any], path: Path) -> None:
    """Refuse what options say of another architecture; ``_refuse_unread`` refuses what weights say of it."""
    arch = str(options.get("arch"))[:60]
    if not arch.startswith("transformer_lm"):
        raise UserError(f"{path}: its architecture is {arch}, not a transformer_lm")
    activation = options.get("activation_fn", "relu") or "relu"
    if activation != "relu":
        what = f"its activation is {str(activation)[:60].upper()}"
        raise UserError(f"{path}: {what}; memory coefficients are defined for ReLU (equation 1)")
    if options.get("decoder_normalize_before") is False and "no_tie_adaptive_proj" not in options:
        raise UserError(f"{path}: post-norm (decoder_normalize_before is false); only pre-norm models are read")
    for option, what in _REFUSED.items():
        if options.get(option):
            raise UserError(f"{path}: it has {what} ({option}), which is not supported")


def _cutoffs(option: Any, vocab: int) -> tuple[int, ...]:
    if isinstance(option, str):
        option = [int(part) for part in option.strip("[]()").split(",") if part.strip()]
    ends = [int(end) for end in option]
    return tuple(ends if ends[-1] == vocab else [*ends, vocab])


class _Taker:
    """Takes tensors out of a state dict by fairseq's names; knows what is missing and what was left."""

    def __init__(self, state: Weights, path: Path):
        self.state, self.path = state, path
        self.used: set[str] = set()

    def __contains__(self, name: str) -> bool:
        return "decoder." + name in self.state

    def __call__(self, name: str, *shape: int | None) -> torch.Tensor:
        tensor = self.state.get("decoder." + name)
        if tensor is None:
            raise UserError(f"{self.path}: the checkpoint lacks decoder.{name}")
        if len(shape) != tensor.dim() or any(s not in (None, n) for s, n in zip(shape, tensor.shape, strict=True)):
            wanted = tuple("any" if s is None else s for s in shape)
            raise UserError(f"{self.path}: decoder.{name} is {tuple(tensor.shape)}, the architecture says {wanted}")
        if not tensor.is_floating_point():
            raise UserError(f"{self.path}: decoder.{name} is of {tensor.dtype}, not of floating-point numbers")
        self.used.add("decoder." + name)
        return tensor


def _block(take: _Taker, layer: int, d: int, keys: int) -> Weights:
    """One decoder block under the paper's names."""
    at = f"layers.{layer}."
    norm, ff_norm = f"{at}self_attn_layer_norm", f"{at}final_layer_norm"
    if f"{at}layer_norms.0.weight" in take:  # names of early checkpoints
        norm, ff_norm = f"{at}layer_norms.0", f"{at}layer_norms.2"
    if f"{at}self_attn.in_proj_weight" in take:
        qkv = take(f"{at}self_attn.in_proj_weight", 3 * d, d)
        qkv_bias = take(f"{at}self_attn.in_proj_bias", 3 * d)
    else:
        qkv = torch.cat([take(f"{at}self_attn.{n}_proj.weight", d, d) for n in "qkv"])
        qkv_bias = torch.cat([take(f"{at}self_attn.{n}_proj.bias", d) for n in "qkv"])
    return {
        at + "attention_norm.weight": take(norm + ".weight", d),
        at + "attention_norm.bias": take(norm + ".bias", d),
        at + "qkv.weight": qkv,
        at + "qkv.bias": qkv_bias,
        at + "attention_out.weight": take(f"{at}self_attn.out_proj.weight", d, d),
        at + "attention_out.bias": take(f"{at}self_attn.out_proj.bias", d),
        at + "norm.weight": take(ff_norm + ".weight", d),
        at + "norm.bias": take(ff_norm + ".bias", d),
        at + "keys": take(f"{at}fc1.weight", keys, d),
        at + "key_bias": take(f"{at}fc1.bias", keys),
        at + "values": take(f"{at}fc2.weight", d, keys).t(),
        at + "value_bias": take(f"{at}fc2.bias", d),
    }


def _input(take: _Taker, options: dict[str, Any], vocab: int, d: int) -> tuple[Weights, tuple[int, ...]]:
    if not options.get("adaptive_input"):
        out = {"input.0.embedding": take("embed_tokens.weight", vocab, None)}
        if "project_in_dim.weight" in take:
            out["input.0.projection"] = take("project_in_dim.weight", d, None)
        return out, (vocab,)
    cutoffs = _cutoffs(options["adaptive_input_cutoff"], vocab)
    out = {}
    for band, (start, end) in enumerate(zip((0, *cutoffs), cutoffs, strict=False)):
        out[f"input.{band}.embedding"] = take(f"embed_tokens.embeddings.{band}.0.weight", end - start, None)
        out[f"input.{band}.projection"] = take(f"embed_tokens.embeddings.{band}.1.weight", d, None)
    return out, cutoffs


def _output(take: _Taker, options: dict[str, Any], vocab: int) -> tuple[Weights, tuple[int, ...]]:
    out: Weights = {}
    if "layer_norm.weight" in take and not options.get("no_decoder_final_norm"):
        out["final_norm.weight"] = take("layer_norm.weight", None)
        out["final_norm.bias"] = take("layer_norm.bias", None)
    if "project_out_dim.weight" in take:
        out["output.projection"] = take("project_out_dim.weight", None, None)
    if not options.get("adaptive_softmax_cutoff"):
        names = ("output_projection.weight", "embed_out", "embed_tokens.weight")
        name = next((n for n in names if n in take), names[0])
        out["output.head"] = take(name, vocab, None)
        return out, (vocab,)
    cutoffs = _cutoffs(options["adaptive_softmax_cutoff"], vocab)
    at, clusters, tied = "adaptive_softmax.", len(cutoffs) - 1, options.get("tie_adaptive_weights")
    if tied:
        out["output.head"] = take("embed_tokens.embeddings.0.0.weight", cutoffs[0], None)
        if f"{at}head.word_proj.0.weight" in take:
            out["output.head_projection"] = take(f"{at}head.word_proj.0.weight", None, None)
        out["output.classes"] = take(f"{at}head.class_proj.weight", clusters, None)
    else:
        head = take(f"{at}head.weight", cutoffs[0] + clusters, None)
        out["output.head"], out["output.classes"] = head[: cutoffs[0]], head[cutoffs[0] :]
    for k in range(clusters):
        embedding = f"embed_tokens.embeddings.{k + 1}.0.weight" if tied else f"{at}tail.{k}.2.weight"
        out[f"output.{k}.embedding"] = take(embedding, cutoffs[k + 1] - cutoffs[k], None)
        if tied and options.get("tie_adaptive_proj"):
            out[f"output.{k}.projection"] = take(f"embed_tokens.embeddings.{k + 1}.1.weight", None, None).t()
        else:
            out[f"output.{k}.projection"] = take(f"{at}tail.{k}.0.weight", None, None)
    return out, cutoffs


def read(path: str | Path) -> tuple[Description, Weights]:
    """Read a fairseq checkpoint, legacy (``args``) or current (``cfg``): its description and its weights, in float32.

    Raises ``UserError`` where it is no checkpoint, cut, of another architecture, or has pickled code or odd weights.
    """
    loaded, path = load_pickle(path), Path(path)
    _refuse_odd_tensors(loaded["model"], path)
    try:
        return described(loaded, path)
    except (ArithmeticError, AttributeError, LookupError, RuntimeError, TypeError, ValueError) as error:
        raise UserError(f"{path}: its options are not those of a transformer_lm ({str(error)[:200]})") from None


def described(loaded: dict[str, Any], path: Path) -> tuple[Description, Weights]:
    """Return the same of a sound checkpoint in memory; a weight that is one of its tensors shares that one's memory."""
    options, state = model_options(loaded, path), loaded["model"]
    _refuse_other_architectures(options, path)
    take = _Taker(state, path)
    layers = 1 + max((int(m[1]) for n in state if (m := re.match(r"decoder\.layers\.(\d+)\.", n))), default=-1)
    if not layers:
        raise UserError(f"{path}: the checkpoint has no decoder layers")
    if (stated := options.get("decoder_layers")) is not None and int(stated) != layers:
        raise UserError(f"{path}: {layers} layers, but its options say {stated}")
    keys, d = take("layers.0.fc1.weight", None, None).shape
    bands = [t for n, t in state.items() if re.fullmatch(r"decoder\.embed_tokens\.(embeddings\.\d+\.0\.)?weight", n)]
    vocab = sum(t.shape[0] for t in bands)
    heads = int(options.get("decoder_attention_heads") or 8)
    if d % heads:
        raise UserError(f"{path}: {heads} attention heads do not divide {d} dimensions")
    weights: Weights = {}
    for layer in range(layers):
        weights |= _block(take, layer, d, keys)
    entering, input_cutoffs = _input(take, options, vocab, d)
    leaving, output_cutoffs = _output(take, options, vocab)
    weights |= entering | leaving
    positions = int(options.get("max_target_positions") or options.get("tokens_per_sample") or 1024)
    if learned := "embed_positions.weight" in take:
        weights["positions"] = take("embed_positions.weight", None, d)
        positions = min(positions, weights["positions"].shape[0] - 2)
    elif options.get("no_token_positional_embeddings"):
        raise UserError(f"{path}: it has no position embeddings, which is not supported")
    if not 2 <= positions <= 65_535:
        raise UserError(f"{path}: it takes {positions} positions; from 2 to 65535 are supported")
    _refuse_unread(take, state, path)
    aliases, parameters = _tied(weights)
    for name, tensor in weights.items():
        if name not in aliases and not torch.isfinite(tensor).all():
            hint = "the training diverged; use another checkpoint"
            raise UserError(f"{path}: NaN or infinite numbers in {name}", hint)
    return Description(
        layers=layers,
        model=d,
        keys=keys,
        heads=heads,
        vocab=vocab,
        input_cutoffs=input_cutoffs,
        adaptive_input=bool(options.get("adaptive_input")),
        output_cutoffs=output_cutoffs,
        adaptive_output=bool(options.get("adaptive_softmax_cutoff")),
        learned_positions=learned,
        final_norm="final_norm.weight" in weights,
        max_positions=positions,
        embedding_scale=1.0 if options.get("no_scale_embedding") else math.sqrt(d),
        parameters=parameters,
        aliases=aliases,
    ), weights


def _refuse_odd_tensors(state: Any, path: Path, what: str = "its 'model'") -> None:
    """Refuse what is no tensor in memory, and tensors that would take more memory than the file has bytes of them."""
    if not isinstance(state, dict):
        raise UserError(f"{path}: {what} is not a dictionary of tensors")
    total = 0
    for name, tensor in state.items():
        if not isinstance(tensor, torch.Tensor) or not isinstance(name, str):
            raise UserError(f"{path}: {what} is not a dictionary of tensors ({str(name)[:60]})")
        if tensor.layout != torch.strided or tensor.device.type != "cpu" or tensor.is_quantized:
            raise UserError(f"{path}: {name} is no plain tensor of numbers")
        bytes_ = tensor.numel() * tensor.element_size()
        total += bytes_
        if bytes_ > tensor.untyped_storage().nbytes():
            raise UserError(f"{path}: refused, {name} is {tuple(tensor.shape)}, more than is stored of it")
    if total > 4 * path.stat().st_size:  # ties are stored once; fairseq's are at most double
        raise UserError(f"{path}: refused, its tensors are {total:,} bytes, the file has {path.stat().st_size:,}")


def _refuse_unread(take: _Taker, state: Weights, path: Path) -> None:
    """Refuse a checkpoint with weights that the forward pass would silently ignore."""
    harmless = re.compile(
        r"version$|_float_tensor$|embed_positions\.weights$|adaptive_softmax\.|layer_norm\.|embed_out$"
        r"|output_projection\.weight$"
    )
    if unread := [n for n in state if n not in take.used and not harmless.search(n)]:
        what = "weights of an architecture that is not a plain transformer_lm"
        raise UserError(f"{path}: {what}: {', '.join(unread[:3])}")


def _tied(weights: Weights) -> tuple[dict[str, str], int]:
    """Return which weights share storage with an earlier one, and how many numbers all of them are."""
    names: dict[tuple[Any, ...], str] = {}
    aliases, parameters = {}, 0
    for name, tensor in weights.items():
        storage = (tensor.untyped_storage().data_ptr(), tensor.storage_offset(), tensor.numel())
        if storage in names and tensor.numel():
            same = weights[names[storage]]
            if any(same.shape == t.shape and torch.equal(same, t) for t in (tensor, tensor.t())):
                aliases[name] = names[storage]
                continue
        names.setdefault(storage, name)
        parameters += tensor.numel()
    return aliases, parameters
