"""After snakemake: record what it made in dvc.lock and DVC's cache, for dvc push to publish."""

from ff_memories.artefacts import provenance
from ff_memories.artefacts.adopt import adopt
from ff_memories.artefacts.run import argument


def arguments(parser):
    argument(parser)


def run(args):
    print("adopted: " + (", ".join(adopt(args.configfile)) or "nothing new"))
    provenance.keep(args.configfile)  # times and machines, which are in no artefact
