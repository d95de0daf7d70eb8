"""Get files from mirrors, indexes of packages and the Hugging Face hub."""
