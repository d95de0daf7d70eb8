"""Compare several models on one page, from their runs' tables alone: no model and no text is read.

``runs`` reads the runs, ``match`` says what differs between them, ``panels`` measures, and ``build`` writes the page
and its figures.
"""
