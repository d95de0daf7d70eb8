"""The machine: its arithmetic, its GPUs, and how a log describes it."""
