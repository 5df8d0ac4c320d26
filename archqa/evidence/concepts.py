"""Clinical concepts in a text: abbreviations, brands and patients' words brought to one name.

Terminology: `data/terms.tsv`, written for this project (CC0-1.0). A way of writing given there in capitals
(`PE`, `OR`) is looked for in capitals only, since in small letters it is an English word.
"""

import re
from functools import cache, lru_cache
from typing import NamedTuple

from archqa.evidence.tables import rows
from archqa.evidence.words import LONGEST


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


@lru_cache(maxsize=8192)
def mentions(text: str) -> tuple[Mention, ...]:
    """The concepts that `text` names, each once, in the order of the terminology."""
    text = text[:LONGEST]
    found = ((concept, small.search(text) or large.search(text)) for concept, small, large in _matchers())
    return tuple(Mention(concept, match[0]) for concept, match in found if match)


def names(text: str) -> frozenset[str]:
    """The names of the concepts in `text`."""
    return frozenset(each.concept.name for each in mentions(text))


@cache
def concepts() -> dict[str, Concept]:
    """The terminology by name."""
    return {row[0]: Concept(row[0], row[1], row[2], row[4]) for row in rows("terms.tsv")}


@cache
def _matchers() -> tuple[tuple[Concept, re.Pattern[str], re.Pattern[str]], ...]:
    table = []
    for name, _, _, written, _ in rows("terms.tsv"):
        forms = _alternatives(written)
        exact = [form for form in forms if form != form.lower() and "\\" not in form]
        loose = [form for form in forms if form not in exact]
        table.append((concepts()[name], _whole(loose, re.IGNORECASE), _whole(exact, 0)))
    return tuple(table)


def _alternatives(written: str) -> list[str]:
    """Splits at the bars that stand outside brackets."""
    return re.split(r"\|(?![^(]*\))", written)


def _whole(forms: list[str], flags: int) -> re.Pattern[str]:
    return re.compile(rf"(?<!\w)(?:{'|'.join(forms)})(?!\w)" if forms else r"(?!)", flags)
