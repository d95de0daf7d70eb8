"""What people type beside the workflow, in groups and in the order of use; a folder is a command with its own commands.

A module without a group is no command for users: ``promote_demo`` replaces the demo's model.
"""

GROUPS = {
    "Set up and explore a run": ("init", "fetch", "plan", "show", "why"),
    "Check and record it": ("verify", "compare", "adopt", "restore", "dvc-yaml"),
    "Share it": ("export", "annotate", "crate"),
    "Run a step of the workflow": ("step",),
}
