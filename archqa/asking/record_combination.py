"""The parts of an answer together: one verdict on one thing, and nothing said twice."""

from collections.abc import Iterator, Sequence

from archqa.asking.answer import Status
from archqa.asking.record_absence import nothing_text
from archqa.asking.record_statements import Part


def combined(parts: Sequence[Part]) -> list[Part]:
    """Return the parts, with one verdict for those that look for the same thing in several kinds of rows.

    A yes stands first and against a no: what was not ordered may have been given.
    """
    positive = {part.topic for part in parts if part.verdict.startswith("Yes")}
    found = {part.topic for part in parts if part.status is Status.ANSWERED}
    kept: list[Part] = []
    told: set[tuple[str, str]] = set()
    for part in sorted(parts, key=lambda part: part.topic in positive and _is_no(part)):
        is_repeated = (part.topic, part.verdict) in told
        if is_repeated or (part.topic in positive and _is_no(part)):
            part = part._replace(verdict="")
        if part.status is not Status.ANSWERED and part.topic in found:
            remarks = [*part.remarks, *_elsewhere(part)]
            part = part._replace(message="", subject="", remarks=tuple(remarks))
        told.add((part.topic, part.verdict))
        kept.append(part)
    return _told_once(kept)


def _told_once(parts: Sequence[Part]) -> list[Part]:
    """The parts without statements that an earlier one makes."""
    told: set[str] = set()
    kept = []
    for part in parts:
        fresh = tuple(each for each in part.statements if each.text not in told)
        told.update(statement.text for statement in fresh)
        kept.append(part._replace(statements=fresh))
    return kept


def _elsewhere(part: Part) -> Iterator[str]:
    """Yield where there was nothing of what stands elsewhere."""
    for rows in part.searched:
        yield f"The record has {rows}." if rows.startswith("no ") else f"Not among {rows}."


def _is_no(part: Part) -> bool:
    return not part.verdict.startswith("Yes")


def absence_message(parts: Sequence[Part]) -> str:
    """Return what was not found: absences of the same subject as one sentence, each sentence once."""
    searched: dict[str, list[str]] = {}
    sentences: dict[str, str] = {}
    for part in parts:
        if part.subject:
            searched.setdefault(part.subject, []).extend(part.searched)
            sentences[part.subject] = nothing_text(part.subject, searched[part.subject])
        elif part.message:
            sentences[part.message] = part.message
    return " ".join(sentences.values())
