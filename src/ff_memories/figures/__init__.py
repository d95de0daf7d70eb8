"""Draw the paper's figures and our own, from tables alone: nothing here reads the model or the text."""
