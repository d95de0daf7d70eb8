"""Annotate in a spreadsheet: write a run's items as sheets, and convert completed sheets to the forms' CSV."""
