"""Figures 2 to 11 of the paper, drawn from tables alone.

``catalogue`` says what each figure shows and needs, ``draw`` turns tables into frames and frames into charts,
``render`` turns charts into files. Nothing here knows the model or the text.
"""
