"""What the organisers' scripts refuse, in their words where these are known.

Three messages of the 2025 script are known (`No citations found.`, `Case IDs in key but not in
submission`, `float division by zero`), and that Python cannot encode half of a surrogate pair. Of
the 2026 scripts only the type of the error is known; the rest of these messages is ours.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from .submission import parse_answer, read_submission
from .tasks import archehr2025, archehr2026
from .tasks.archehr2026 import Subtask
from .tasks.archehr2026_predictions import (
    empty_predictions,
    read_predictions,
    scored_texts,
    unknown_ids,
)
from .tasks.selection import case_id_refusal

Row = Mapping[str, Any]


def refusals_2025(
    submission: Sequence[Row], references: Sequence[archehr2025.Reference]
) -> Iterator[str]:
    """The messages of the 2025 script, in the order of its checks; it stops at the first.

    It refuses answers without citations, cases that do not match the key (ids are texts, so that
    the number 3 is not case "3"), and answers that are empty or cannot be encoded as UTF-8.
    Raises ScoringError for malformed rows.
    """
    answers = [parse_answer(*row) for row in read_submission(submission)]
    for answer in answers:
        if not answer.citations:
            yield f"AssertionError: [case {answer.case_id}]: No citations found."
    labelled = [reference.case_id for reference in references if reference.labels]
    yield from _case_id_refusals(submission, labelled)
    for answer in answers:
        if not answer.text:
            yield "ZeroDivisionError: float division by zero"
        yield from _encoding_refusals(answer.text)


def refusals_2026(
    submission: Sequence[Row],
    references: Sequence[archehr2026.Reference],
    subtask: Subtask,
) -> Iterator[str]:
    """The messages for a submission to a subtask of 2026; the scripts stop at the first error.

    They refuse empty texts (subtasks 1 and 3), cases that do not match the key, ids that answer or
    note do not have (2 and 4), and texts that cannot be encoded as UTF-8 (1 and 3). Raises
    ScoringError for malformed rows.
    """
    cases = archehr2026.scorable_cases(references, subtask)
    predictions = read_predictions(submission, subtask)
    for case_id in empty_predictions(predictions, subtask):
        yield f"ValueError: [case {case_id}]: Empty prediction."
    yield from _case_id_refusals(submission, list(cases))
    for case_id, problem in unknown_ids(predictions, cases, subtask):
        yield f"ValueError: [case {case_id}]: {problem}"
    for text in scored_texts(predictions, subtask):
        yield from _encoding_refusals(text)


def _case_id_refusals(submission: Sequence[Row], key: Sequence[str]) -> Iterator[str]:
    refusal = case_id_refusal([row["case_id"] for row in submission], key)
    if refusal:
        yield f"ValueError: {refusal}"


def _encoding_refusals(text: str) -> Iterator[str]:
    try:
        text.encode("utf-8")
    except UnicodeEncodeError as error:
        yield f"UnicodeEncodeError: {error}"
