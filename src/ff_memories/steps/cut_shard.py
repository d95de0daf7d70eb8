"""Cut one shard of the texts into sentences with spaCy, as the paper did; the corpus step puts the shards together."""

import argparse
import json
from pathlib import Path
from typing import Any

from ff_memories import config
from ff_memories.corpus import cuts
from ff_memories.corpus.segment import segmenter
from ff_memories.steps.common import shard_of


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--config", required=True, type=_corpus, help="a run's config file, or the keys as JSON")
    parser.add_argument("--train", required=True, nargs="+", type=Path, help="text files")
    parser.add_argument("--validation", required=True, nargs="+", type=Path, help="text files")
    parser.add_argument("--pipeline", nargs="*", default=[], type=Path, help="the pipeline's config.cfg, if fetched")
    parser.add_argument("--shard", required=True, help="which one: 1-of-4")
    parser.add_argument("--out", required=True, help="the shard's cuts, to write")


def run(args: argparse.Namespace) -> None:
    number, shards = shard_of(args.shard)
    splits = [(getattr(args, s), cuts.needed(args.config, s)) for s in ("train", "validation")]
    cut = segmenter(args.config["segmenter"], args.pipeline[0].parent if args.pipeline else None)
    cuts.save(cuts.find(splits, cut, number - 1, shards), args.out)


def _corpus(given: str) -> dict[str, Any]:
    """Read the keys that cuts depend on: not the whole section, or another tokenizer would cut all again."""
    return json.loads(given)["corpus"] if given.lstrip().startswith("{") else config.load(given).corpus.model_dump()
