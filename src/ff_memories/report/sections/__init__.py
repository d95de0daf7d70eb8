"""What stands in the report: its sections in the paper's order, their answers, methods, annotators and choices."""
