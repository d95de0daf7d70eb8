"""Draw the paper's figures and our own, from tables alone.

``registry`` lists what each figure shows and needs, and each section of the paper has the functions that draw its
figures, from ``marks`` (axes, notes, phrases), ``charts`` (the kinds of charts by layer), ``controls`` (chance and
untrained models) and ``paper`` (the paper's values). ``draw`` turns tables into frames and frames into charts, and
``render`` turns charts into files. Nothing here reads the model or the text.
"""
