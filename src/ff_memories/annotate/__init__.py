"""E2 and E14: annotation forms for triggers and compositions, their scoring, and an automatic proxy."""
