"""How sentences run together: packed, padded, or as a forest of prefixes."""
