"""What a clause asks of rows, during which stay, and the draft of its queries."""

from typing import Any, Literal, NamedTuple

from archqa.query.model import (
    Aggregation,
    Companion,
    Query,
    ReturnedField,
    RowKind,
    State,
)
from archqa.query.questions.everyday.clause import Clause, ConsumedWords, Mark
from archqa.query.questions.everyday.declining import Understood
from archqa.query.questions.everyday.names import Named, NameLimit
from archqa.query.scope import Position, Span, Unit, Visit, When
from archqa.terminology.words import word_list

_UNITS: tuple[Unit, ...] = ("minute", "hour", "day", "week", "month", "year")


class Output(NamedTuple):
    """One thing that is asked of the rows: one query each."""

    returns: ReturnedField
    summary: Aggregation = "each"
    position: Position | None = None
    state: State | None = None
    extreme: Literal["minimum", "maximum"] | None = None
    unit: Unit | None = None


def position_of(words: ConsumedWords) -> Position | None:
    """The position in time, if exactly one is named; of several none is used."""
    positions = words.unused("position")
    if len({mark.value for mark in positions}) != 1:
        return None
    words.used.update(positions)
    value: Position = positions[0].value  # type: ignore[assignment]
    return value


def newest_of(words: ConsumedWords) -> int | None:
    """How many of the latest are asked for: "the last three visits"; of two numbers none is used."""
    marks = words.unused("newest")
    if len(marks) != 1:
        return None
    words.used.update(marks)
    return int(marks[0].value)


def position_of_outputs(
    words: ConsumedWords, outputs: tuple[Output, ...]
) -> Position | None:
    """The position in time where it can be meant: not of a number, nor of yes or no in a span."""
    summaries = {output.summary for output in outputs}
    if summaries <= {"count", "count_distinct"}:
        return None
    if summaries == {"exists"} and words.unused("span"):
        return None
    return position_of(words)


def asks_last_time(words: ConsumedWords) -> bool:
    """Whether a date is asked for by its position alone: the last time oxycodone was given."""
    return "time" in words.clause.words_of("position")


def state_of(words: ConsumedWords, *, may_end: bool = True) -> State | None:
    """The state that is named: still and currently, or stopped; of a contradiction none is used."""
    current = words.unused("state", "current") + words.unused("still")
    ended = words.unused("state", "ended")
    if ended and (current or not may_end):
        return None
    words.used.update(current + ended)
    if current:
        return "current"
    return "ended" if ended else None


_PAST = frozenset({"past", "previous", "previously", "prior"})


def use_past(words: ConsumedWords) -> None:
    """Use "past" and "previous" with rows that happen and do not last: all of them are past.

    One previous visit is not all of them: with a noun in the singular the word is left over.
    """
    nouns = [
        mark
        for kind in ("row", "class", "concept", "name")
        for mark in words.clause.of(kind)
    ]
    if any(mark.text.endswith("s") for mark in nouns):
        past = [mark for mark in words.unused("state", "ended") if mark.text in _PAST]
        words.used.update(past)


def plain_field(field: str) -> str:
    """The field of a query: what something is for is its reason."""
    return "reason" if field == "for_what" else field


def fields_of(words: ConsumedWords, accepted: frozenset[str]) -> tuple[str, ...]:
    """The fields that are asked for, each once, in the order of the question."""
    marks = [mark for mark in words.clause.of("field") if mark.value in accepted]
    words.used.update(marks)
    fields = dict.fromkeys(mark.value for mark in marks)
    return tuple(fields)


def unit_of(words: frozenset[str]) -> Unit | None:
    """The unit of time that is named among some words: "how many weeks since"."""
    return next((unit for unit in _UNITS if words & {unit, f"{unit}s"}), None)


def time_since(words: ConsumedWords, position: Position = "last") -> Output:
    """The time since the last one, in the unit that is asked for."""
    return Output(
        "elapsed",
        position=position,
        unit=unit_of(words.clause.words_of("field", "elapsed")),
    )


def counts(words: ConsumedWords) -> bool:
    """Whether the number of rows is asked for.

    "Total" stands for it, too, but of a measurement it may belong to the name.
    """
    if words.use("summary", "count"):
        return True
    clause = words.clause
    is_measured = any(concept.kind == "measurement" for concept in clause.concepts)
    if is_measured or not clause.has_any("row", "class"):
        return False
    return bool(words.use("summary", "total"))


def use_plain_words(words: ConsumedWords) -> None:
    """Note the question words that carry nothing beside what they ask of: what, which, any."""
    if not _asks_meaning(words):
        words.use("wh", "what")
    words.use("exists")
    words.use("form")
    words.use("join")
    words.use("noun", "named", "type", "list")
    # "With" may only join what is shown: "her medicines with doses".
    fields = {mark.start for mark in words.clause.of("field")}
    links = words.unused("link", "with")
    words.used.update(mark for mark in links if mark.end in fields)


_OF_WHOM = word_list("of whom")


def _asks_meaning(words: ConsumedWords) -> bool:
    """Whether "what is asthma" asks what a word means: no row, field, verb or person is named."""
    clause = words.clause
    if not any(mark.text in {"what", "which"} for mark in clause.of("wh", "what")):
        return False
    if clause.has("person"):
        return False
    if clause.has_any("row", "field", "verb", "noun", "class", "span", "state"):
        return False
    if clause.has("concept") and all(
        each.kind == "measurement" for each in clause.concepts
    ):
        return False
    return not clause.words & _OF_WHOM


