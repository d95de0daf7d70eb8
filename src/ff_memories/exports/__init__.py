"""Write a run's tables in formats of other tools: Hugging Face, Neuronpedia."""
