"""The schema of every table: columns, types, order, and how two runs' rows compare; checked when written and when read.

A table is declared in one place, in one of the modules of this package. Tables are Parquet files, byte-identical from
run to run. Token columns are dictionary ids, so tables contain no corpus text; text is joined when a table is shown.

In a run with both signs (``triggers.signs``), tables of keys have a further key column ``sign``: 1 for the memory with
value v_i, -1 for the one with value -v_i and the coefficients' signs changed. The steps count such memories as keys:
``read`` returns key ``d_m + i`` for key i with sign -1, and ``write`` takes it apart again.
"""

from ff_memories.tables.corpus import SAMPLED as SAMPLED
from ff_memories.tables.files import MOST_NEURONS as MOST_NEURONS
from ff_memories.tables.files import NEURONS as NEURONS
from ff_memories.tables.files import PRECISION as PRECISION
from ff_memories.tables.files import TABLES as TABLES
from ff_memories.tables.files import concat as concat
from ff_memories.tables.files import conform as conform
from ff_memories.tables.files import counts as counts
from ff_memories.tables.files import in_order as in_order
from ff_memories.tables.files import join as join
from ff_memories.tables.files import name_of as name_of
from ff_memories.tables.files import neurons_of as neurons_of
from ff_memories.tables.files import precision_of as precision_of
from ff_memories.tables.files import read as read
from ff_memories.tables.files import require_precision as require_precision
from ff_memories.tables.files import save as save
from ff_memories.tables.files import write as write
from ff_memories.tables.files import write_counts as write_counts
from ff_memories.tables.gallery import HISTOGRAM_BINS as HISTOGRAM_BINS
from ff_memories.tables.gallery import TOP_LEVEL as TOP_LEVEL
from ff_memories.tables.memories import MUTATION as MUTATION
from ff_memories.tables.predictions import KIND as KIND
from ff_memories.tables.results import BASELINES as BASELINES
from ff_memories.tables.results import LIMITS as LIMITS
from ff_memories.tables.results import SHOWS as SHOWS
from ff_memories.tables.results import TRAINING as TRAINING
from ff_memories.tables.results import VERDICTS as VERDICTS
from ff_memories.tables.schema import KEY as KEY
from ff_memories.tables.schema import LAYER as LAYER
from ff_memories.tables.schema import POSITION as POSITION
from ff_memories.tables.schema import RANK as RANK
from ff_memories.tables.schema import SENTENCE as SENTENCE
from ff_memories.tables.schema import TOKEN as TOKEN
from ff_memories.tables.schema import Columns as Columns
from ff_memories.tables.schema import Schema as Schema
