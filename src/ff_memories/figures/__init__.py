"""Draw Figures 2 to 11 of the paper, from tables alone.

``registry`` lists what each figure shows and needs, ``draw`` turns tables into frames and frames into charts, and
``render`` turns charts into files. Nothing here reads the model or the text.
"""
