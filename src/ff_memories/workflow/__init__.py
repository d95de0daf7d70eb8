"""Manage a run under Snakemake and DVC: paths, dvc.yaml, recording, restoring, sharing."""
