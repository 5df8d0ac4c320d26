"""The answer to a person's question as a FHIR Bundle, each line with its Provenance."""

from datetime import UTC, datetime
from typing import Any

from archqa.asking.answer import Answer
from archqa.core.version import __version__
from archqa.fhir.views.answer_bundle import AnsweredLine, AnsweredQuestion, answer_bundle


def fhir_answer(answer: Answer) -> dict[str, Any]:
    """Return the Bundle that `archqa ask --format fhir` prints."""
    at = datetime.now(UTC)
    answered = AnsweredQuestion(
        question=answer.question,
        status=answer.status.value,
        lines=tuple(AnsweredLine(line.text, line.citations) for line in answer.lines),
        at=at,
        version=__version__,
        message=answer.message,
        patient=answer.patient["id"] if answer.patient else None,
        model=answer.answered_by.model or "",
        remarks=answer.remarks,
    )
    return answer_bundle([answered], at)
