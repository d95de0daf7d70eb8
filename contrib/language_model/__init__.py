"""Let a language model label the items that people label, and compare its labels with people's and the proxy's."""
