"""Split paragraphs into sentences and tokens."""
