"""What a run takes before it starts: its steps' work, this machine's speed, and that of GPUs that are not here."""
