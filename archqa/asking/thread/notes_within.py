"""Keeps what notes say within the time that "before that?" sets: searching them knows no dates."""

from archqa.asking.answer import Answer, AnswerLine, Status
from archqa.asking.thread.other_time import TimeLimit


def notes_within(answer: Answer, limit: TimeLimit) -> Answer:
    """Return the answer without lines that rest only on notes dated outside a limit.

    A remark says how many lines were left out; without any line nothing is found.
    """
    outside = {
        piece.id
        for piece in answer.evidence
        if piece.kind == "sentence" and not (piece.date and limit.holds(piece.date))
    }
    kept = tuple(line for line in answer.lines if not _rests_on(line, outside))
    if len(kept) == len(answer.lines):
        return answer
    count = len(answer.lines) - len(kept)
    lines = "1 line" if count == 1 else f"{count} lines"
    remark = f"Left out: {lines} of notes that are not dated {limit.words}."
    cited = {name for line in kept for name in line.citations}
    changes: dict[str, object] = {
        "lines": kept,
        "evidence": tuple(piece for piece in answer.evidence if piece.id in cited),
        "remarks": (*answer.remarks, remark),
    }
    if not kept:
        message = f"No note dated {limit.words} answers this."
        changes |= {"status": Status.NOT_FOUND, "message": message}
    return answer.model_copy(update=changes)


def _rests_on(line: AnswerLine, outside: set[str]) -> bool:
    return bool(line.citations) and set(line.citations) <= outside
