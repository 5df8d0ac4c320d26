"""Questions about visits: emergency, hospital, office; when, where, with whom and what for."""

from collections.abc import Iterator

from archqa.query.kinds import LISTS
from archqa.query.model import Aggregation, VisitClass
from archqa.query.questions.everyday.clause import ConsumedWords
from archqa.query.questions.everyday.names import Nameable, names_of, reasons_of
from archqa.query.questions.everyday.outputs import (
    Draft,
    Output,
    counts,
    fields_of,
    newest_of,
    plain_field,
    position_of_outputs,
    state_of,
    time_since,
    unit_of,
    use_past,
    use_plain_words,
)

_NAMED = Nameable(frozenset(), frozenset({"encounter"}))
_FIELDS = frozenset(LISTS["fields_of_visits"])
_CLASSES: dict[str, tuple[VisitClass, ...]] = {
    "emergency": ("emergency",),
    "inpatient": ("inpatient",),
    "hospital": ("inpatient", "emergency"),
    "icu": ("icu",),
    "ambulatory": ("ambulatory",),
    "virtual": ("virtual",),
    "home": ("home",),
}


def read_encounters(words: ConsumedWords) -> Draft:
    """The queries of a clause about visits."""
    classes = _classes(words)
    compounds = words.clause.of("row", "encounter") + words.clause.of("class")
    reasons = reasons_of(words, compounds=compounds)
    named = names_of(words, _NAMED)
    results: tuple[str, ...] = ()
    if words.use("disposition"):
        results = ("against advice", "AMA", "aama", "aadvice")
    outputs = tuple(_outputs(words))
    use_plain_words(words)
    words.use("row", "encounter")
    words.use("verb", "visit", "get", "taken", "stay", "take")
    words.use("noun", "episode")
    words.use("stay")
    words.use("ever")
    words.use("series")
    if words.clause.has("field", "practitioner"):
        words.use("link", "with")  # "Who was her last visit with".
    limits: dict[str, object] = {
        "classes": classes,
        "reasons": reasons,
        "results": results,
    }
    if len(words.clause.of("per")) == 1:
        limits["per"] = words.use("per")[0].value
    limits["newest"] = newest_of(words)
    return Draft(("encounter",), outputs, named, words.use_spans(), limits=limits)


def _classes(words: ConsumedWords) -> tuple[VisitClass, ...]:
    """The classes; of several only those that "or" or "and" joins, or the intensive care unit."""
    marks = words.clause.of("class")
    if not marks and _is_about_stays(words):
        return ("inpatient",)
    values = {mark.value for mark in marks}
    if values == {"icu", "inpatient"}:
        values = {"icu"}
    elif len(values) > 1 and not words.clause.has("join"):
        words.used.update(marks[:1])
        return _CLASSES[marks[0].value]
    words.used.update(marks)
    classes = [
        name for value in _CLASSES if value in values for name in _CLASSES[value]
    ]
    return tuple(dict.fromkeys(classes))


def _is_about_stays(words: ConsumedWords) -> bool:
    clause = words.clause
    fields = clause.has("field", "discharge_destination", "length_of_stay")
    return fields or clause.has("verb", "discharge", "stay") or clause.has("stay")


def _outputs(words: ConsumedWords) -> Iterator[Output]:
    outputs = tuple(_open_outputs(words))
    position = position_of_outputs(words, outputs)
    use_past(words)
    state = state_of(words, may_end=False)
    clause = words.clause
    asks_now = clause.is_yes_no and clause.tense == "present" and not clause.has("ever")
    is_stay = clause.has("class", "inpatient", "icu")
    for output in outputs:
        if asks_now and is_stay and output.summary == "exists":
            state = state or "current"
        yield output._replace(position=position or output.position, state=state)


def _open_outputs(words: ConsumedWords) -> Iterator[Output]:
    how_often = words.use("wh", "how_often")
    lengths = words.use("length")
    if lengths:
        # The longest or the shortest stay.
        words.use("field", "length_of_stay")
        words.use("wh", "how_long")
        summary: Aggregation = "maximum" if lengths[0].value == "longest" else "minimum"
        yield Output("length_of_stay", summary)
        return
    if counts(words) or how_often or words.clause.has("per"):
        yield Output("time", "count")
        return
    fields = _fields_of_visits(words)
    if words.clause.is_yes_no:
        yield Output("time", "exists")
    elif not fields:
        yield Output("time")
    for field in dict.fromkeys(fields):
        yield _field(words, field)


def _fields_of_visits(words: ConsumedWords) -> list[str]:
    """The fields that are asked for; where somebody was discharged to is no place of the visit."""
    fields = [plain_field(each) for each in fields_of(words, _FIELDS)]
    if words.use("wh", "how_long") and "elapsed" not in fields:
        fields.append("length_of_stay")
    if "time" in fields and words.use("verb", "discharge"):
        fields[fields.index("time")] = "end_time"
    if "place" in fields and words.use("verb", "discharge"):
        fields[fields.index("place")] = "discharge_destination"
    if "discharge_destination" in fields:
        words.use("verb", "discharge")
    return fields


def _field(words: ConsumedWords, field: str) -> Output:
    if field == "elapsed":
        return time_since(words)
    if field == "length_of_stay":
        how_long = words.clause.words_of("wh", "how_long")
        length = words.clause.words_of("field", "length_of_stay")
        return Output("length_of_stay", unit=unit_of(how_long | length))
    return Output(field)  # type: ignore[arg-type]
