"""Questions about visits, ICU stays and stays in a care unit: there "the last ICU visit" is the row itself."""

from archqa.errors import NotUnderstood
from archqa.query.grammar.parse_state import NUMERIC_AGGREGATIONS, ParseState
from archqa.query.model import Aggregation, Query, ReturnedField
from archqa.query.scope import Position, Visit, When

STAY_KINDS = frozenset({"hospital_visit", "icu_stay", "care_unit"})


def build_stay_query(heard: ParseState) -> Query:
    """The query of a question about stays. Raises `NotUnderstood`."""
    returns, summary = _wanted(heard)
    position, visit = _which(heard)
    if returns == "elapsed" and position is None and visit is None and heard.what != "care_unit":
        # "How many hours since he was admitted?" is asked of someone who is there now.
        visit = Visit(kind="icu" if heard.what == "icu_stay" else "hospital", which="current")
    when = When(visit=visit, spans=tuple(each.span for each in heard.spans), position=position)
    return heard.query(returns=returns, summary=summary, when=when, unit=heard.unit(returns))


def _which(heard: ParseState) -> tuple[Position | None, Visit | None]:
    """Which of the stays, and within which other visit."""
    own, around = _own_and_around(heard)
    position = heard.positions[0].position if heard.positions else None
    visit = around[0] if around else None
    for each in own:
        if each.which != "current" and (position is None or position == each.which):
            position = each.which
        else:
            visit = each
    return position, visit


def _own_and_around(heard: ParseState) -> tuple[list[Visit], list[Visit]]:
    """Visits that are the rows asked about, and visits around them: "the first stay" in the SICU is the former."""
    if heard.what == "care_unit":
        own = [each for each in heard.visits if not each.is_explicit]
    else:
        kind = "icu" if heard.what == "icu_stay" else "hospital"
        own = [each for each in heard.visits if each.visit.kind == kind]
    return [each.visit for each in own], [each.visit for each in heard.visits if each not in own]


def _wanted(heard: ParseState) -> tuple[ReturnedField, Aggregation]:
    asks_time = heard.says("returns", "time", 5)
    if heard.says("returns", "elapsed") and not heard.has("length of|duration"):
        return _elapsed(heard), "each"
    if heard.says("returns", "admission_type") or (
        heard.what == "hospital_visit" and heard.has("types?")
    ):
        return "admission_type", "each"
    if (
        heard.says("returns", "length_of_stay", 5)
        and not heard.says("summary", "count", 6.1)
        and not asks_time
    ):
        return "length_of_stay", heard.lexicon_matches.best(
            "summary", NUMERIC_AGGREGATIONS, 4
        ) or "each"  # type: ignore[return-value]
    if heard.says("summary", "count", 4) and not asks_time:
        return "time", "count"
    if heard.is_yes_no:
        return "time", "exists"
    return _fact(heard), "each"


def _elapsed(heard: ParseState) -> ReturnedField:
    if heard.what == "hospital_visit" and heard.says("returns", "end_time") and not _begins(heard):
        raise NotUnderstood(
            heard.text, "asks for the time since a discharge, which a query cannot say"
        )
    return "elapsed"


def _fact(heard: ParseState) -> ReturnedField:
    if heard.says("returns", "admission_source", 5) and not heard.sources:
        return "admission_source"
    if heard.says("returns", "discharge_destination", 5) and heard.what == "hospital_visit":
        return "discharge_destination"
    if heard.what == "care_unit" and not heard.names and not heard.says("returns", "time", 5):
        return "care_unit"
    return "end_time" if heard.says("returns", "end_time") and not _begins(heard) else "time"


def _begins(heard: ParseState) -> bool:
    """Whether the beginning is meant where words for beginning and end both occur: what is named first."""
    start = heard.lexicon_matches.at.get(("returns", "start"))
    end = heard.lexicon_matches.at.get(("returns", "end_time"))
    return start is not None and end is not None and start < end
