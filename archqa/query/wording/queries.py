"""A query as text that a clinician can check, and its kinds of rows described for a model."""

from archqa.query.kinds import KINDS, RowKind
from archqa.query.model import Against, Companion, Query
from archqa.query.scope import When

_AGGREGATION = {
    "count": "How many {rows} are there",
    "count_distinct": "How many different {field}s do {rows} have",
    "exists": "Are there any {rows}",
}
_AGGREGATION_AT_POSITION = {
    "exists": "Is there {rows}",
    "count": "The number of rows that are {rows}",
}
_FIELD = {
    "end_time": "end",
    "elapsed": "time passed since",
    "visit": "hospital visit",
    "flag": "flag (high, low or abnormal)",
    "visit_type": "type of visit",
    "death_time": "time of death",
}
_PREPOSITION = {"allergy": "to", "encounter": "about", "goal": "about", "supply": "for"}
"""Between rows and their concept; of, for all others."""
_RELATION = {"greater": "greater than", "less": "less than", "equal": "equal to"}
_WITHIN = {
    "same_time": "at the same time as",
    "same_day": "on the same day as",
    "same_month": "in the same month as",
    "same_visit": "in the same hospital visit as",
    "stay": "during",
    "ever": "beside",
}
_COMMON_FIELDS = frozenset({"time", "elapsed", "name", "visit", "status"})
"""Fields that most kinds of rows return: the planner's prompt names them once."""


def query_text(query: Query) -> str:
    """The query as one sentence or question."""
    if query.against is not None:
        is_question = query.against.relation != "difference"
        text = _comparison_text(query, query.against)
    elif query.what == "patient" and (
        query.returns == "alive" or query.summary == "exists"
    ):
        is_question = True
        text = "Is there such a patient"
        if query.returns == "alive":
            text = "Is the patient alive"
        elif query.returns == "death_time":
            text = "Has the patient died"
    else:
        is_question = query.summary in _AGGREGATION
        template = _AGGREGATION.get(query.summary, "The {aggregation}{field} of {rows}")
        if query.when.position:
            template = _AGGREGATION_AT_POSITION.get(query.summary, template)
            is_question = is_question and query.summary != "count"
        text = template.format(
            rows=_rows_text(query),
            field=_field_text(query),
            aggregation=_aggregation_text(query),
        )
        if query.per:
            text = f"{text}, for each {query.per}"
    if query.now:
        now = query.now.replace("T", " ")
        text = f"{text} (the clock stands at {now})"
    return f"{text}?" if is_question else f"{text}."


def subject_text(query: Query) -> str:
    """The rows of a query with every limit except the position, without field or aggregation."""
    when = query.when.model_copy(update={"position": None})
    return _rows_text(query.model_copy(update={"when": when}))


def _comparison_text(query: Query, against: Against) -> str:
    subject = (
        f"the {_aggregation_text(query)}{_field_text(query)} of {_rows_text(query)}"
    )
    names = _names_text(against.names) or " those"
    if against.concepts:
        names = f" {' or '.join(against.concepts)}"
    opposite = f"that of{names}{_when_text(against.when)}"
    if against.relation == "difference":
        return f"The difference: {subject}, minus {opposite}"
    return f"Is {subject} {_RELATION[against.relation]} {opposite}"


def _aggregation_text(query: Query) -> str:
    if query.summary == "each":
        return ""
    if query.summary == "change":
        return "change (last minus first) of the "
    return f"{query.summary} "


def _rows_text(query: Query) -> str:
    if query.what == "patient":
        return f"the patient{_when_text(query.when)}"
    kind = KINDS[query.what]
    # State, flag and classes stand before the rows: "current ", "emergency ".
    adjectives = ""
    for adjective in (query.state, query.flag, " or ".join(query.classes)):
        if adjective:
            adjectives += f"{adjective} "
    rows = f"{adjectives}{kind.plural}"
    if query.newest:
        rows = f"the last {query.newest} {adjectives}{kind.plural}"
    if query.when.position:
        rows = (
            f"the {query.when.position.replace('_', ' ')} {adjectives}{kind.singular}"
        )
    when = query.when.model_copy(update={"position": None})
    return f"{rows}{_wanted_text(query)}{_limits_text(query)}{_when_text(when)}"


def _wanted_text(query: Query | Companion) -> str:
    """Concepts and names: " of hemoglobin a1c", " 'Glucose'"."""
    names = _names_text(query.names)
    if not query.concepts:
        return names
    preposition = _PREPOSITION.get(query.what, "of")
    concepts = f" {preposition} {' or '.join(query.concepts)}"
    return f"{concepts} or named{names}" if names else concepts


def _limits_text(query: Query) -> str:
    limits = {
        " on": query.specimens,
        " of": query.organisms,
        " by route": query.routes,
        " admitted through": query.admission_sources,
        " with result": query.results,
        " for the reason": query.reasons,
    }
    parts = []
    for word, names in limits.items():
        if names:
            parts.append(f"{word}{_names_text(names)}")
    if query.value:
        parts.append(f" with a value {query.value}")
    if query.grew is True:
        parts.append(" in which an organism grew")
    if query.grew is False:
        parts.append(" in which no organism grew")
    if query.extreme:
        is_length = query.returns == "length_of_stay"
        field = _field_name(query) if is_length else "value"
        parts.append(f" with the {query.extreme} {field}")
    if query.companion:
        parts.append(_companion_text(query.companion))
    return "".join(parts)


def _companion_text(companion: Companion) -> str:
    relation = _WITHIN[companion.within]
    if companion.order != "any":
        relation = f"{companion.order} and {relation}"
    rows = f"{KINDS[companion.what].plural}{_wanted_text(companion)}"
    if companion.routes:
        rows = f"{rows} by route{_names_text(companion.routes)}"
    return f" {relation} {rows}{_when_text(companion.when)}"


def _names_text(names: tuple[str, ...]) -> str:
    return f" {' or '.join(map(repr, names))}" if names else ""


def _when_text(when: When) -> str:
    parts = []
    if when.position:
        parts.append(f" {when.position.replace('_', ' ')} measured")
    if str(when):
        parts.append(f" {when}")
    return "".join(parts)


def _field_name(query: Query) -> str:
    if query.returns == "length_of_stay" and query.what == "procedure":
        return "duration"
    return _FIELD.get(query.returns) or query.returns.replace("_", " ")


def _field_text(query: Query) -> str:
    field = _field_name(query)
    if query.returns in {"elapsed", "length_of_stay"}:
        return f"{field} (in {query.unit or 'day'}s)"
    return field


def kind_description(what: RowKind) -> str:
    """What a row of a kind is, and what it returns besides the fields of most kinds."""
    kind = KINDS[what]
    further = ", ".join(sorted(kind.returns - _COMMON_FIELDS))
    missing = sorted(_COMMON_FIELDS - kind.returns)
    if len(missing) > 1:
        return f"{kind.meaning} Returns only {', '.join(sorted(kind.returns))}."
    parts = [kind.meaning]
    if further:
        parts.append(f"Returns also {further}.")
    if missing:
        parts.append(f"Has no {missing[0]}.")
    return " ".join(parts)
