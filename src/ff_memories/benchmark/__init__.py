"""How fast the engine is, against what it cannot do without and against how it is done elsewhere."""
