"""Shortens an answer to what a reader asked for: whole lines, never half a sentence."""

from archqa.asking.answer import Answer, AnswerLine
from archqa.errors import CallerError


def within_words(answer: Answer, max_words: int) -> Answer:
    """Return the answer with as many of its lines, from the first, as have at most `max_words`.

    The first line always stays, since half of it could mean something else. A remark says what was
    left out. Raises `CallerError` for a limit below 1.
    """
    if max_words < 1:
        raise CallerError("An answer has at least one word.\nName a larger number of words.")
    kept = _fitting(answer.lines, max_words)
    remarks = [*answer.remarks]
    if len(kept) < len(answer.lines):
        remarks.append(_left_out(answer.lines[len(kept) :], max_words))
    if kept and _words(kept) > max_words:
        remarks.append(f"The first line has {_words(kept)} words; it is not cut.")
    cited = {citation for line in kept for citation in line.citations}
    evidence = tuple(line for line in answer.evidence if line.id in cited)
    changes = {"lines": kept, "evidence": evidence, "remarks": tuple(remarks)}
    return answer.model_copy(update=changes)


def _fitting(lines: tuple[AnswerLine, ...], max_words: int) -> tuple[AnswerLine, ...]:
    for count in range(len(lines), 1, -1):
        if _words(lines[:count]) <= max_words:
            return lines[:count]
    return lines[:1]


def _left_out(lines: tuple[AnswerLine, ...], max_words: int) -> str:
    what = "1 line" if len(lines) == 1 else f"{len(lines)} lines"
    return f"Left out to stay within {max_words} words: {what} with {_words(lines)} words."


def _words(lines: tuple[AnswerLine, ...]) -> int:
    return sum(len(line.text.split()) for line in lines)
