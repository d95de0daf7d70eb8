"""E2 and E14: sheets for the people who read triggers and compositions, their scoring, and a stand-in by machine."""
