"""Check a recorded run as a reviewer would."""
