"""The config file of a run: its keys, their types, and checks for combinations that would give wrong numbers.

``load`` reads and checks a whole file. A step gets ``Settings``, which has only the sections that its rule declares:
a step cannot depend on a key that Snakemake and DVC do not watch.
"""

from ff_memories.config.corpus import CorpusSection
from ff_memories.config.model import FairseqModel, ModelSection, TransformersModel
from ff_memories.config.reading import (
    ABSENT,
    PROTOCOL,
    Settings,
    by_file,
    joined,
    load,
    parse,
    read_yaml,
    value_at,
    yaml_of,
)
from ff_memories.config.run import FIDELITY, RELEASED_ONLY, Config, FigureOptions, usual
from ff_memories.config.section import about, keys_of

__all__ = [
    "ABSENT",
    "FIDELITY",
    "PROTOCOL",
    "RELEASED_ONLY",
    "Config",
    "CorpusSection",
    "FairseqModel",
    "FigureOptions",
    "ModelSection",
    "Settings",
    "TransformersModel",
    "about",
    "by_file",
    "joined",
    "keys_of",
    "load",
    "parse",
    "read_yaml",
    "usual",
    "value_at",
    "yaml_of",
]
