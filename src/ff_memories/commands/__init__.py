"""The user's commands, grouped, in order of use.

A module without a group is not for users: DVC calls ``sources``.
"""

GROUPS = {
    "Set up and explore a run": ("run", "init", "fetch", "plan", "trace", "atlas"),
    "Check and record it": ("verify", "compare", "adopt", "restore", "dvc-yaml"),
    "Share it": ("share",),
    "Run a step of the workflow": ("step",),
}
