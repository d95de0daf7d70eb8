"""The config file of a run: its keys, their types, and checks for combinations that would give wrong numbers.

``load`` reads and checks a whole file. A step gets ``Settings``, which has only the sections that its rule declares:
a step cannot depend on a key that Snakemake and DVC do not watch.
"""

from ff_memories.config.model import FairseqModel as FairseqModel
from ff_memories.config.model import ModelSection as ModelSection
from ff_memories.config.model import TransformersModel as TransformersModel
from ff_memories.config.reading import ABSENT as ABSENT
from ff_memories.config.reading import PROTOCOL as PROTOCOL
from ff_memories.config.reading import Settings as Settings
from ff_memories.config.reading import by_file as by_file
from ff_memories.config.reading import joined as joined
from ff_memories.config.reading import load as load
from ff_memories.config.reading import parse as parse
from ff_memories.config.reading import read_yaml as read_yaml
from ff_memories.config.reading import value_at as value_at
from ff_memories.config.reading import yaml_of as yaml_of
from ff_memories.config.run import FIDELITY as FIDELITY
from ff_memories.config.run import RELEASED_ONLY as RELEASED_ONLY
from ff_memories.config.run import Config as Config
from ff_memories.config.run import usual as usual
from ff_memories.config.sections import CorpusSection as CorpusSection
from ff_memories.config.sections import FigureOptions as FigureOptions
from ff_memories.config.sections import about as about
from ff_memories.config.sections import keys_of as keys_of
