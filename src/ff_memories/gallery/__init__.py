"""What only the gallery shows of memories: samples, levels, promoted tokens, similar memories."""
