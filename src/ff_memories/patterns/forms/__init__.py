"""Annotation forms, separate from their scoring, so that a change to a form changes no result."""
