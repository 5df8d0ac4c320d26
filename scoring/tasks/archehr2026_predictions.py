"""The predictions of an ArchEHR-QA 2026 submission: their form, and what is refused officially.

Words are split at any whitespace, and texts are cut to the subtask's limit.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ..errors import ScoringError
from ..id_lists import list_ids
from ..lint import surrogate_warning
from ..submission import read_submission

if TYPE_CHECKING:
    from .archehr2026 import Reference, Subtask

WORD_LIMITS = {1: 15, 3: 75}
OFFICIALLY_REFUSED = "; the official script refuses the whole submission for that."


@dataclass(frozen=True)
class Prediction:
    """One row of a submission; the value is None for a case without an answer."""

    case_id: str
    value: Any


def read_predictions(submission: Sequence[Mapping[str, Any]], subtask: Subtask) -> list[Prediction]:
    """The rows of a submission, whose ids may be unknown to the key.

    Raises ScoringError that lists every prediction of another form than the subtask's.
    """
    kind = str if subtask in WORD_LIMITS else list
    rows = [Prediction(*row) for row in read_submission(submission, "prediction", kind)]
    mistakes: list[str] = []
    for row in rows:
        if subtask == 2 and not _are_ids(row.value):
            problem = "the prediction must be a list of sentence ids as strings"
            mistakes.append(f"case {row.case_id}: {problem}")
        elif subtask == 4 and not all(map(_is_link, row.value)):
            link_format = '{"answer_id": "1", "evidence_id": ["2", "5"]}'
            mistakes.append(f"case {row.case_id}: a link is not of the form {link_format}")
    if mistakes:
        raise ScoringError.from_mistakes("submission refused, as officially", mistakes)
    return rows


def unknown_ids(
    predictions: Sequence[Prediction],
    cases: Mapping[str, Reference],
    subtask: Subtask,
) -> Iterator[tuple[str, str]]:
    """(case id, problem) for the ids in predictions that the case's answer or note does not have.

    The official scripts refuse the whole submission for one of them.
    """
    for prediction in predictions:
        reference = cases.get(prediction.case_id)
        if reference is None:
            continue
        problems: Iterable[str] = ()
        if subtask == 2:
            problems = _unknown_evidence(prediction.value, reference)
        elif subtask == 4:
            problems = _unknown_in_links(prediction.value, reference)
        for problem in problems:
            yield prediction.case_id, problem


def empty_predictions(predictions: Sequence[Prediction], subtask: Subtask) -> list[str]:
    """The case ids of the texts (subtasks 1 and 3) without a word, which are refused officially."""
    if subtask not in WORD_LIMITS:
        return []
    return [row.case_id for row in predictions if not row.value.split()]


def scored_texts(predictions: Sequence[Prediction], subtask: Subtask) -> list[str]:
    """The predicted texts (subtasks 1 and 3), cut to the subtask's words."""
    if subtask not in WORD_LIMITS:
        return []
    return [cut_text(row.value, WORD_LIMITS[subtask]) for row in predictions]


def text_warnings(predictions: Sequence[Prediction], subtask: Subtask) -> list[str]:
    """Warnings about texts (subtasks 1 and 3) that the official script refuses."""
    empty = empty_predictions(predictions, subtask)
    warnings = [f"case {case_id}: has no words{OFFICIALLY_REFUSED}" for case_id in empty]
    texts = scored_texts(predictions, subtask)
    for prediction, text in zip(predictions, texts, strict=False):
        warnings += surrogate_warning(prediction.case_id, text)
    return warnings


def _are_ids(value: object) -> bool:
    return isinstance(value, list) and all(isinstance(sentence, str) for sentence in value)


def _is_link(value: object) -> bool:
    if not isinstance(value, Mapping) or not isinstance(value.get("answer_id"), str):
        return False
    return _are_ids(value.get("evidence_id"))


def _unknown_evidence(sentences: Sequence[str], reference: Reference) -> Iterator[str]:
    sentence_ids = _sentence_ids(reference)
    unknown = [repr(sentence) for sentence in sentences if sentence not in sentence_ids]
    if unknown:
        yield f"the note has no sentence {list_ids(unknown)}"


def _unknown_in_links(links: Sequence[Mapping[str, Any]], reference: Reference) -> Iterator[str]:
    sentence_ids = _sentence_ids(reference)
    for link in links:
        if link["answer_id"] not in reference.citations:
            yield f"the answer has no sentence {link['answer_id']!r}"
        for sentence in link["evidence_id"]:
            if sentence not in sentence_ids:
                yield f"the note has no sentence {sentence!r}"


def _sentence_ids(reference: Reference) -> set[str]:
    return reference.sentences.keys() | reference.labels.keys()


def limit_warnings(rows: Mapping[str, Prediction], subtask: Subtask) -> list[str]:
    """Warnings about texts that are longer than the subtask's limit."""
    if subtask not in WORD_LIMITS:
        return []
    limit = WORD_LIMITS[subtask]
    warnings = []
    for row, prediction in rows.items():
        text = str(prediction.value or "")
        count = len(text.split())
        if count > limit:
            warnings.append(f"case {row}: {count} words; what follows word {limit} is not scored.")
    return warnings


def cut_text(text: str, limit: int) -> str:
    """The text as it is, or its first words if it has more than the limit."""
    words = text.split()
    if len(words) <= limit:
        return text
    return " ".join(words[:limit])
