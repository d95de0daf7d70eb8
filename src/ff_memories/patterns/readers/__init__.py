"""Read what people annotated: CSV files, Label Studio and doccano exports."""
