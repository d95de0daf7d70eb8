"""Section 5: memories compose a layer's prediction, and layers refine the model's."""
