"""Formats of other tools that a run is written in: rows, spans, FHIR resources."""
