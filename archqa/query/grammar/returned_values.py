"""What is wanted of labs, vital signs, drugs, cultures, procedures and diagnoses, and how it is summed up."""

from archqa.query.grammar.parse_state import MEASUREMENT_KINDS, ParseState
from archqa.query.model import Aggregation, ReturnedField

Wanted = tuple[ReturnedField, Aggregation]


def infer_output(heard: ParseState) -> Wanted:
    """What to return, and the summary of it."""
    if heard.says("returns", "visit", 5) and not heard.visits:
        return "visit", "each"
    if heard.says("returns", "elapsed"):
        return "elapsed", "each"
    if heard.says("returns", "time", 4.5):
        stops = heard.what == "medication" and heard.says("returns", "stop", 4)
        return ("end_time" if stops else "time"), "each"
    if heard.says("summary", "count", 4) and not _is_total(heard):
        return _counted(heard)
    if _is_yes_or_no(heard):
        return _natural(heard), "exists"
    if heard.what in MEASUREMENT_KINDS:
        return _of_measurements(heard)
    return _of_others(heard)


def _of_others(heard: ParseState) -> Wanted:
    if heard.what == "medication":
        return _of_drugs(heard)
    if heard.what == "susceptibility":
        return _of_susceptibilities(heard), "each"
    if heard.what == "microbiology_test":
        return _of_cultures(heard), "each"
    return ("time" if _is_time_noun(heard) else "name"), "each"


def _is_yes_or_no(heard: ParseState) -> bool:
    asks_figure = heard.says("summary", "maximum", 4) and heard.test is None
    return heard.is_yes_no and not heard.context.total and not asks_figure


def _is_total(heard: ParseState) -> bool:
    """ "How many outputs", where the context wants a sum; "how many doses"."""
    if heard.what == "output":
        return heard.context.total
    named = heard.what == "medication" and bool(heard.names) and not heard.has("times|count")
    return named and (
        heard.context.total or heard.has("how many (?:doses?|mg|milligrams|units|ml)")
    )


def _is_time_noun(heard: ParseState) -> bool:
    """The time is named as a noun, beside nothing that names another thing."""
    return heard.says("returns", "time", 2) or (
        heard.says("returns", "time") and not heard.says("returns", "name", 2)
    )


def _counted(heard: ParseState) -> Wanted:
    times = heard.has("times|often|frequen\\w+|prescriptions?|orders?|occasions?")
    different = heard.says("summary", "distinct")
    if heard.what == "medication" and not (times or heard.names):
        # "How many drugs" counts drugs; "how many times" counts orders.
        different = True
    return ("name", "count_distinct") if different else (_natural(heard), "count")


def _natural(heard: ParseState) -> ReturnedField:
    return "value" if heard.what in MEASUREMENT_KINDS else "name"


def _of_measurements(heard: ParseState) -> Wanted:
    figure = heard.numeric_aggregation
    if heard.says("returns", "name", 3) and not heard.names and not figure:
        return "name", "each"
    if heard.says("returns", "time", 2) and not figure:
        return "time", "each"
    if figure == "sum" and heard.what != "output":
        figure = None
    if (
        heard.what == "output"
        and not figure
        and not heard.positions
        and not heard.lexicon_matches.best("per")
    ):
        figure = "sum"
    return "value", figure or "each"


def _of_drugs(heard: ParseState) -> Wanted:
    dosed = heard.says("returns", "dose", 3)
    if heard.says("returns", "stop", 4) and (heard.names or heard.routes) and not dosed:
        return "end_time", "each"
    if heard.says("returns", "route", 4) and not heard.routes:
        return "route", "each"
    if heard.names and (dosed or _is_total(heard)):
        # "How much was given" without "first" or "last" is a total.
        total = _is_total(heard) or (
            not heard.positions and heard.has("how much|amounts?|quantity")
        )
        return "dose", heard.numeric_aggregation or ("sum" if total else "each")
    if _is_time_noun(heard) and (
        heard.names or heard.routes or not heard.says("returns", "name", 3)
    ):
        return "time", "each"
    return "name", "each"


def _of_susceptibilities(heard: ParseState) -> ReturnedField:
    if heard.has("(?:which|what|^the) (?:organisms?|bacteri\\w+|pathogens?|bugs?)"):
        return "organism"
    return "value" if heard.names else "name"


def _of_cultures(heard: ParseState) -> ReturnedField:
    if heard.says("returns", "time", 2):
        return "time"
    if heard.says("returns", "organism", 4):
        return "organism"
    if heard.says("returns", "specimen", 4) and not heard.specimens:
        return "specimen"
    return "name"
