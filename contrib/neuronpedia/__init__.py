"""Export keys and triggers of a run for an instance of Neuronpedia of your own."""
