"""The state of parsing a question: its subject, names, limits, times and cue words."""

import re
from dataclasses import dataclass, field
from typing import Any

from archqa.query.model import Query
from archqa.query.questions.ehrsql.context import QuestionContext
from archqa.query.questions.ehrsql.lexicon import LexiconMatches
from archqa.query.questions.ehrsql.limits import FoundValueTest
from archqa.query.questions.ehrsql.subject import Subject
from archqa.query.questions.ehrsql.times import FoundSpan
from archqa.query.questions.ehrsql.visits import FoundPosition, FoundVisit
from archqa.query.scope import When

MEASUREMENT_KINDS = frozenset({"lab", "vital", "output"})
NUMERIC_AGGREGATIONS = ("minimum", "maximum", "average", "sum")
_UNIT_OF_ABBREVIATION = {"min": "minute", "hr": "hour"}


@dataclass
class ParseState:
    """All that was recognised in a question."""

    text: str
    what: Subject
    lexicon_matches: LexiconMatches
    context: QuestionContext
    is_yes_no: bool
    names: tuple[str, ...] = ()
    specimens: tuple[str, ...] = ()
    organisms: tuple[str, ...] = ()
    routes: tuple[str, ...] = ()
    admission_sources: tuple[str, ...] = ()
    value_test: FoundValueTest | None = None
    visits: list[FoundVisit] = field(default_factory=list)
    spans: list[FoundSpan] = field(default_factory=list)
    positions: list[FoundPosition] = field(default_factory=list)

    def mentions(self, slot: str, value: str, min_weight: float = 0.1) -> bool:
        """Whether the cues for a value have enough weight."""
        return self.lexicon_matches.weight(slot, value) >= min_weight

    def contains_words(self, pattern: str) -> bool:
        """Whether the words of a pattern occur."""
        return re.search(rf"\b(?:{pattern})\b", self.text) is not None

    @property
    def numeric_aggregation(self) -> Any:
        """A minimum, maximum, average or sum, if one is requested."""
        return self.lexicon_matches.best("summary", NUMERIC_AGGREGATIONS, 3)

    @property
    def when(self) -> When:
        """The visit, the spans and the position."""
        visits = [found_visit.visit for found_visit in self.visits]
        spans = [found_span.span for found_span in self.spans]
        positions = [found_position.position for found_position in self.positions]
        return When(
            visit=next(iter(visits), None),
            spans=tuple(spans),
            position=next(iter(positions), None),
        )

    def requested_unit(self, returns: str) -> str | None:
        """The unit in which a length of time is requested."""
        if returns not in {"elapsed", "length_of_stay"}:
            return None
        match = re.search(r"\b(minute|min|hour|hr|day|week|month|year)s?\b", self.text)
        if match is None:
            return "day"
        unit = match[1]
        return _UNIT_OF_ABBREVIATION.get(unit, unit)

    def make_query(self, **fields: Any) -> Query:
        """A query with the limits of its rows. Raises ValueError if the parts contradict."""
        what = fields.setdefault("what", self.what)
        if self.value_test is not None:
            fields["value"] = self.value_test.value_test
        return Query(now=self.context.now, **{**self._limits(what), **fields})

    def _limits(self, what: str) -> dict[str, Any]:
        if what in {"icu_stay", "patient"}:
            return {}
        if what == "hospital_visit":
            return {"admission_sources": self.admission_sources}
        if what == "medication":
            return {"names": self.names, "routes": self.routes}
        if what in {"microbiology_test", "organism", "susceptibility"}:
            return self._microbiology_limits(what)
        return {"names": self.names}

    def _microbiology_limits(self, what: str) -> dict[str, Any]:
        limits: dict[str, Any] = {
            "names": self.names,
            "specimens": self.specimens,
            "organisms": self.organisms,
        }
        asks_organism = self.mentions("returns", "organism", 4) or bool(self.organisms)
        if what == "susceptibility":
            result = self.lexicon_matches.best("result")
            if result is not None:
                limits["results"] = (result,)
        elif what == "microbiology_test" and asks_organism:
            limits["grew"] = True
        return limits
