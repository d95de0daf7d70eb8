"""Compare several models on one page, from their runs' tables alone: no model and no text is read."""
