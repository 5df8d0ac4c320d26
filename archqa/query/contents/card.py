"""The card of a patient's record: kinds of rows with counts, dates, names and attributes.

It has at most `MAX_CARD_CHARACTERS`. Every kind is on it; the remaining room is dealt out to names
and attributes in turn, the most frequent first.
"""

from collections.abc import Iterator
from typing import NamedTuple

from archqa.query.contents.counted_values import CountedValue, rows_text
from archqa.query.contents.inventory import LIMIT_OF_FACT, KindContents, RecordContents
from archqa.query.kinds import KINDS

MAX_CARD_CHARACTERS = 6000


class _Line(NamedTuple):
    """A line of the card whose values are shown as far as there is room."""

    label: str
    values: tuple[str, ...]

    def text(self, shown: int) -> str:
        """The line with its first values, and how many more there are; empty without any."""
        if not shown:
            return ""
        hidden = len(self.values) - shown
        rest = f" … and {hidden} more" if hidden else ""
        return f"\n  {self.label}: {', '.join(self.values[:shown])}{rest}"

    def growth(self, shown: int) -> int:
        """By how many characters one more value lengthens the line."""
        return len(self.text(shown + 1)) - len(self.text(shown))


class _Block(NamedTuple):
    heading: str
    lines: tuple[_Line, ...]


def contents_card(contents: RecordContents, max_characters: int = MAX_CARD_CHARACTERS) -> str:
    """The card as text for a prompt."""
    blocks = [_block(kind) for kind in contents.kinds.values()]
    absent = _absent_text(contents)
    headings = "\n".join([*(block.heading for block in blocks), absent])
    lines = [line for block in blocks for line in block.lines]
    shown = iter(_shown_values(lines, max_characters - len(headings)))
    texts = [
        block.heading + "".join(line.text(next(shown)) for line in block.lines) for block in blocks
    ]
    return "\n".join([*texts, absent]).strip()


def _shown_values(lines: list[_Line], room: int) -> list[int]:
    """How many values of each line fit: one of each line in turn, until nothing more fits."""
    shown = [0] * len(lines)
    open_places = list(range(len(lines)))
    while open_places:
        still_open = []
        for place in open_places:
            line = lines[place]
            if shown[place] < len(line.values) and line.growth(shown[place]) <= room:
                room -= line.growth(shown[place])
                shown[place] += 1
                still_open.append(place)
        open_places = still_open
    return shown


def _block(kind: KindContents) -> _Block:
    return _Block(f"{kind.what}: {rows_text(kind.number, kind.dates)}", tuple(_lines(kind)))


def _lines(kind: KindContents) -> Iterator[_Line]:
    """Yield the lines of a kind: starts of stays, attributes, names."""
    if kind.starts:
        yield _Line("starts, latest first", kind.starts)
    for fact, values in kind.facts.items():
        if fact != "status" or KINDS[kind.what].has_state:
            yield _values_line(LIMIT_OF_FACT[fact], values)
    if kind.names:
        label = "other names" if kind.what == "observation" else "names"
        names = tuple(CountedValue(each.name, each.number) for each in kind.names)
        yield _values_line(f"{label} ({len(names)})", names)


def _values_line(label: str, values: tuple[CountedValue, ...]) -> _Line:
    return _Line(label, tuple(map(str, values)))


def _absent_text(contents: RecordContents) -> str:
    absent = [what for what in KINDS if what not in contents.kinds]
    return f"No rows of: {', '.join(absent)}" if absent else ""
