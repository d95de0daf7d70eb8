"""Write a run's tables in the format of Hugging Face; others are in ``contrib``."""
