"""Write a run's tables in other formats: the authors' released code, Hugging Face, Neuronpedia, delphi."""
