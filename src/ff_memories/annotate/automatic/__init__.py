"""The automatic proxy: it finds patterns by counting, where the paper asked people."""
