"""Text that readers see: escaped, and put into templates."""
