"""Models in float64, one sentence at a time, by the library that they are of."""
