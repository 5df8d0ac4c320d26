"""Whether the evidence says yes or no to a yes/no question."""

from collections.abc import Sequence
from enum import StrEnum


class YesNo(StrEnum):
    """How the answer to a yes/no question begins."""

    YES = "Yes"
    NO = "No"
    NOT_STATED = "Not stated"


def yes_no_answer(question: str, evidence: Sequence[str]) -> YesNo | None:
    """Return what the evidence, the best sentence first, says to a question; None if it is not yes/no."""
    return None
