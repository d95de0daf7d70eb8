"""Compare several models on one page, from their runs' tables alone: no model and no text is read.

``runs`` reads the runs, ``settings`` finds the config that each was made with, ``match`` says what differs between
them, ``panels`` measures, and ``build`` writes the page and its figures. ``recorded`` keeps a finished atlas's runs in
one file, from which they can be drawn again without their tables.
"""
