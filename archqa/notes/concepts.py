"""Clinical concepts in a text: abbreviations, brands and patients' words brought to one name.

Terminology: `data/terms.tsv`, written for this project (CC0-1.0). A way of writing given there in capitals
(`PE`, `OR`) is looked for in capitals only, since in small letters it is an English word.
"""

import re
from functools import cache, lru_cache
from typing import NamedTuple

from archqa.notes.tables import read_rows
from archqa.notes.tokens import MAX_TEXT_LENGTH

OPENING = 3
"""Letters by which ways of writing are looked up."""
_OPENING = re.compile(rf"(?<!\w)(?=(.{{1,{OPENING}}}))", re.DOTALL)


class Concept(NamedTuple):
    """One thing of the clinic. `kind` is condition, finding, drug, procedure or test."""

    name: str
    kind: str
    specialty: str
    plain: str


class Mention(NamedTuple):
    """A concept and the words that named it."""

    concept: Concept
    written: str


@lru_cache(maxsize=2048)
def find_mentions(text: str) -> tuple[Mention, ...]:
    """The concepts that `text` names, each once, in the order of the terminology."""
    text = text[:MAX_TEXT_LENGTH]
    found = (
        (each.concept, each.small.search(text) or each.large.search(text)) for each in _likely(text)
    )
    return tuple(Mention(concept, match[0]) for concept, match in found if match)


def concept_names(text: str) -> frozenset[str]:
    """The names of the concepts in `text`."""
    return frozenset(each.concept.name for each in find_mentions(text))


@cache
def load_terminology() -> dict[str, Concept]:
    """The terminology by name."""
    return {row[0]: Concept(row[0], row[1], row[2], row[4]) for row in read_rows("terms.tsv")}


class _Matcher(NamedTuple):
    """A concept and its ways of writing: case ignored, and as they stand."""

    concept: Concept
    small: re.Pattern[str]
    large: re.Pattern[str]


def _likely(text: str) -> list[_Matcher]:
    """The concepts of which some way of writing begins as some word of `text` does: the only ones it can name."""
    words = _OPENING.findall(text.lower())
    openings = {word[:size] for word in words for size in range(OPENING + 1)}
    places = {at for opening in openings for at in _by_opening().get(opening, ())}
    return [_matchers()[at] for at in sorted(places)]


@cache
def _by_opening() -> dict[str, tuple[int, ...]]:
    """Places in `_matchers` by the first letters of a way of writing, "" where that begins with a pattern."""
    found: dict[str, list[int]] = {}
    for at, row in enumerate(read_rows("terms.tsv")):
        for opening in {_opening(form) for form in _alternatives(row[3])}:
            found.setdefault(opening, []).append(at)
    return {opening: tuple(places) for opening, places in found.items()}


def _opening(form: str) -> str:
    literal = re.match(r"(?:[a-z0-9 -](?![?*{]))*", form.lower())
    return literal[0][:OPENING] if literal else ""


@cache
def _matchers() -> tuple[_Matcher, ...]:
    table = []
    for name, _, _, written, _ in read_rows("terms.tsv"):
        forms = _alternatives(written)
        exact = [form for form in forms if form != form.lower() and "\\" not in form]
        loose = [form for form in forms if form not in exact]
        table.append(
            _Matcher(load_terminology()[name], _whole(loose, re.IGNORECASE), _whole(exact, 0))
        )
    return tuple(table)


def _alternatives(written: str) -> list[str]:
    """Splits at the bars that stand outside brackets."""
    return re.split(r"\|(?![^(]*\))", written)


def _whole(forms: list[str], flags: int) -> re.Pattern[str]:
    return re.compile(rf"(?<!\w)(?:{'|'.join(forms)})(?!\w)" if forms else r"(?!)", flags)
