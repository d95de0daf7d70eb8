"""Snakemake and DVC: their jobs, their records, their locks."""
