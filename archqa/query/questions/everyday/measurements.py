"""Questions about results: laboratory tests, vital signs, panels, scores, social history, cultures."""

from collections.abc import Iterator
from functools import cache
from typing import Any, Literal, NamedTuple, cast

from archqa.query.model import (
    Aggregation,
    Flag,
    Query,
    ReturnedField,
    RowKind,
    ValueTest,
)
from archqa.query.questions.everyday.clause import Clause, ConsumedWords, Mark
from archqa.query.questions.everyday.declining import Declined, Understood, decline
from archqa.query.questions.everyday.names import (
    Nameable,
    Named,
    NameLimit,
    named_marks,
    names_of,
    use_for_before_names,
)
from archqa.query.questions.everyday.outputs import (
    Draft,
    Output,
    counts,
    fields_of,
    newest_of,
    position_of,
    stay_of,
    time_since,
    use_plain_words,
)
from archqa.query.scope import Position, When
from archqa.terminology.concept import DRUG_KINDS, Concept
from archqa.terminology.concepts import concept_named, related
from archqa.terminology.units import ucum_unit
from archqa.terminology.words import word_list

_FIELDS = frozenset({"time", "elapsed", "value", "flag", "practitioner", "place"})


_REACHING = word_list("reaching")
_VALUE_WORDS = word_list("smoker")


class MeasurementQuestion(NamedTuple):
    """A clause about results. is_dated: spans of time or a stay limit the results."""

    words: ConsumedWords
    named: Named
    is_dated: bool

    @property
    def position(self) -> Position | None:
        """The position in time, if it names exactly one; "current" is the last one."""
        clause = self.words.clause
        values = {mark.value for mark in self.words.unused("position")}
        if clause.has("state", "current"):
            values.add("last")
        return cast("Position", values.pop()) if len(values) == 1 else None

    @property
    def is_of_any_time(self) -> bool:
        """Whether results of any time are meant, not the last one."""
        clause = self.words.clause
        return clause.has_any("ever", "exists", "span")

    @property
    def asks_flag_of_last(self) -> bool:
        """Is her potassium high: the flag of the last value is asked for."""
        clause = self.words.clause
        if not clause.has("flag") or not clause.is_yes_no or self.is_of_any_time:
            return False
        return clause.tense == "present" or clause.has("position", "last")


def measurement_outputs(question: MeasurementQuestion) -> tuple[Output, ...]:
    """The asks; the position is used only if one of them holds it.

    Raises ValueError if a date or a person is asked of a summary, which has none.
    """
    words = question.words
    fields = fields_of(words, _FIELDS)
    words.use("series", "dates")
    outputs = list(_summaries(question))
    if outputs and set(fields) - {"value"}:
        raise ValueError("a summary has no date")
    if not outputs:
        outputs = list(_results(question, fields))
        # One ask for each extreme, and for each of two positions: first and last.
        extremes = _extremes(words)
        positions = _joined_values(words, "position")
        varied = []
        for output in outputs:
            for extreme in extremes:
                varied.append(output._replace(extreme=extreme, position=None))  # type: ignore[arg-type]
            if len(positions) > 1:
                for position in positions:
                    varied.append(output._replace(position=position))  # type: ignore[arg-type]
        outputs = varied or outputs
    if any(output.position for output in outputs):
        words.use("position")
        words.use("state", "current")
    return tuple(outputs)


def _summaries(question: MeasurementQuestion) -> Iterator[Output]:
    """A number of results, an average, or a change."""
    words = question.words
    if counts(words) or words.use("wh", "how_often"):
        yield Output("value", "count")
        if words.use("series", "dates"):
            yield Output("value")
    elif words.use("summary", "average"):
        words.use("series")
        yield Output("value", "average")
    elif words.clause.has("summary", "change") or words.clause.has("trend"):
        yield from _changes(question)
    elif words.clause.words_of("verb", "start") == {"put", "on"}:
        words.use("verb", "start")  # "Has she put on weight".
        yield from _changes(question)


def _changes(question: MeasurementQuestion) -> Iterator[Output]:
    """How much it changed; and, where a direction or a trend is asked for, every value."""
    words = question.words
    words.use("summary", "change")
    # A change of a blood pressure would be of two numbers: its values are listed.
    if any(limit.concepts == ("blood pressure",) for limit in question.named.limits):
        words.use("trend", "any")
        words.use("series")
        yield Output("value")
        return
    shows_values = bool(words.use("trend")) | bool(words.use("series"))
    if (
        shows_values
        or question.words.clause.is_yes_no
        or "much" not in words.clause.words
    ):
        yield Output("value")
    yield Output("value", "change")


