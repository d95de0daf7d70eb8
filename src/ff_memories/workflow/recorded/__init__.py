"""Record a run, restore it, rebuild its files, and say where each is from."""
