"""One answer of two halves: what the resources hold and what the notes say, each fact once."""

import re
from collections.abc import Sequence
from itertools import chain
from typing import NamedTuple

from archqa.asking.answer import Answer, AnswerLine, Evidence
from archqa.terminology.concepts import find_concepts
from archqa.terminology.words import extract_numbers

_ISO_DATE = re.compile(r"\b\d{4}-\d\d(?:-\d\d)?\b")
_US_DATE = re.compile(r"\b\d{1,2}/\d{1,2}(?:/\d{2,4})?\b")


class Lines(NamedTuple):
    """Lines of an answer with all evidence that they cite."""

    lines: tuple[AnswerLine, ...]
    evidence: tuple[Evidence, ...]


def joined_lines(answers: Sequence[Answer]) -> Lines:
    """Return the lines of several answers with their evidence.

    A line that cites nothing beyond the lines before it says the same in other words.
    """
    lines: list[AnswerLine] = []
    cited: set[str] = set()
    for line in chain.from_iterable(answer.lines for answer in answers):
        if not line.citations or not cited.issuperset(line.citations):
            lines.append(line)
        cited.update(line.citations)
    evidence: dict[str, Evidence] = {}
    for row in chain.from_iterable(answer.evidence for answer in answers):
        evidence.setdefault(row.id, row)
    return Lines(tuple(lines), tuple(evidence.values()))


def reconciled(notes: Lines, resources: Lines) -> Lines:
    """Return one list of lines: a value that both have of the same day is one line that cites both."""
    dates = {row.id: row.date[:10] for row in (*notes.evidence, *resources.evidence)}
    own_lines: list[AnswerLine] = []
    also_cited: dict[int, tuple[str, ...]] = {}
    for line in notes.lines:
        same = next(
            (i for i, other in enumerate(resources.lines) if _same(line, other, dates)), None
        )
        if same is None:
            own_lines.append(line)
        else:
            also_cited[same] = (*also_cited.get(same, ()), *line.citations)
    merged = []
    for index, line in enumerate(resources.lines):
        citations = tuple(dict.fromkeys((*line.citations, *also_cited.get(index, ()))))
        merged.append(line.model_copy(update={"citations": citations}))
    return Lines((*own_lines, *merged), (*notes.evidence, *resources.evidence))


def _same(first: AnswerLine, second: AnswerLine, dates: dict[str, str]) -> bool:
    """Whether two lines give one value of one thing on one day."""
    days = [{dates.get(name, "") for name in line.citations} - {""} for line in (first, second)]
    if not days[0] & days[1]:
        return False
    names = [{match.concept.name for match in find_concepts(line.text)} for line in (first, second)]
    values = [_values(line.text) for line in (first, second)]
    return bool(names[0] & names[1]) and bool(values[1]) and values[1] <= values[0]


def _values(text: str) -> frozenset[str]:
    """Return the numbers of a text that are no dates."""
    return extract_numbers(_US_DATE.sub(" ", _ISO_DATE.sub(" ", text)))
