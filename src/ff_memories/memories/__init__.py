"""The science: memory coefficients, top triggers, mutations, value predictions, composition and refinement."""
