"""E2 and E14 by machine: a stand-in, always named "proxy", for the people who read triggers and compositions."""

ANNOTATOR = "proxy"
