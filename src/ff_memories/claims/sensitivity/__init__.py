"""What each choice that the paper leaves open does to each of its claims."""
