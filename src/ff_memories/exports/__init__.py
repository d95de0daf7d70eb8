"""A run's tables in the formats of other tools: Hugging Face datasets, Neuronpedia, delphi."""
