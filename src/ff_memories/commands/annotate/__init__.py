"""Try a study of annotators before anybody reads."""
