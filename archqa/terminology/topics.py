"""Topics of a text: groups of words that the features of the embedded engine were fitted with.

A topic is wider than a concept: "heart failure" has the ejection fraction, fluid overload and BNP.
"""

from functools import cache, lru_cache
from typing import NamedTuple

from archqa.core.tables import read_rows
from archqa.terminology.matching import Matcher, Reading, expand
from archqa.terminology.words import MAX_TEXT_LENGTH


class Topic(NamedTuple):
    """A topic; `kind` is condition, finding, drug, procedure or test, `plain` is in plain words."""

    name: str
    kind: str
    specialty: str
    plain: str


@lru_cache(maxsize=2048)
def topics_of(text: str) -> frozenset[str]:
    """Return the names of the topics that a text names."""
    return frozenset(_matcher().find_values(text[:MAX_TEXT_LENGTH]))


@cache
def load_topics() -> dict[str, Topic]:
    """Return the topics by name."""
    rows = read_rows("terminology/data/topics.tsv", 5)
    return {name: Topic(name, kind, specialty, plain) for name, kind, specialty, _, plain in rows}


@cache
def _matcher() -> Matcher[str]:
    rows = read_rows("terminology/data/topics.tsv", 5)
    return Matcher(((row[0], expand(row[3])) for row in rows), Reading.FITTED)
