"""What figures are put together from: marks and axes, the paper's values beside ours, links, phrases."""
