"""Annotate in Label Studio: write its interface and tasks for a run, and convert its export to the forms' CSV."""
