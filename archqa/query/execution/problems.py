"""Errors of queries that are well-formed but cannot be executed."""

from archqa.errors import CallerError


class CannotExecute(CallerError):
    """A query that has no meaning for this record. The message is fit for the author of the query."""
