"""A run under Snakemake and DVC: its paths, its dvc.yaml, recording and restoring, provenance."""
