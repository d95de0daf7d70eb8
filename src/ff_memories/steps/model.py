"""Convert a fairseq checkpoint to safetensors, and write the model's info.json."""

from dataclasses import asdict

from ff_memories.base.errors import UserError
from ff_memories.base.files import sha256, write_json
from ff_memories.base.parameters import Input, Output
from ff_memories.config import Settings
from ff_memories.corpus.dictionary import Dictionary
from ff_memories.model.files import checkpoint as fairseq
from ff_memories.model.files.converted import Description, write

PAPER_SOURCES = ("adaptive_lm_wiki103.v2", "wikitext-103")
PAPER_SIZE = (246_933_504, 267_744)  # parameters and token types of the paper's model (appendix B)


def run(
    config: Settings, checkpoint: Input, dictionary: Input, weights: Output, description: Output, info: Output
) -> None:
    """Convert the checkpoint.

    Args:
        weights: file to write: model.safetensors
        description: file to write: model.json
        info: file to write: info.json, with the model's sizes, checksums and scope
    """
    digests = {"checkpoint": sha256(checkpoint), "dictionary": sha256(dictionary)}
    for name, path, key in (("checkpoint", checkpoint, "sha256"), ("dictionary", dictionary, "dictionary_sha256")):
        if (wanted := getattr(config.model, key)) not in (None, digests[name]):
            hint = f"fetch the file again, or set model.{key} to the new value"
            raise UserError(f"{path}: its SHA-256 is {digests[name]}, but model.{key} in the config is {wanted}", hint)
    types = Dictionary.read(dictionary)
    shape, tensors = fairseq.read(checkpoint)
    if len(types) != shape.vocab:
        numbers = f"{len(types)} token types, with the four special ones, but the checkpoint has {shape.vocab}"
        hint = "set model.dictionary to the dict.txt that the checkpoint was trained with"
        raise UserError(f"{dictionary}: has {numbers}", hint)
    described = {
        "scope": scope(config, shape),
        **{f"{name}_sha256": digest for name, digest in digests.items()},
        **{k: v for k, v in asdict(shape).items() if k != "aliases"},
    }
    write(shape, tensors, weights, description)
    write_json(info, described, sort_keys=True)


def scope(settings: Settings, description: Description) -> str:
    """Return a run's scope: ``paper`` with the paper's own model and whole text, otherwise ``surrogate``."""
    own_model = (description.parameters, description.vocab) == PAPER_SIZE
    whole_text = settings.corpus.train.max_sentences is None and settings.corpus.validation.max_sentences is None
    sources = (settings.model.source, settings.corpus.source)
    checked = settings.sources.registry is None and settings.sources.golden == "check"
    return "paper" if own_model and whole_text and checked and sources == PAPER_SOURCES else "surrogate"
