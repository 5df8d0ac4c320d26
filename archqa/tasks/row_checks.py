"""Checks of submitted rows that several tasks need."""

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

from archqa.tasks.files.mistakes import printable


def is_id(value: Any) -> bool:
    """Whether a value can be an id: a number or a text that is not empty."""
    return isinstance(value, str | int) and not isinstance(value, bool) and value != ""


def are_ids(value: Any) -> bool:
    """Whether a value is a list of texts."""
    return isinstance(value, list) and all(isinstance(element, str) for element in value)


def repeated_ids(rows: Sequence[Any], field: str, verb: str) -> Iterator[str]:
    """An error for each id that several rows have, such as `question_id q1: answered 2 times`."""
    ids = [row.get(field) for row in rows if isinstance(row, dict)]
    counts = Counter(str(row_id) for row_id in ids if is_id(row_id))
    for row_id, count in counts.items():
        if count > 1:
            yield f"{field} {printable(row_id)}: {verb} {count} times; keep one."
