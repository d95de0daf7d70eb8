"""Beyond the paper: what changing or removing memories does to predictions."""
