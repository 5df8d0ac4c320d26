"""Pipelines over notes: the six stages of DMIS Lab, by a model and by the embedded engine."""
