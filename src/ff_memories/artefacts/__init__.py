"""Snakemake computes a run and DVC stores it: what keeps the two in step, and lets others check what was stored."""
