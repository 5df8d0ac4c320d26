"""Pipelines over notes: the six stages of DMIS Lab and the panel."""
