"""A query in words that a clinician can check."""

from archqa.query.model import Against, Companion, Query
from archqa.query.scope import When

_WHAT = {
    "lab": ("lab result", "lab results"),
    "vital": ("charted measurement", "charted measurements"),
    "output": ("output", "outputs"),
    "microbiology_test": ("microbiology test", "microbiology tests"),
    "organism": ("organism grown in a microbiology test", "organisms grown in microbiology tests"),
    "susceptibility": ("susceptibility result", "susceptibility results"),
    "medication": ("prescribed drug", "prescribed drugs"),
    "procedure": ("procedure", "procedures"),
    "diagnosis": ("diagnosis", "diagnoses"),
    "hospital_visit": ("hospital visit", "hospital visits"),
    "icu_stay": ("ICU stay", "ICU stays"),
    "care_unit": ("stay in a care unit", "stays in care units"),
    "patient": ("patient", "patient"),
}
_SUMMARY = {
    "count": "How many {what} are there",
    "count_distinct": "How many different {returns}s do {what} have",
    "exists": "Are there any {what}",
}
_OF_ONE_TIME = {"exists": "Is there {what}", "count": "The number of rows that are {what}"}
_RETURNS = {"end_time": "end", "elapsed": "time passed since", "visit": "hospital visit"}
_WITHIN = {
    "same_time": "at the same time as",
    "same_day": "on the same day as",
    "same_month": "in the same month as",
    "same_visit": "in the same hospital visit as",
    "ever": "beside",
}


def query_text(query: Query) -> str:
    """The query as one sentence or question."""
    what = _rows(query)
    if query.against is not None:
        return _two_sides(query, query.against, what)
    words = _SUMMARY.get(query.summary, "The {summary}{returns} of {what}")
    summary = "" if query.summary == "each" else f"{query.summary} "
    if query.when.position:
        words = _OF_ONE_TIME.get(query.summary, words)
    text = words.format(what=what, returns=_returned(query), summary=summary)
    per = f", for each {query.per}" if query.per else ""
    return f"{text}{per}{_clock(query)}{'?' if words[0] in 'HAI' else '.'}"


def subject_text(query: Query) -> str:
    """What the query asks about: the rows with every limit but the order in time, and not what is made of them."""
    when = query.when.model_copy(update={"position": None})
    return _rows(query.model_copy(update={"when": when}))


def answer_prefix(query: Query) -> str:
    """What the answer is, as the beginning of a sentence: "The last value of ...", "The number of ..."."""
    if query.summary == "count" and query.against is None:
        return f"The number of {_rows(query)}"
    if query.summary == "count_distinct":
        return f"The number of different {_returned(query)}s of {_rows(query)}"
    return query_text(query.model_copy(update={"now": None})).rstrip(".?")


def _two_sides(query: Query, against: Against, what: str) -> str:
    summary = "" if query.summary == "each" else f"{query.summary} "
    own = f"the {summary}{_returned(query)} of {what}"
    names = _named(against.names) or " those"
    other = f"that of{names}{_when(against.when)}"
    if against.relation == "difference":
        return f"The difference: {own}, minus {other}{_clock(query)}."
    than = {"greater": "greater than", "less": "less than", "equal": "equal to"}[against.relation]
    return f"Is {own} {than} {other}{_clock(query)}?"


def _rows(query: Query) -> str:
    single, several = _WHAT[query.what]
    if query.what == "patient":
        return "the patient"
    position = f"the {query.when.position.replace('_', ' ')} " if query.when.position else ""
    return f"{position}{single if position else several}{_which(query)}{_when(query.when, position=False)}"


def _which(query: Query) -> str:
    parts = [
        _named(query.names),
        f" on{_named(query.specimens)}" if query.specimens else "",
        f" of{_named(query.organisms)}" if query.organisms else "",
        f" by route{_named(query.routes)}" if query.routes else "",
        f" admitted through{_named(query.admission_sources)}" if query.admission_sources else "",
        f" with result{_named(query.results)}" if query.results else "",
        f" with a value {query.value}" if query.value else "",
        "" if query.grew is None else f" in which {'an' if query.grew else 'no'} organism grew",
        f" with the {query.extreme} value" if query.extreme else "",
        _beside(query.companion) if query.companion else "",
    ]
    return "".join(parts)


def _beside(companion: Companion) -> str:
    order = "" if companion.order == "any" else f" {companion.order} and"
    routes = f" by route{_named(companion.routes)}" if companion.routes else ""
    words = f"{_WHAT[companion.what][1]}{_named(companion.names)}{routes}{_when(companion.when)}"
    return f"{order} {_WITHIN[companion.within]} {words}"


def _named(names: tuple[str, ...]) -> str:
    return f" {' or '.join(repr(name) for name in names)}" if names else ""


def _when(when: When, *, position: bool = True) -> str:
    words = str(when)
    first = f" {when.position.replace('_', ' ')} measured" if position and when.position else ""
    return f"{first} {words}".rstrip() if words else first


def _returned(query: Query) -> str:
    words = _RETURNS.get(query.returns, query.returns.replace("_", " "))
    if query.returns in {"elapsed", "length_of_stay"}:
        words += f" (in {query.unit or 'day'}s)"
    return words


def _clock(query: Query) -> str:
    return f" (the clock stands at {query.now.replace('T', ' ')})" if query.now else ""
