"""From what was heard in a question to the query."""

from typing import Any

from archqa.errors import NotUnderstood
from archqa.query.grammar.comparison import ComparisonSides, split_sides
from archqa.query.grammar.parse_state import MEASUREMENT_KINDS, NUMERIC_AGGREGATIONS, ParseState
from archqa.query.grammar.returned_values import infer_output
from archqa.query.grammar.stays import STAY_KINDS, build_stay_query
from archqa.query.grammar.times import FoundSpan
from archqa.query.model import Against, Query
from archqa.query.scope import When

_PERSON = ("sex", "birth_date", "age", "marital_status", "ethnicity", "language", "death_time")
_DIRECTION = (
    r"rose|risen|rise|increased?|fell|fallen|fall|dropped|drop|decreased?|gone|went|changed?"
)


def build_query(heard: ParseState) -> Query:
    """The query for what was heard. Raises `NotUnderstood`, or ValueError if the parts do not go together."""
    if heard.what == "emergency":
        heard.what, heard.sources = "hospital_visit", ("EMERGENCY ROOM",)
        # "ER visit this year?" wants a yes or a no.
        asks_more = heard.positions or heard.visits or heard.says("returns", "time", 2)
        heard.is_yes_no = heard.is_yes_no or not (
            asks_more or heard.has("list|show|give|when|what|which|how")
        )
    if heard.what == "patient":
        return _about_the_patient(heard)
    if heard.what in STAY_KINDS:
        return build_stay_query(heard)
    relation = _relation(heard)
    compared = _two_sides(heard, relation) if relation else None
    return compared or _about_rows(heard)


def _about_the_patient(heard: ParseState) -> Query:
    returns = heard.lexicon_matches.best("returns", _PERSON) or "sex"
    summary = "exists" if returns == "death_time" and heard.is_yes_no else "each"
    if returns == "age" and heard.visits and not heard.spans:
        visit = heard.visits[0].visit
        what = "icu_stay" if visit.kind == "icu" else "hospital_visit"
        position = None if visit.which == "current" else visit.which
        return heard.query(what=what, returns="age", when=When(position=position))
    return heard.query(returns=returns, summary=summary, when=heard.when)


def _about_rows(heard: ParseState) -> Query:
    returns, summary = infer_output(heard)
    if (
        summary == "exists"
        and heard.test is not None
        and heard.positions
        and heard.what in MEASUREMENT_KINDS
    ):
        raise NotUnderstood(
            heard.text, "holds one value against a number: ask for the value itself"
        )
    when, more = heard.when, _extreme(heard, returns)
    per = (
        heard.lexicon_matches.best("per")
        if summary in {*NUMERIC_AGGREGATIONS, "count"} or returns == "value"
        else None
    )
    if per and not (when.position and summary == "each"):
        more["per"] = per
        summary = "average" if summary == "each" else summary
    if summary != "each" and not (
        summary == "exists" and heard.what in {"microbiology_test", "susceptibility"}
    ):
        when = when.model_copy(update={"position": None})
    if (
        heard.what == "microbiology_test"
        and summary in {"count", "count_distinct"}
        and heard.says("returns", "organism", 4)
    ):
        more["what"], returns, summary = "organism", "name", "count_distinct"
    return heard.query(
        returns=returns, summary=summary, when=when, unit=heard.unit(returns), **more
    )


def _extreme(heard: ParseState, returns: str) -> dict[str, Any]:
    """ "When was the highest potassium": the rows with the extreme value."""
    extreme = heard.lexicon_matches.best("summary", ("minimum", "maximum"), 4)
    is_wanted = extreme and returns in {"time", "elapsed"} and heard.what in MEASUREMENT_KINDS
    return {"extreme": extreme} if is_wanted else {}


def _relation(heard: ParseState) -> str | None:
    """A comparison of two times; a comparison with a number is none."""
    if heard.test is not None or heard.what not in MEASUREMENT_KINDS | {"medication"}:
        return None
    return heard.lexicon_matches.best("relation", at_least=2.5)


def _moments(spans: list[FoundSpan]) -> list[FoundSpan]:
    """ "Between 05:00 and 06:00": two moments to compare, not the stretch between them."""
    if len(spans) == 2 and all(each.span.clock for each in spans):
        return [
            each._replace(span=each.span.model_copy(update={"relation": "in"})) for each in spans
        ]
    return spans


def _two_sides(heard: ParseState, relation: str) -> Query | None:
    found = split_sides(
        heard.text,
        heard.visits,
        _moments(heard.spans),
        heard.positions,
        turned=heard.has(_DIRECTION),
    )
    if found.other is None and relation == "difference":
        if heard.positions:
            raise NotUnderstood(heard.text, "says one side of a change, but not the other")
        # "How much did it change on the last visit": from the first to the last value there.
        last, first = (
            found.own.model_copy(update={"position": which}) for which in ("last", "first")
        )
        found = ComparisonSides(last, first)
    if found.other is None:
        if "than" in heard.text.split():
            raise NotUnderstood(heard.text, "compares, but says only one side")
        return None
    returns = "dose" if heard.what == "medication" else "value"
    against = Against.model_validate({"relation": relation, "when": found.other})
    return heard.query(returns=returns, when=found.own, against=against)
