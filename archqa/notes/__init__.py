"""The text of clinical notes: sentences, sections, terminology."""

DOCUMENT_TYPES = ("DocumentReference", "DiagnosticReport", "Composition")
"""The resource types whose text is read as notes."""