def _results(
    question: MeasurementQuestion, fields: tuple[str, ...]
) -> Iterator[Output]:
    if question.asks_flag_of_last:
        question.words.use("flag")
        yield Output("flag", position="last")
        return
    if question.words.clause.is_yes_no and not fields:
        yield _yes_no(question)
        return
    if "time" in fields and _names_one_value(question):
        raise ValueError("when it had this value cannot be asked")
    returned = fields or ("value",)
    if set(returned) == {"time", "value"}:
        returned = ("value",)
    at = question.position or _implied_position(question, returned)
    for field in returned:
        if field == "elapsed":
            yield time_since(question.words, at or "last")
        else:
            yield Output(cast("ReturnedField", field), position=at)


def _yes_no(question: MeasurementQuestion) -> Output:
    """Whether there is any result; of what is told by its value, such as smoking, the last value.

    Whether she ever smoked is told by all values together.
    """
    has_ever = question.words.clause.has("ever")
    question.words.use("outcome")
    if not _is_status(question.named) or has_ever:
        return Output("value", "exists", position=question.position)
    return (
        Output("value", position="last")
        if question.words.clause.tense == "present"
        else Output("value")
    )


def _names_one_value(question: MeasurementQuestion) -> bool:
    """Whether the words name a value of a status and not the status: "an ex-smoker"."""
    texts = question.words.clause.words_of("concept")
    return _is_status(question.named) and not texts.isdisjoint(_VALUE_WORDS)


def _is_status(named: Named) -> bool:
    names = {concept for limit in named.limits for concept in limit.concepts}
    return bool(names) and names <= set(related("status"))


def _implied_position(
    question: MeasurementQuestion, returned: tuple[str, ...]
) -> Literal["last"] | None:
    """The last one, unless words speak of several results, or of those of some time."""
    clause = question.words.clause
    is_series = bool(question.words.use("series")) or clause.has("history")
    is_limited = clause.has_any("flag", "test")
    has_plural = any(mark.text.endswith("s") for mark in clause.of("noun", "measure"))
    if clause.has("newest"):
        return None
    if question.is_dated or is_series or is_limited or has_plural or "time" in returned:
        return None
    return "last"


def _extremes(words: ConsumedWords) -> tuple[str, ...]:
    """Highest and lowest; the worst where it is known which way is bad; how low it got."""
    how_far = words.use("wh", "how_high", "how_low")
    if how_far and (words.clause.has("ever") or _REACHING & words.clause.words):
        # How low did it get, how high has it ever been: not how high it is.
        words.use("verb", "visit")
        return ("maximum" if how_far[0].value == "how_high" else "minimum",)
    if not words.clause.has("extreme", "worst"):
        return _joined_values(words, "extreme")
    words.use("extreme", "worst")
    names = {each.name for each in words.clause.concepts if each.kind == "measurement"}
    worst = related("worst")
    extremes = {extreme for name in names for extreme in worst.get(name, ())}
    if len(extremes) != 1:
        raise ValueError("the record does not say which value is the worst")
    return tuple(extremes)


def _joined_values(words: ConsumedWords, kind: str) -> tuple[str, ...]:
    """The values of marks that nothing has used; several must be joined by "and"."""
    values = tuple(dict.fromkeys(mark.value for mark in words.unused(kind)))
    if len(values) > 1 and not words.clause.has("join", "and"):
        return ()
    if kind == "extreme":
        words.use(kind)
    return values


MEASUREMENTS = Nameable(frozenset({"measurement"}), frozenset({"observation"}))
_SYSTOLIC_FROM = 100
"""A single number for a blood pressure is the systolic one from here on; below it is ambiguous."""


def read_measurements(words: ConsumedWords) -> Draft | Declined:
    """The queries of a clause about results."""
    named = _named(words)
    if words.clause.has("noun", "measure") or words.clause.has("row"):
        use_for_before_names(words, MEASUREMENTS)
    what: RowKind = "observation"
    if named.limits:
        words.use("row", "lab", "observation", "vital")
    elif words.use("row", "lab"):
        what = "lab"
    elif words.use("row", "vital"):
        what = "vital"
    else:
        words.use("row", "observation")
    stay = stay_of(words)
    spans = words.use_spans()
    is_dated = bool(spans or stay.visit or stay.companion)
    question = MeasurementQuestion(words, named, is_dated)
    use_plain_words(words)
    words.use("wh", "how", "how_much")
    words.use("noun", "measure")
    words.use("verb", "measure", "do", "get", "taken", "test_positive")
    words.use("noun", "episode")
    words.use("ever")
    words.use("history")
    clause = words.clause
    is_last = clause.is_yes_no and (
        question.position is not None or clause.tense == "present"
    )
    if clause.has("test") and is_last and not question.is_of_any_time:
        return decline("last_compared", *last_values(named))
    if clause.has("flag", "normal") and clause.is_yes_no and not named.limits:
        return decline("unnamed_normal", Query(what="lab", flag="abnormal"))
    if clause.has("field", "reason"):
        return decline("why_value", *last_values(named))
    tests = clause.of("test")
    test = None
    if len(tests) == 1 and _has_unit_of_concept(words, tests[0]):
        words.used.update(tests)
        test = tests[0].test
    flag, newest, specimens = _flag(question), newest_of(words), _specimens_of(words)
    outputs = measurement_outputs(question)
    named = _of_single_values(named, test, outputs)
    limits = {"flag": flag, "value": test, "newest": newest, "specimens": specimens}
    return Draft((what,), outputs, named, spans, stay, limits)


