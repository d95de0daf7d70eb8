"""Split one shard of the texts into sentences with spaCy, as in the paper; the step `corpus` merges the shards."""

import json
from typing import Any

from ff_memories import config as configs
from ff_memories.base.parameters import AnyInputs, Inputs, Output, Param, Shard
from ff_memories.corpus.splitting import cuts as recorded
from ff_memories.corpus.splitting.segment import segmenter


def run(
    config: Param, train: Inputs, validation: Inputs, pipeline: AnyInputs, shard: Shard, raw: Param | None, cuts: Output
) -> None:
    """Cut a shard's paragraphs.

    Args:
        config: a run's config file, or as JSON only the keys that cuts depend on; with the whole section, changing the
            tokenizer would repeat all cuts
        train: training text files
        validation: validation text files
        pipeline: the pipeline's config.cfg, if it was fetched
        raw: `raw` for raw text; any other value for tokens with spaces between them
    """
    corpus = _corpus(config)
    splits = [
        (files, recorded.needed(corpus, split)) for split, files in (("train", train), ("validation", validation))
    ]
    cut = segmenter(corpus["segmenter"], pipeline[0].parent if pipeline else None, raw == "raw")
    recorded.save(recorded.find(splits, cut, shard[0] - 1, shard[1]), cuts)


def _corpus(given: str) -> dict[str, Any]:
    return json.loads(given)["corpus"] if given.lstrip().startswith("{") else configs.load(given).corpus.model_dump()
