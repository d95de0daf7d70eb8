"""Annotation forms, separate from their scoring, so a change to a form changes no result."""
