"""The paper's sections, each with what it computes, its tables, claims, figures and steps."""
