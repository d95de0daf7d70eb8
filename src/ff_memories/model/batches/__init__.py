"""How sentences run together: packed, or as a forest of prefixes."""
