"""What can be wrong with a query that is well-formed."""

from archqa.errors import CallerError


class CannotExecute(CallerError):
    """A query that has no meaning for this record. Its message can be said to whoever wrote the query."""