def _named(words: ConsumedWords) -> Named:
    """The measurements that are named; each of an ambiguous word is a limit of its own."""
    named = names_of(words, MEASUREMENTS)
    limits: list[NameLimit] = []
    for limit in named.limits:
        if (
            len(limit.concepts) > 1
            and not limit.names
            and not words.clause.has("join", "or")
        ):
            limits += [NameLimit(concepts=(concept,)) for concept in limit.concepts]
        else:
            limits.append(limit)
    is_ambiguous = len(named.limits) == 1 and len(limits) > 1
    return Named(tuple(limits), "or" if is_ambiguous else named.joined)


def last_values(named: Named) -> Iterator[Query]:
    """The last value of each name."""
    for limit in named.limits[:2]:
        yield Query(
            what="observation",
            names=limit.names,
            concepts=limit.concepts,
            when=When(position="last"),
        )


def _flag(question: MeasurementQuestion) -> Flag | None:
    """The flag that limits the results; of the last value, the flag itself is asked."""
    outcomes = question.words.clause.of("outcome")
    if len(outcomes) == 1 and not question.words.clause.is_yes_no:
        question.words.used.update(outcomes)
        return "positive" if outcomes[0].value == "positive" else "negative"
    flags = question.words.clause.of("flag")
    if len({mark.value for mark in flags}) != 1 or question.asks_flag_of_last:
        return None
    question.words.used.update(flags)
    flag: Flag = flags[0].value  # type: ignore[assignment]
    return flag


def _has_unit_of_concept(words: ConsumedWords, test: Mark) -> bool:
    """Whether the unit after the number, if any, is the one in which values are shown."""
    unit, marks = (test.unit, []) if test.unit else _unit_after(words, test)
    if not unit:
        return True
    units = {
        concept.unit
        for concept in words.clause.concepts
        if concept.kind == "measurement"
    }
    if units != {ucum_unit(unit)}:
        return False
    words.used.update(marks)
    return True


def _unit_after(words: ConsumedWords, test: Mark) -> tuple[str, list[Mark]]:
    """The longest unit in the unknown words and signs right after a number, and their marks."""
    unit: tuple[str, list[Mark]] = ("", [])
    marks: list[Mark] = []
    for mark in words.clause.marks:
        if mark.start < test.end:
            continue
        if mark.kind not in {"unknown", "sign"}:
            break
        marks.append(mark)
        text = "".join(part.value for part in marks)
        if _is_unit(text):
            unit = (text, list(marks))
    return unit


@cache
def _is_unit(text: str) -> bool:
    return ucum_unit(text) is not None


def _of_single_values(
    named: Named, test: ValueTest | None, outputs: tuple[Output, ...]
) -> Named:
    """For an extreme, a comparison or a summary: the single measurements of a panel."""
    summaries = {output.summary for output in outputs} - {"each", "count", "exists"}
    has_extreme = any(output.extreme for output in outputs)
    if not (has_extreme or test or summaries):
        return named
    expanded: list[NameLimit] = []
    for limit in named.limits:
        if len(limit.concepts) != 1 or limit.names:
            expanded.append(limit)
            continue
        concept = concept_named("measurement", limit.concepts[0])
        for name in _parts_with_one_value(concept, test):
            expanded.append(NameLimit(concepts=(name,)))
    return named._replace(limits=tuple(expanded))


def _parts_with_one_value(concept: Concept, test: ValueTest | None) -> tuple[str, ...]:
    """Both blood pressures, or the measurement that stands for a panel."""
    if concept.name != "blood pressure":
        return concept.parts[:1] or (concept.name,)
    systolic, diastolic = "systolic blood pressure", "diastolic blood pressure"
    if test is None:
        return (systolic, diastolic)
    if test.number < _SYSTOLIC_FROM:
        raise ValueError(
            "a single number below 100 may be a systolic or a diastolic pressure"
        )
    return (systolic,)


_DRUGS = Nameable(DRUG_KINDS, frozenset())
_CULTURES = Nameable(frozenset({"measurement"}), frozenset())
_FIELDS_OF_CULTURES = frozenset({"time", "value"})


_GERMS = word_list("germ")


_CULTURED = word_list("cultured")


