"""Measure every claim on untrained models, random pairs and guesses (tables `baselines` and `control`).

E10's base rates too: stop words and short prefixes where a memory agrees with its layer (table `agreeing`).
"""

import numpy as np

from ff_memories import tables as schemas
from ff_memories.base.parameters import Input, Inputs, Output
from ff_memories.config import Settings
from ff_memories.corpus import store
from ff_memories.corpus.dictionary import BOS
from ff_memories.judge.evidence import Evidence
from ff_memories.judge.register import TOGETHER, UNTRAINED, register
from ff_memories.model.info import read_info
from ff_memories.paper import baselines as measured
from ff_memories.paper.layers import measures as layers_measures
from ff_memories.paper.values.values import targets


def run(
    config: Settings,
    info: Input,
    dictionary: Input,
    corpus: Input,
    tables: Inputs,
    models: Inputs,
    baselines: Output,
    control: Output,
    agreeing: Output,
) -> None:
    """Measure every claim's baselines.

    Args:
        tables: this run's triggers, values, examples, composition and refinement
        models: the baselines' tables, each model's below a folder with its name: untrained-1, ..., same_sample
    """
    run_tables = {schemas.name_of(path): schemas.read(path) for path in tables}
    described, text = read_info(info), store.read(corpus)
    evidence = Evidence.of_run(config, described, dictionary, run_tables)
    of_models: dict[str, schemas.Frames] = {}
    for path in models:
        of_models.setdefault(path.parent.parent.name, {})[schemas.name_of(path)] = schemas.read(path)
    counts = np.bincount(text.tokens[: text.offsets[text.train]], minlength=described["vocab"])
    with_targets = targets(run_tables["triggers"], text, config.values.target, described.get("start", BOS))
    sets = [(_kind(name), model_tables) for name, model_tables in of_models.items()]
    sets += measured.guesses(run_tables, with_targets, counts, config.seed)
    untrained = [model_tables for name, model_tables in of_models.items() if _kind(name) == UNTRAINED]
    sets.append((TOGETHER, measured.together(untrained)))
    schemas.write(measured.table(register(), evidence, sets), baselines)
    schemas.write(measured.control(untrained, described["layers"], described["keys"], config.seed), control)
    composition, examples = run_tables["composition"], run_tables["examples"]
    cases = layers_measures.agreeing_cases(composition, examples, evidence.stop_words, evidence.prediction)
    short = next(claim.parameters["shorter_than"] for claim in register() if "shorter_than" in claim.parameters)
    schemas.write(layers_measures.agreeing_by_layer(cases, short), agreeing)


def _kind(folder: str) -> str:
    """Return the baseline of a model's folder: ``untrained`` for ``untrained-2``."""
    return folder.rstrip("0123456789").rstrip("-")
