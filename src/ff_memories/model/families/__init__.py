"""Where the memories are in each family of models, and the proof that a row is right."""
