"""Topics of a text: groups of words that the features of the embedded engine were fitted with.

A topic is wider than a concept: "heart failure" has the ejection fraction, fluid overload and BNP.
"""

from functools import cache, lru_cache
from typing import NamedTuple

from archqa.core.tables import read_rows
from archqa.terminology.matching import LetterMatcher, Reading, expand
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
    topics = {}
    for name, kind, specialty, _, plain in read_rows("terminology/data/topics.tsv", 5):
        topics[name] = Topic(name, kind, specialty, plain)
    return topics


@cache
def _matcher() -> LetterMatcher[str]:
    matcher: LetterMatcher[str] = LetterMatcher(Reading.FITTED)
    for name, _, _, forms, _ in read_rows("terminology/data/topics.tsv", 5):
        matcher.add(name, expand(forms))
    return matcher
