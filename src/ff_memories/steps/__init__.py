"""Run one step of the workflow, as Snakemake's rules do.

Each step is a module, here or in a section of the paper. Its ``run`` reads files, calls the package and writes files,
and the signature of ``run`` defines the step's command line and its rule's command (``ff_memories.declaration``).
"""
