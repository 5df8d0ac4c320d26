"""Parse an answer as the official 2025 script does: lines, citations between pipes, 75 words.

Follows `load_submission` of soni-sarvesh/archehr-qa at 771b948 in all details: ids are not
stripped, only the last pair of pipes in a line counts, text after the last pipe is dropped, a full
stop is added, words are split at the space character only, and citations are collected before the
text is cut, so that those on cut lines count.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from .errors import ScoringError
from .id_lists import list_ids

WORD_LIMIT = 75


class Line(NamedTuple):
    """A line of an answer: its sentence and the ids between its last two pipes."""

    text: str
    citations: tuple[str, ...]


@dataclass(frozen=True)
class ParsedAnswer:
    """An answer as the official scorer reads it.

    `text` is cut to 75 words; `citations` are those of all lines.
    """

    case_id: str
    lines: tuple[Line, ...]

    @property
    def whole_text(self) -> str:
        """All sentences on one line, uncut."""
        return " ".join(line.text for line in self.lines if line.text)

    @property
    def words(self) -> int:
        """Words before the cut, counted at spaces."""
        return len(_words(self.whole_text))

    @property
    def text(self) -> str:
        """The text that is scored: `whole_text` unchanged, unless it is over the limit."""
        whole_text = self.whole_text
        words = _words(whole_text)
        if len(words) <= WORD_LIMIT:
            return whole_text
        return " ".join(words[:WORD_LIMIT])

    @property
    def citations(self) -> frozenset[str]:
        """All ids that a line cites, not stripped."""
        citations: set[str] = set()
        for line in self.lines:
            citations.update(line.citations)
        return frozenset(citations)


def parse_answer(case_id: str, answer: str) -> ParsedAnswer:
    """An answer as the official scorer reads it; any text can be parsed."""
    lines = []
    for line in answer.strip().split("\n"):
        if line.strip():
            lines.append(_parse_line(line))
    return ParsedAnswer(case_id, tuple(lines))


def read_submission(
    rows: Sequence[Mapping[str, Any]],
    field: str = "answer",
    kind: type = str,
) -> list[tuple[str, Any]]:
    """(case id, value of `field`) for all rows of a submission, with duplicates.

    Raises ScoringError that lists every row without a case id or with a value of another type than
    `kind`.
    """
    if not isinstance(rows, Sequence) or isinstance(rows, str):
        row_format = f'{{"case_id": …, "{field}": …}}'
        raise ScoringError(f"a submission is a list of {row_format}, not a {type(rows).__name__}.")
    mistakes = []
    for index, row in enumerate(rows):
        if mistake := _find_mistake(index, row, field, kind):
            mistakes.append(mistake)
    if mistakes:
        raise ScoringError.from_mistakes("submission", mistakes)
    return [(str(row["case_id"]), row[field]) for row in rows]


def _find_mistake(index: int, row: object, field: str, kind: type) -> str | None:
    if not isinstance(row, Mapping):
        return f'row {index}: not an object; write {{"case_id": …, "{field}": …}}'
    if not isinstance(row.get("case_id"), str | int):
        return f"row {index}: no case_id; give the case's id as a string"
    if field not in row:
        return f"case {row['case_id']}: no {field!r}; its keys are {list_ids(list(map(str, row)))}"
    if not isinstance(row[field], kind):
        actual = type(row[field]).__name__
        return f"case {row['case_id']}: {field!r} is a {actual}; it must be a {kind.__name__}"
    return None


def _parse_line(line: str) -> Line:
    parts = line.rsplit("|", maxsplit=2)
    if len(parts) < 3:
        return Line(_with_full_stop(line.strip()), ())
    sentence, ids, _ = parts
    citations = tuple(citation for citation in ids.split(",") if citation.strip())
    return Line(_with_full_stop(sentence.strip()), citations)


def _with_full_stop(sentence: str) -> str:
    if not sentence or sentence[-1] in ".!?":
        return sentence
    return sentence + "."


def _words(text: str) -> list[str]:
    return [word for word in text.split(" ") if word.strip()]
