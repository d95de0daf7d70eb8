"""E2 and E14: annotation sheets for triggers and compositions, their scoring, and an automatic proxy."""