_KINDS = {"inpatient": "hospital", "icu": "icu"}
_PREPOSITIONS = word_list("preposition")


class Stay(NamedTuple):
    """A visit of the query's own, or a companion that a visit of some date is."""

    visit: Visit | None = None
    companion: Companion | None = None


def stay_of(words: ConsumedWords) -> Stay:
    """The stay that limits the rows; none if no stay is named, or one that cannot be expressed."""
    marks = _marks_of_stay(words.clause)
    if not marks:
        return Stay()
    stay = _stay(marks)
    if stay is not None:
        words.used.update(marks)
    return stay or Stay()


def _marks_of_stay(clause: Clause) -> tuple[Mark, ...]:
    """A preposition, its position, span and class, and the noun of a visit or stay."""
    places = [place for place, mark in enumerate(clause.marks) if _is_visit(mark)]
    if not places:
        return ()
    first = places[0]
    while first > 0 and _belongs_to_stay(clause.marks[first - 1]):
        first -= 1
    marks = clause.marks[first : places[-1] + 1]
    before = clause.marks[first - 1] if first else None
    # "In the hospital" is one mark that begins with a preposition.
    is_opened = any(
        mark.kind in {"position", "span"} or mark.text.split(" ")[0] in _PREPOSITIONS
        for mark in marks
    )
    is_opened = is_opened or (before is not None and before.value == "during")
    if not is_opened or not all(
        _is_visit(mark) or _belongs_to_stay(mark) for mark in marks
    ):
        return ()
    return (
        (before, *marks) if before is not None and before.value == "during" else marks
    )


def _is_visit(mark: Mark) -> bool:
    return mark.kind in {"class", "stay"} or (
        mark.kind == "row" and mark.value == "encounter"
    )


def _belongs_to_stay(mark: Mark) -> bool:
    if mark.kind == "state":
        return mark.value == "current"
    return mark.kind in {"filler", "position", "span", "person_name"}


def _stay(marks: tuple[Mark, ...]) -> Stay | None:
    classes = {mark.value for mark in marks if mark.kind == "class"}
    positions = [mark.value for mark in marks if mark.kind == "position"]
    spans = tuple(span for mark in marks for span in mark.spans)
    if classes - _KINDS.keys() or len(classes) > 1 or len(positions) > 1:
        return None
    kind = _KINDS[classes.pop()] if classes else ""
    position: Position | None = positions[0] if positions else None  # type: ignore[assignment]
    is_current = any(mark.kind == "state" for mark in marks)
    is_any_icu = kind == "icu" and position is None and not is_current
    if spans or not kind or is_any_icu:
        return _companion(kind, position, spans)
    is_this = any(not {"this", "these"}.isdisjoint(mark.text.split()) for mark in marks)
    if position is not None and not is_current:
        return Stay(visit=Visit(kind=kind, which=position))
    if is_current or is_this:
        return Stay(visit=Visit(kind=kind, which="current"))
    return None


def _companion(
    kind: str, position: Position | None, spans: tuple[Span, ...]
) -> Stay | None:
    """A stay by its date, any stay in intensive care, or an office visit by its position."""
    if kind == "icu":
        when = When(spans=spans, position=position)
        return Stay(companion=Companion(what="icu_stay", within="stay", when=when))
    if not (spans or position):
        return None
    what = "hospital_visit" if kind else "encounter"
    when = When(spans=spans, position=position)
    return Stay(companion=Companion(what=what, within="same_visit", when=when))


class Draft(NamedTuple):
    """What the queries of a clause have in common, and in what they differ."""

    kinds: tuple[RowKind, ...]
    outputs: tuple[Output, ...]
    named: Named = Named()
    spans: tuple[Span, ...] = ()
    stay: Stay = Stay()
    limits: dict[str, Any] = {}
    reasons_instead_of_names: tuple[str, ...] = ()
    """The same question once more, of rows with one of these reasons."""

    def understood(self) -> Understood:
        """The queries, and how they are joined. Raises ValueError if their parts contradict.

        They are joined by "or" where whichever finds something answers.
        """
        # Without a name there is one limit, which limits nothing.
        name_limits = self.named.limits or (NameLimit(),)
        queries = []
        for name_limit in name_limits:
            for output in self.outputs:
                fields = {
                    "names": name_limit.names,
                    "concepts": name_limit.concepts,
                    "companion": self.stay.companion,
                    "state": output.state,
                    "extreme": output.extreme,
                    "unit": output.unit,
                    **self.limits,
                    "when": When(
                        visit=self.stay.visit,
                        spans=self.spans,
                        position=output.position,
                    ),
                    "returns": output.returns,
                    "summary": output.summary,
                }
                stated = {
                    name: value
                    for name, value in fields.items()
                    if value not in (None, ())
                }
                for what in self.kinds:
                    queries.append(Query(what=what, **stated))
        joined = self.named.joined
        if len(self.kinds) > 1 and len(self.outputs) * len(name_limits) == 1:
            joined = "or"
        if self.reasons_instead_of_names and queries:
            limits = {
                "names": (),
                "concepts": (),
                "reasons": self.reasons_instead_of_names,
            }
            queries.append(queries[0].model_copy(update=limits))
            joined = "or"
        return Understood(tuple(queries), joined)
