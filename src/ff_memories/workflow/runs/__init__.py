"""The run that a command is about: its config, its folders, its name, what it lacks."""
