"""What the paper leaves open, and what its released code does otherwise than its text: data, and a page of it."""
