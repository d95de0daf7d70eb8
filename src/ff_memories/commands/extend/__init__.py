"""Extend the package."""
