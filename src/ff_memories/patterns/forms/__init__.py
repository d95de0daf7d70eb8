"""The forms that annotators fill in, apart from what scores them: a new look of a form changes no result."""
