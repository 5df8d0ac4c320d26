"""The kinds of rows: one declaration for each, read by executor, model, grammar, wording and docs.

A declaration says which resources hold the rows, at which paths, which statuses are no facts, which
are current, and which fields can be returned. A new kind is one more `KindOfRows` in `table.py` and
one `Source` in `sources.py`: `declared_rows.py` reads it. The kinds of MIMIC-IV on FHIR keep row
functions of their own (`reader`), whose names `row_sources.py` knows.
"""

from archqa.query.kinds.declaration import (
    ERROR,
    KindOfRows,
    Reader,
    ReturnedField,
    RowKind,
    Source,
    Statuses,
)
from archqa.query.kinds.sources import (
    CONDITION,
    ENCOUNTER,
    MEDICATION_ADMINISTRATION,
    MEDICATION_DISPENSE,
    MEDICATION_REQUEST,
    MEDICATION_STATEMENT,
    OBSERVATION,
    PROCEDURE,
)
from archqa.query.kinds.table import KINDS

__all__ = [
    "CONDITION",
    "ENCOUNTER",
    "ERROR",
    "KINDS",
    "MEDICATION_ADMINISTRATION",
    "MEDICATION_DISPENSE",
    "MEDICATION_REQUEST",
    "MEDICATION_STATEMENT",
    "OBSERVATION",
    "PROCEDURE",
    "KindOfRows",
    "Reader",
    "ReturnedField",
    "RowKind",
    "Source",
    "Statuses",
]