def asks_results_of_specimen(clause: Clause) -> bool:
    """Whether what is measured in a specimen is asked for, and no culture of it."""
    if clause.has_any("susceptibility", "germ") or clause.has("verb", "grow"):
        return False
    if clause.words & _CULTURED or clause.has("row", "microbiology"):
        return False
    has_names = bool(named_marks(clause, MEASUREMENTS))
    return has_names or clause.has("noun", "measure") or clause.has("row", "lab")


def _specimens_of(words: ConsumedWords) -> tuple[str, ...]:
    specimens: list[str] = []
    for mark in words.use("specimen"):
        specimens += mark.value.split("|")
    return tuple(specimens)


def read_cultures(words: ConsumedWords) -> Understood:
    """The queries of a clause about cultures; the same words may mean several kinds of rows.

    Raises ValueError if their parts contradict.
    """
    specimens = _specimens_of(words)
    stay = stay_of(words)
    when = When(visit=stay.visit, spans=words.use_spans(), position=position_of(words))
    limits: dict[str, Any] = {"specimens": specimens, "when": when}
    if stay.companion is not None:
        limits["companion"] = stay.companion
    if words.clause.has("susceptibility"):
        return Understood((_susceptibility(words, limits),), "or")
    fields = fields_of(words, _FIELDS_OF_CULTURES)
    is_count = counts(words)
    germs = _germs(words)
    has_grown = bool(words.use("verb", "grow")) or bool(
        words.use("outcome", "positive")
    )
    _use_words_of_cultures(words)
    cultures = names_of(words, _CULTURES)
    limits["specimens"] = (*limits["specimens"], *_specimens(cultures))
    if is_count or (words.clause.is_yes_no and not fields):
        summary: Aggregation = "count" if is_count else "exists"
        # Whether, or in how many cultures, something grew.
        if germs:
            return Understood(
                (Query(what="organism", names=germs, summary=summary, **limits),), "or"
            )
        grew = True if has_grown else None
        query = Query(what="microbiology_test", summary=summary, grew=grew, **limits)
        others = _as_results(words, cultures, limits, summary, has_grown=has_grown)
        return Understood((query, *others), "or")
    returned: ReturnedField = "time" if fields == ("time",) else "value"
    is_germ = has_grown or germs or _asks_for_germs(words)
    what: RowKind = "organism" if is_germ else "microbiology_test"
    query = Query(what=what, names=germs, returns=returned, **limits)
    others = _as_results(words, cultures, limits, "each", has_grown=has_grown)
    return Understood((query, *others), "or")


def _as_results(
    words: ConsumedWords,
    cultures: Named,
    limits: dict[str, Any],
    summary: Aggregation,
    *,
    has_grown: bool,
) -> Iterator[Query]:
    """The same of records that hold cultures as other results."""
    concepts = tuple(concept for limit in cultures.limits for concept in limit.concepts)
    others = dict(limits)
    specimens = others.pop("specimens")
    if concepts:
        others["concepts"] = concepts
    elif words.clause.words & _CULTURED:
        others["names"] = tuple(f"{specimen} culture" for specimen in specimens)
    elif not has_grown and not _asks_for_germs(words):
        others["specimens"] = specimens
    if any(map(others.get, ("concepts", "names", "specimens"))):
        flag: Flag | None = "positive" if has_grown else None
        yield Query(what="observation", summary=summary, flag=flag, **others)


def _specimens(cultures: Named) -> Iterator[str]:
    """What was cultured: `BLOOD` of a blood culture."""
    for limit in cultures.limits:
        for concept in limit.concepts:
            yield concept.removesuffix(" culture").upper()


def _germs(words: ConsumedWords) -> tuple[str, ...]:
    """The germs that are named, as a record spells them."""
    return tuple(dict.fromkeys(mark.value for mark in words.use("germ")))


def _susceptibility(words: ConsumedWords, limits: dict[str, Any]) -> Query:
    """What the germs were resistant or sensitive to: all results, or that for one drug."""
    drugs = names_of(words, _DRUGS)
    limits["organisms"] = _germs(words)
    words.use("susceptibility")
    words.use("row", "medication")
    words.use("verb", "grow")
    _use_words_of_cultures(words)
    if len(drugs.limits) > 1:
        raise ValueError("several medicines at once")
    for limit in drugs.limits:
        limits["concepts"] = limit.concepts
    return Query(what="susceptibility", returns="value", **limits)


def _use_words_of_cultures(words: ConsumedWords) -> None:
    words.use("row", "microbiology", "lab")
    use_plain_words(words)
    words.use("verb", "get", "do", "measure", "find", "taken")
    words.use("noun", "measure")
    words.use("ever")
    words.use("series")


def _asks_for_germs(words: ConsumedWords) -> bool:
    return bool(_GERMS & words.clause.words)
