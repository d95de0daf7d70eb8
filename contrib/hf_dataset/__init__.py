"""Export the tables of a run as a dataset for the Hugging Face hub."""
