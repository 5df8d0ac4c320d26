"""Lines of a note: list items, rows of tables, rules, and lines that continue the one before.

The lines are those of a plain copy: any white space is a space, a tab or `\\n`.
"""

import re
from collections.abc import Sequence
from typing import NamedTuple

from archqa.notes.sections import is_section_title

BULLET = "*•‣◦▪▫●○■□►▶➢➤❖✓✔☐☑☒·∙§\uf0a7\uf0b7\N{REPLACEMENT CHARACTER}"
"""Symbols that are nothing but bullets at the start of a line; `-`, `+`, `#` and `o` are others."""

_DASHES = "-–—−‐‑"
_LIST_MARKER = (
    rf"(?:[{_DASHES}{BULLET}#>+o]+[ \t]"
    rf"|[{_DASHES}{BULLET}#]+(?=\w)"
    r"|\[[ xX]?\][ \t]"
    r"|\(?\d{1,2}[.)][ \t]"
    r"|\(?\d{1,2}[.)](?=[A-Za-z])"
    r"|\(?(?:[a-z]|[ivx]{1,4})[.)][ \t]"
    r"|\(?[A-Z]\)[ \t])"
)
_LIST_LINE = re.compile(rf"[ \t]*{_LIST_MARKER}")
_MARKER_ALONE = re.compile(
    rf"[ \t]*(?:[{_DASHES}{BULLET}#>o]|\(?(?:\d{{1,2}}|[A-Za-z]|[ivx]{{1,4}})[.)])[ \t]*"
)
_HEADING = re.compile(r"[ \t]*[A-Z][^.!?\n]{0,60}:[ \t]*\S?")
_FINAL_PUNCTUATION = re.compile(r"[.!?:;][\"')\]]*$")
_WORD = re.compile(r"\S+")
_MIN_LINE_WIDTH, _MAX_LINE_WIDTH = 40, 132
"""Widths at which editors wrap lines; longer lines were never wrapped."""

_WRAPPED_FRACTION = 0.7
"""A line without a full stop that has this fraction of the widest line was probably wrapped."""

_DASHED_ITEM = re.compile(r"[ \t]*[\w/-]+(?: [\w./%-]+){0,4} - ")
"""`gabapentin 300 - takes 600 at night`: after another such line an item of a list without bullets."""

_MAX_HEADING_WORDS = 8

_BAR_OF_A_NAME = re.compile(r"\b(?:Mr|Mrs|Ms|Miss|Dr|Drs|Prof)\.? *\|", re.IGNORECASE)
"""De-identified notes have a bar for a name: `Ms. | ABC`."""
_CELL_END = re.compile(r" *\| *|[ \t]*\t[ \t]*|(?<![.!?: ]) {3,}")
_PROSE = re.compile(r"[a-z]{3}[.!?] +[A-Z][a-z]")
_MAX_CELL_LENGTH = 160
_MAX_LONE_ROW_LENGTH = 100
"""A line with one tab, between lines without, is a row (`Glucose<tab>110`) if no longer than this."""


class Line(NamedTuple):
    """A line by character offsets; `end` is exclusive. Rows of tables and rules stand alone."""

    start: int
    end: int
    text: str
    stands_alone: bool


def read_lines(text: str, offset: int = 0) -> list[Line]:
    """Return the lines of `text` that are not blank; `offset` is added to their positions."""
    matches = list(re.finditer(r"[^\n]+", text))
    rows = _row_flags([match[0] for match in matches])
    lines = []
    for match, is_row in zip(matches, rows, strict=True):
        content = match[0]
        if content.strip():
            stands_alone = is_row or is_rule(content)
            start, end = match.span()
            lines.append(Line(offset + start, offset + end, content, stands_alone))
    return lines


def is_list_line(line: str) -> bool:
    """Whether the line begins with a bullet, a number or a letter of a list."""
    return _LIST_LINE.match(line) is not None


def is_rule(line: str) -> bool:
    """Whether the line is drawn: `====`, `+---+---+`, `|---|---|`."""
    symbols = line.replace(" ", "")
    return len(symbols) >= 3 and not any(map(str.isalnum, symbols))


def table_cells(line: str) -> list[str]:
    """Return the cells of a row: stretches between bars, tabs or three spaces and more.

    A line that is no row has one cell.
    """
    without_names = _BAR_OF_A_NAME.sub(
        lambda name: name[0].replace("|", "_"), line.strip()
    )
    cells = _CELL_END.split(without_names.strip("| \t"))
    return list(map(str.strip, cells))


def line_width(lines: Sequence[Line]) -> int:
    """Return the width of the widest line in characters."""
    return max((line.end - line.start for line in lines), default=0)


def continues(line: Line, next_line: Line, width: int) -> bool:
    """Whether the next line continues this one; `width` is that of the paragraph's widest line."""
    if line.stands_alone or next_line.stands_alone or is_list_line(next_line.text):
        return False
    if _DASHED_ITEM.match(line.text) and _DASHED_ITEM.match(next_line.text):
        return False
    if _MARKER_ALONE.fullmatch(line.text):
        return True
    title = next_line.text.strip()
    if title[:1].isupper() and is_section_title(title.title()):
        return False
    text = line.text.rstrip()
    # A line in capitals above text that is not in capitals is a heading.
    is_in_capitals = text.isupper() and not next_line.text.isupper()
    if text.endswith(":") or (
        is_in_capitals and len(text.split()) <= _MAX_HEADING_WORDS
    ):
        return False
    next_word = _WORD.search(next_line.text)
    if next_word is None:
        return False
    is_unfinished = not _FINAL_PUNCTUATION.search(text)
    if is_unfinished and len(text) >= _MIN_LINE_WIDTH and next_word[0][0].islower():
        return True
    if not _MIN_LINE_WIDTH <= width <= _MAX_LINE_WIDTH or _HEADING.match(
        next_line.text
    ):
        return False
    if is_unfinished and len(text) >= width * _WRAPPED_FRACTION:
        return True
    next_word_would_fit = len(text) + 1 + len(next_word[0]) <= width
    return not next_word_would_fit


def _row_flags(lines: Sequence[str]) -> list[bool]:
    """Return which lines are rows of a table: alone by several cells, else next to another row."""
    counts = list(map(_cell_count, lines))
    flags = []
    for line, count in zip(lines, counts, strict=True):
        stripped = line.strip()
        is_framed = stripped.startswith("|") or stripped.endswith("|")
        is_short = "\t" in line and len(line) <= _MAX_LONE_ROW_LENGTH
        flags.append(count >= 3 or (count == 2 and (is_framed or is_short)))
    for index in range(len(lines) - 1):
        count, next_count = counts[index], counts[index + 1]
        if count == next_count >= 2:
            flags[index] = flags[index + 1] = True
        if is_rule(lines[index]) and next_count >= 2:
            flags[index + 1] = True
        if is_rule(lines[index + 1]) and count >= 2:
            flags[index] = True
    return flags


def _cell_count(line: str) -> int:
    """Return the number of cells; 1 for a line of prose, whatever white space it has."""
    cells = table_cells(line)
    if max(map(len, cells)) > _MAX_CELL_LENGTH or any(map(_PROSE.search, cells)):
        return 1
    return len(cells)
