"""Section 3: keys are pattern detectors. Triggers, what removing a token does to them, the patterns that people see."""
