"""The steps of the workflow, one module each: ``run`` reads files, calls one function and writes files.

Its signature declares the step: ``ff_memories.declaration`` makes the command line and the rule's command from it.
"""
