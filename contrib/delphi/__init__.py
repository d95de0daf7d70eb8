"""Export chosen keys of a run for delphi, EleutherAI's library for automatic interpretation."""
