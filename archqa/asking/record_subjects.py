"""What a query asks for in words, as it is counted or missing: `emergency visits`, `warfarin`."""

from collections.abc import Iterator

from archqa.asking.record_displays import without_marks
from archqa.asking.record_names import concept_text, row_words
from archqa.query.model import Companion, Query

_CLASS_WORDS = {
    "ambulatory": "outpatient",
    "emergency": "emergency",
    "inpatient": "inpatient",
    "icu": "ICU",
    "virtual": "virtual",
    "home": "home",
}
_WITHIN = {
    "same_time": "at the same time as",
    "same_day": "on the same day as",
    "same_month": "in the same month as",
    "same_visit": "in the same hospital visit as",
    "ever": "beside",
}


def noun(query: Query, count: int) -> str:
    """Return what the rows of a query are, without their names: `emergency visits`."""
    words = row_words(query.what)
    text = words.singular if count == 1 else words.plural
    return " ".join([*_adjectives(query), text])


def asked_names(query: Query) -> str:
    """Return the names and concepts that are asked for: `warfarin or heparin`."""
    return _names((*map(concept_text, query.concepts), *query.names))


def subject(query: Query) -> str:
    """Return what is missing, with every limit but the time: `warfarin`, `visit for COVID-19`."""
    names = asked_names(query)
    text = noun(query, 1)
    if names:
        named = row_words(query.what).named.format(names)
        text = " ".join([*_adjectives(query), named])
    return " ".join([text, *_limits(query)])


def counted_rows(query: Query, count: int) -> str:
    """Return a number of rows with every limit but the time: `12 emergency visits`."""
    names = asked_names(query)
    parts = [str(count), noun(query, count), f"of {names}" if names else "", *_limits(query)]
    return " ".join(part for part in parts if part)


def counted_limits(query: Query, count: int) -> str:
    """Return every limit but names and time, as it follows a number of rows; empty without any."""
    limits = list(_limits(query))
    if query.state == "ended":
        limits.append("that has ended" if count == 1 else "that have ended")
    return " ".join(limits)


def _adjectives(query: Query) -> Iterator[str]:
    if query.state == "current":
        yield "current"
    if query.flag:
        yield query.flag
    if query.classes:
        yield " or ".join(_CLASS_WORDS[name] for name in query.classes)


def _limits(query: Query) -> Iterator[str]:
    limits = {
        "for": tuple(map(concept_text, query.reasons)),
        "from specimen": query.specimens,
        "with organism": query.organisms,
        "by route": query.routes,
        "admitted through": query.admission_sources,
        "with result": query.results,
    }
    for word, names in limits.items():
        if names:
            yield f"{word} {_names(names)}"
    if query.value:
        yield f"with a value {query.value}"
    if query.grew is not None:
        yield "in which an organism grew" if query.grew else "in which no organism grew"
    if query.companion:
        yield _companion_text(query.companion)


def _companion_text(companion: Companion) -> str:
    order = "" if companion.order == "any" else f"{companion.order} and "
    names = _names((*map(concept_text, companion.concepts), *companion.names))
    rows = f"{row_words(companion.what).plural}{f' of {names}' if names else ''}"
    return f"{order}{_WITHIN[companion.within]} {rows} {companion.when}".strip()


def _names(names: tuple[str, ...]) -> str:
    return " or ".join(dict.fromkeys(without_marks(name) for name in names))
