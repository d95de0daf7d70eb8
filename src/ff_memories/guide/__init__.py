"""Pages about the workflow that follow from what it is: its steps, and what the demo came to."""
