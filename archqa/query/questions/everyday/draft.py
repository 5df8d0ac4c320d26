"""A draft of the queries of a clause: the same limits, and one query for each name and ask."""

from typing import Any, Literal, NamedTuple

from archqa.query.model import Query, RowKind
from archqa.query.questions.everyday.asks import Ask
from archqa.query.questions.everyday.naming import Named, NameLimit
from archqa.query.questions.everyday.stays import Stay
from archqa.query.scope import Span, When


class Draft(NamedTuple):
    """What the queries of a clause have in common, and in what they differ."""

    kinds: tuple[RowKind, ...]
    asks: tuple[Ask, ...]
    named: Named = Named()
    spans: tuple[Span, ...] = ()
    stay: Stay = Stay()
    limits: dict[str, Any] = {}
    reasons_instead_of_names: tuple[str, ...] = ()
    """The same question once more, of rows with one of these reasons."""

    @property
    def joined(self) -> Literal["and", "or"]:
        """Whether all the queries answer, or whichever finds something."""
        if self.reasons_instead_of_names:
            return "or"
        if len(self.kinds) > 1 and len(self.asks) * len(self.named.or_any) == 1:
            return "or"
        return self.named.joined

    def queries(self) -> tuple[Query, ...]:
        """The queries. Raises ValueError if their parts contradict."""
        queries = [
            self._query(what, limit, ask)
            for limit in self.named.or_any
            for ask in self.asks
            for what in self.kinds
        ]
        for query in queries[:1] if self.reasons_instead_of_names else ():
            limits = {"names": (), "concepts": (), "reasons": self.reasons_instead_of_names}
            queries.append(query.model_copy(update=limits))
        return tuple(queries)

    def _query(self, what: RowKind, limit: NameLimit, ask: Ask) -> Query:
        when = When(visit=self.stay.visit, spans=self.spans, position=ask.position)
        fields = {
            "names": limit.names,
            "concepts": limit.concepts,
            "companion": self.stay.companion,
            "state": ask.state,
            "extreme": ask.extreme,
            "unit": ask.unit,
            **self.limits,
        }
        given = {name: value for name, value in fields.items() if value not in (None, ())}
        return Query(what=what, when=when, returns=ask.returns, summary=ask.summary, **given)
