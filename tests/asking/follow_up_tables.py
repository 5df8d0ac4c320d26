"""Reads the tables of threads: questions, invented answers, follow-ups, and how they are understood."""

import re
from collections.abc import Iterator
from datetime import date
from pathlib import Path
from typing import NamedTuple

from archqa.asking.answer import AnswerLine, Evidence, Status
from archqa.asking.thread import Thread, Turn
from archqa.asking.thread.follow_up import (
    NoQuestion,
    ShowEvidence,
    Standalone,
    Unclear,
    resolve,
)
from archqa.query.questions.everyday import NameIndex, PatientVocabulary

FOLDER = Path(__file__).resolve().parent
TODAY = date(2026, 11, 23)
NO_RECORD = PatientVocabulary(tuple, lambda: NameIndex(()), lambda: NameIndex(()))

_DATE = re.compile(r"\d{4}-\d\d-\d\d")
_AFTER_NAME = re.compile(r", ordered|, since| on \d{4}| from \d{4}|, once|, twice|: ")
_DROPPED = {"the", "a", "an", "his", "her", "my", "their"}


class Expected(NamedTuple):
    """A follow-up, the turns before it, and what may be understood."""

    typed: str
    thread: Thread
    understood: tuple[str, ...]


def threads(file_name: str) -> Iterator[Expected]:
    """Yield the follow-ups of a table, each after the turns before it, as the table has them."""
    thread = Thread()
    for line in (FOLDER / file_name).read_text().splitlines():
        if not line.strip() or line.startswith("#"):
            continue
        cells = [*line.split("\t"), "", "", ""]
        if not line.startswith(">"):
            thread = Thread()
            thread.add(turn(cells[0], cells[0], cells[1], cells[2]))
            continue
        typed, understood = cells[0].removeprefix("> "), tuple(cells[1].split("||"))
        yield Expected(typed, thread.copy(), understood)
        if understood[0] not in {"UNCLEAR", "SHOW", "NONE"}:
            standalone = typed if understood[0] == "NEW" else understood[0]
            former = thread.last
            following = turn(typed, standalone, cells[2], cells[3])
            if not cells[2] and former:
                kept = {
                    name: getattr(former, name)
                    for name in ("lines", "evidence", "status")
                }
                following = following.model_copy(update=kept)
            thread.add(following)


def understood_as(typed: str, thread: Thread) -> str:
    """Return how a follow-up is understood, in the words of the tables."""
    follow_up = resolve(typed, thread, NO_RECORD, TODAY)
    if isinstance(follow_up, Standalone):
        return "NEW" if follow_up.question == typed else follow_up.question
    return {ShowEvidence: "SHOW", NoQuestion: "NONE", Unclear: "UNCLEAR"}[
        type(follow_up)
    ]


def is_expected(understood: str, expected: Expected) -> bool:
    """Whether it is one of the expected questions, articles and signs aside."""
    return _plain(understood) in {_plain(each) for each in expected.understood}


def turn(typed: str, understood: str, answer: str, source: str) -> Turn:
    """Return a turn with the lines of an answer and evidence of one source."""
    texts = answer.split(" // ") if answer not in ("", "-") else []
    evidence = [
        _evidence(text, source, number) for number, text in enumerate(texts, start=1)
    ]
    lines = [
        AnswerLine(text=text, citations=(piece.id,))
        for text, piece in zip(texts, evidence, strict=True)
    ]
    return Turn(
        question=typed,
        understood=understood,
        status=Status.ANSWERED if lines else Status.NOT_FOUND,
        lines=tuple(lines),
        evidence=tuple(evidence),
    )


def _evidence(text: str, source: str, number: int) -> Evidence:
    if source == "note":
        return Evidence(id=f"n1.{number}", kind="sentence", text=text)
    found = _DATE.search(text)
    name = _AFTER_NAME.split(re.sub(r"^(Yes|No): ", "", text))[0]
    value = re.match(r"(.*?) ([\d./]+ \S+)$", name)
    if value and source == "Observation":
        name = f"{value[1]}, {value[2]}"
    return Evidence(
        id=f"{source}/{number}",
        kind="resource",
        text=f"{name}, final",
        source=source,
        date=found[0] if found else "",
    )


def _plain(text: str) -> str:
    words = re.sub(r"[^a-z0-9\- ]", " ", text.lower()).split()
    return " ".join(word for word in words if word not in _DROPPED)
