"""What answers of a model from a note and from a chart have in common."""

from collections.abc import Iterable

from archqa.agents.line_check import AnswerVerdict
from archqa.asking.answer import Answer, Status
from archqa.core.id_lists import list_ids

REMOVED = "Lines were left out that what they cite does not support."
PARTLY_ANSWERED = "The lines answer only a part of the question."


def phrase(words: str) -> str:
    """Return a phrase on one line, without the full stop that a model may have set."""
    return " ".join(words.split()).rstrip(".")


def declined_text(place: str, judgement: str) -> str:
    """Return that a note or chart (`place`) does not state a judgement, which is not made."""
    return (
        f"This asks for a judgement that the {place} does not state and that is not made here: "
        f"{phrase(judgement)}."
    )


def not_understood_answer(question: str, words: Iterable[str]) -> Answer:
    """Return which words of a question were not understood."""
    unknown = tuple(" ".join(word.split()) for word in words if word.strip())
    quoted = list_ids(f'"{word}"' for word in unknown)
    return Answer(
        question=question,
        status=Status.NOT_UNDERSTOOD,
        message=f"Not understood: {quoted}.",
        not_understood=unknown,
    )


def with_remarks(
    answer: Answer, verdict: AnswerVerdict, missing: str, line_count: int
) -> Answer:
    """Return an answer of supported lines with what it lacks.

    `line_count` is the number of lines before the check, `missing` what the model found nowhere.
    """
    remarks = []
    if len(answer.lines) < line_count:
        remarks.append(REMOVED)
    is_partial = True
    if missing.strip():
        remarks.append(f"Not stated: {phrase(missing)}.")
    elif verdict.answers == "partly":
        remarks.append(PARTLY_ANSWERED)
    else:
        is_partial = False
    changes = {"remarks": tuple(remarks), "is_partial": is_partial}
    return answer.model_copy(update=changes)
