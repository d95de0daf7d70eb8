"""Read what people annotated: CSV files and Label Studio's exports."""
