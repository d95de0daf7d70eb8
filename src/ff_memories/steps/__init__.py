"""The steps of the workflow: one module per sub-command; each reads files, calls one function and writes files."""
