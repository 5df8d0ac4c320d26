"""What belongs to a sentence of a note and stands elsewhere: the dated opening, the row's label."""

import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from archqa.agents.grounding import dates_in_figures
from archqa.core.case import Sentence
from archqa.notes.lines import table_cells

_OPENING_SENTENCES = 5
_MAX_OPENING_CHARACTERS = 300
_NUMERIC_DATE = re.compile(r"(?<!\d)\d{1,4}[-/.]\d{1,2}[-/.]\d{1,4}(?!\d)")
_MONTH_OR_YEAR = re.compile(r"(?:\d{1,2}/)?\d{4}(?:-\d{2})?|\d{1,2}/\d{2}")
_EMPTY_FIRST_CELL = re.compile(r"\s*\|\s*\|")


def dated_opening(texts: Sequence[str]) -> str:
    """Return those of the first sentences of a note that have a date, such as "DOS: 03/12/2026"."""
    dated = [text for text in texts[:_OPENING_SENTENCES] if has_date(text)]
    return " ".join(" ".join(dated).split())[:_MAX_OPENING_CHARACTERS]


def row_labels(sentences: Sequence[Sentence], lines: Sequence[int]) -> dict[int, str]:
    """Return what belongs to a row of a table and stands in another sentence, by position.

    It is the label cell, where a sentence goes on in the same line of the note or in a row below
    with an empty first cell; and the first row of the table, if it has the dates of the columns.
    `lines` are the numbers of the sentences' lines.
    """
    text_of_line: dict[int, str] = {}
    for sentence, line in zip(sentences, lines, strict=True):
        text_of_line[line] = f"{text_of_line.get(line, '')} {sentence.text}".strip()
    row_of_line = dict(_rows(text_of_line))
    labels = {}
    for position, (sentence, line) in enumerate(zip(sentences, lines, strict=True)):
        if line in row_of_line:
            labels[position] = row_of_line[line].beside(sentence.text)
    return {position: label for position, label in labels.items() if label}


class _Row(NamedTuple):
    """A row of a table: its label and the row with the dates of the columns, if any."""

    label: str
    dates: str

    def beside(self, text: str) -> str:
        """Return label and dates where a text of the row does not begin with the label."""
        is_begin = text.lstrip("| \t").startswith(self.label)
        return "; ".join(filter(None, (self.dates, "" if is_begin else self.label)))


def _rows(text_of_line: dict[int, str]) -> Iterator[tuple[int, _Row]]:
    """Yield each row of a table by its line; a row with an empty first cell has the label before."""
    label = dates = ""
    former_width = 0
    for line, text in text_of_line.items():
        cells = _cells(text)
        if len(cells) < 2:
            former_width = 0
            continue
        label = cells[0] or label
        if len(cells) == former_width:
            yield line, _Row(label, dates)
        else:
            dates = " | ".join(cells) if all(map(_is_date, cells[1:])) else ""
            yield line, _Row(label, "")
        former_width = len(cells)


def _cells(text: str) -> list[str]:
    cells = table_cells(text)
    return ["", *cells] if _EMPTY_FIRST_CELL.match(text) else cells


def _is_date(cell: str) -> bool:
    return has_date(cell) or _MONTH_OR_YEAR.fullmatch(cell) is not None


def has_date(text: str) -> bool:
    """Whether a text names a day or a month."""
    return _NUMERIC_DATE.search(text) is not None or bool(dates_in_figures(text))
