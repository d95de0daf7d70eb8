"""The known numbers of a named checkpoint."""
