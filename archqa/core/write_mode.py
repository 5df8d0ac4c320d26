"""What becomes of a write to a FHIR record."""

from enum import StrEnum


class WriteMode(StrEnum):
    """Refuse it, only record it, validate it without storing it, or store it."""

    READ_ONLY = "read-only"
    RECORD = "record"
    VALIDATE = "validate"
    APPLY = "apply"
