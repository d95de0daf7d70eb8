"""How far apart two computations of the same number may lie: the limits of everything that compares runs.

A float32 product of d terms is off by about sqrt(d) roundings of its largest terms, each 6e-8 of them, and sixteen
layers add up to some 1e-6. Batches, threads, instruction sets and devices change the order of the terms, hence these
last bits. The limits leave room for wider and deeper models, and stay far below any effect that the paper speaks of.
"""

NUMBER = 1e-4  # coefficients and probabilities: relative to the number itself
TIE = 1e-5  # coefficients that may change places: relative to the larger one
NOISE = 1e-5  # coefficients: also this much of the layer's largest one, for a score near zero is a difference of large
# terms, and its error is relative to them
LOGIT = 1e-4  # log-probabilities that may change places, absolute: probabilities within NUMBER of each other
INTERVAL = 0.1  # a statistic that follows from the tables: this much of its confidence interval's width
