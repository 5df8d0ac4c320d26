"""Errors of queries that are well-formed but cannot be executed."""

from archqa.errors import CallerError


class CannotExecute(CallerError):
    """A query has no meaning for this record. The message addresses the author of the query."""
