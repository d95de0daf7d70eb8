"""Section 4: values predict tokens, and whether these follow their keys' triggers."""
