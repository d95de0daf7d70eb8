"""Convert a fairseq checkpoint to safetensors, and write the model info."""

import argparse
import hashlib
import json
from dataclasses import asdict

from ff_memories.base.errors import UserError
from ff_memories.base.files import atomic_write, require_file
from ff_memories.config import Settings
from ff_memories.corpus.dictionary import Dictionary
from ff_memories.model import checkpoint
from ff_memories.steps.common import Configured, config_argument

PAPER_SOURCES = ("adaptive_lm_wiki103.v2", "wikitext-103")
PAPER_SIZE = (246_933_504, 267_744)  # parameters and token types of the paper's model (appendix B)


def arguments(parser: argparse.ArgumentParser) -> None:
    config_argument(parser)
    parser.add_argument("--checkpoint", required=True)
    parser.add_argument("--dictionary", required=True)
    parser.add_argument("--weights", required=True, help="model.safetensors to write")
    parser.add_argument("--description", required=True, help="model.json to write")
    parser.add_argument("--info", required=True, help="info.json to write: what this run's model is")


def run(args: Configured) -> None:
    settings = args.config
    digests = {name: _sha256(getattr(args, name)) for name in ("checkpoint", "dictionary")}
    for name, key in (("checkpoint", "sha256"), ("dictionary", "dictionary_sha256")):
        if (wanted := getattr(settings.model, key)) not in (None, digests[name]):
            raise UserError(
                f"{getattr(args, name)}: its SHA-256 is {digests[name]}, the config's model.{key} is {wanted}",
                f"fetch the file again, or set model.{key} to the new file's",
            )
    dictionary = Dictionary.read(args.dictionary)
    description, weights = checkpoint.read(args.checkpoint)
    if len(dictionary) != description.vocab:
        raise UserError(
            f"{args.dictionary}: {len(dictionary)} token types with the four specials, "
            f"the checkpoint has {description.vocab}",
            "give the dict.txt that the checkpoint was trained with",
        )
    info = {
        "scope": scope(settings, description),
        **{f"{name}_sha256": digest for name, digest in digests.items()},
        **{k: v for k, v in asdict(description).items() if k != "aliases"},
    }
    checkpoint.write(description, weights, args.weights, args.description)
    with atomic_write(args.info) as partial:
        partial.write_text(json.dumps(info, indent=1, sort_keys=True) + "\n")


def scope(settings: Settings, description: checkpoint.Description) -> str:
    """Say whose results a run's are: ``paper`` with the paper's own model and whole text, else ``surrogate``."""
    own_model = (description.parameters, description.vocab) == PAPER_SIZE
    whole_text = settings.corpus.train.max_sentences is None and settings.corpus.validation.max_sentences is None
    sources = (settings.model.source, settings.corpus.source)
    checked = settings.sources.registry is None and settings.sources.golden == "check"
    return "paper" if own_model and whole_text and checked and sources == PAPER_SOURCES else "surrogate"


def _sha256(path: str) -> str:
    require_file(path)
    try:
        with open(path, "rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise UserError(f"{path}: {error.strerror}", "check the config's model section, or pull it: dvc pull") from None
