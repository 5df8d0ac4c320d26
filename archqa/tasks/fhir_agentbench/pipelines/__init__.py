"""Pipelines over a FHIR record: the typed query, and the paper's five agents."""
