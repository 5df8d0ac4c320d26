"""What was heard in a question, before it becomes a query: its subject, names, limits, times and cue words."""

import re
from dataclasses import dataclass, field
from typing import Any

from archqa.query.grammar.context import QuestionContext
from archqa.query.grammar.lexicon import LexiconMatches
from archqa.query.grammar.limits import FoundValueTest
from archqa.query.grammar.subject import Subject
from archqa.query.grammar.times import FoundSpan
from archqa.query.grammar.visits import FoundPosition, FoundVisit
from archqa.query.model import Query
from archqa.query.scope import When

MEASUREMENT_KINDS = frozenset({"lab", "vital", "output"})
NUMERIC_AGGREGATIONS = ("minimum", "maximum", "average", "sum")


@dataclass
class ParseState:
    """All that was read in a question."""

    text: str
    what: Subject
    lexicon_matches: LexiconMatches
    context: QuestionContext
    is_yes_no: bool
    names: tuple[str, ...] = ()
    specimens: tuple[str, ...] = ()
    organisms: tuple[str, ...] = ()
    routes: tuple[str, ...] = ()
    sources: tuple[str, ...] = ()
    test: FoundValueTest | None = None
    visits: list[FoundVisit] = field(default_factory=list)
    spans: list[FoundSpan] = field(default_factory=list)
    positions: list[FoundPosition] = field(default_factory=list)

    def says(self, slot: str, value: str, at_least: float = 0.1) -> bool:
        """Whether a cue is given strongly enough."""
        return self.lexicon_matches.weight(slot, value) >= at_least

    def has(self, pattern: str) -> bool:
        """Whether the words of a pattern occur."""
        return re.search(rf"\b(?:{pattern})\b", self.text) is not None

    @property
    def numeric_aggregation(self) -> Any:
        """A minimum, maximum, average or sum, if one is asked for."""
        return self.lexicon_matches.best("summary", NUMERIC_AGGREGATIONS, 3)

    @property
    def when(self) -> When:
        """The visit, the spans and the position."""
        return When(
            visit=self.visits[0].visit if self.visits else None,
            spans=tuple(each.span for each in self.spans),
            position=self.positions[0].position if self.positions else None,
        )

    def unit(self, returns: str) -> str | None:
        """The unit in which a length of time is asked for."""
        if returns not in {"elapsed", "length_of_stay"}:
            return None
        found = re.search(r"\b(minute|min|hour|hr|day|week|month|year)s?\b", self.text)
        return {"min": "minute", "hr": "hour"}.get(found[1], found[1]) if found else "day"

    def query(self, **fields: Any) -> Query:
        """A query with the names and limits of its rows. Raises ValueError if the parts do not go together."""
        fields.setdefault("what", self.what)
        if self.test is not None:
            fields["value"] = self.test.test
        return Query(
            now=self.context.now,
            **{**self._limits(fields["what"], fields.get("summary", "each")), **fields},
        )

    def _limits(self, what: str, summary: str) -> dict[str, Any]:
        if what in {"icu_stay", "patient"}:
            return {}
        if what == "hospital_visit":
            return {"admission_sources": self.sources}
        if what == "medication":
            return {"names": self.names, "routes": self.routes}
        if what in {"microbiology_test", "organism", "susceptibility"}:
            cultured = {
                "names": self.names,
                "specimens": self.specimens,
                "organisms": self.organisms,
            }
            return {**cultured, **self._of_cultures(what)}
        return {"names": self.names}

    def _of_cultures(self, what: str) -> dict[str, Any]:
        if what == "susceptibility":
            result = self.lexicon_matches.best("result")
            return {"results": (result,) if result else ()}
        grew = what == "microbiology_test" and (
            self.says("returns", "organism", 4) or bool(self.organisms)
        )
        return {"grew": True} if grew else {}
