"""Write a run's tables in the formats of the authors' released code."""
