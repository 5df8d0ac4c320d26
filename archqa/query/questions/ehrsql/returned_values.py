"""The returned field and the aggregation of questions about rows with names.

These are measurements, drugs, cultures, procedures and diagnoses.
"""

from archqa.query.model import Aggregation, ReturnedField
from archqa.query.questions.ehrsql.parse_state import MEASUREMENT_KINDS, ParseState

Output = tuple[ReturnedField, Aggregation]


def infer_output(state: ParseState) -> Output:
    """The field to return, and its aggregation."""
    if state.mentions("returns", "visit", 5) and not state.visits:
        return "visit", "each"
    if state.mentions("returns", "elapsed"):
        return "elapsed", "each"
    if state.mentions("returns", "time", 4.5):
        if state.what == "medication" and state.mentions("returns", "stop", 4):
            return "end_time", "each"
        return "time", "each"
    if state.mentions("summary", "count", 4) and not _is_total(state):
        return _count_output(state)
    if _asks_yes_or_no(state):
        return _default_field(state), "exists"
    if state.what in MEASUREMENT_KINDS:
        return _measurement_output(state)
    return _record_output(state)


def _record_output(state: ParseState) -> Output:
    if state.what == "medication":
        return _drug_output(state)
    if state.what == "susceptibility":
        return _susceptibility_field(state), "each"
    if state.what == "microbiology_test":
        return _culture_field(state), "each"
    if _is_time_noun(state):
        return "time", "each"
    return "name", "each"


def _asks_yes_or_no(state: ParseState) -> bool:
    if not state.is_yes_no or state.context.wants_sum:
        return False
    return state.value_test is not None or not state.mentions("summary", "maximum", 4)


def _is_total(state: ParseState) -> bool:
    """ "How many outputs", where the context wants a sum; "how many doses"."""
    if state.what == "output":
        return state.context.wants_sum
    if state.what != "medication" or not state.names or state.contains_words("times|count"):
        return False
    if state.context.wants_sum:
        return True
    return state.contains_words("how many (?:doses?|mg|milligrams|units|ml)")


def _is_time_noun(state: ParseState) -> bool:
    """The question names the time as a noun, and no other field."""
    if state.mentions("returns", "time", 2):
        return True
    return state.mentions("returns", "time") and not state.mentions("returns", "name", 2)


def _count_output(state: ParseState) -> Output:
    counts_orders = state.contains_words(
        "times|often|frequen\\w+|prescriptions?|orders?|occasions?"
    )
    if state.mentions("summary", "distinct"):
        return "name", "count_distinct"
    if state.what == "medication" and not (counts_orders or state.names):
        # "How many drugs" counts drugs; "how many times" counts orders.
        return "name", "count_distinct"
    return _default_field(state), "count"


def _default_field(state: ParseState) -> ReturnedField:
    if state.what in MEASUREMENT_KINDS:
        return "value"
    return "name"


def _measurement_output(state: ParseState) -> Output:
    aggregation = state.numeric_aggregation
    if aggregation is None:
        if state.mentions("returns", "name", 3) and not state.names:
            return "name", "each"
        if state.mentions("returns", "time", 2):
            return "time", "each"
    if state.what != "output" and aggregation in {None, "sum"}:
        return "value", "each"
    if aggregation is not None:
        return "value", aggregation
    if state.positions or state.lexicon_matches.best("per"):
        return "value", "each"
    return "value", "sum"


def _drug_output(state: ParseState) -> Output:
    asks_dose = state.mentions("returns", "dose", 3)
    has_limit = bool(state.names or state.routes)
    if state.mentions("returns", "stop", 4) and has_limit and not asks_dose:
        return "end_time", "each"
    if state.mentions("returns", "route", 4) and not state.routes:
        return "route", "each"
    if state.names and (asks_dose or _is_total(state)):
        return "dose", state.numeric_aggregation or _dose_aggregation(state)
    if _is_time_noun(state) and (has_limit or not state.mentions("returns", "name", 3)):
        return "time", "each"
    return "name", "each"


def _dose_aggregation(state: ParseState) -> Aggregation:
    """ "How much was given" without "first" or "last" is a total."""
    if _is_total(state):
        return "sum"
    asks_amount = state.contains_words("how much|amounts?|quantity")
    if asks_amount and not state.positions:
        return "sum"
    return "each"


def _susceptibility_field(state: ParseState) -> ReturnedField:
    if state.contains_words("(?:which|what|^the) (?:organisms?|bacteri\\w+|pathogens?|bugs?)"):
        return "organism"
    if state.names:
        return "value"
    return "name"


def _culture_field(state: ParseState) -> ReturnedField:
    if state.mentions("returns", "time", 2):
        return "time"
    if state.mentions("returns", "organism", 4):
        return "organism"
    if state.mentions("returns", "specimen", 4) and not state.specimens:
        return "specimen"
    return "name"
