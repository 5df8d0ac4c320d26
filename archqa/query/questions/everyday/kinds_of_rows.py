"""Questions about all other kinds of rows: problems, procedures, allergies, vaccines, plans.

What each kind accepts stands in `data/kinds_of_rows.tsv`.
"""

from collections.abc import Iterator
from functools import cache
from typing import NamedTuple, cast

from archqa.core.tables import read_rows
from archqa.query.execution.histories import stated_by
from archqa.query.model import Aggregation, Query, ReturnedField, RowKind, State
from archqa.query.questions.everyday.clause import Clause, ConsumedWords
from archqa.query.questions.everyday.declining import Declined, decline
from archqa.query.questions.everyday.names import (
    Nameable,
    Named,
    NameLimit,
    names_of,
    reasons_of,
    use_for_before_names,
)
from archqa.query.questions.everyday.outputs import (
    Draft,
    Output,
    Stay,
    asks_last_time,
    counts,
    fields_of,
    newest_of,
    plain_field,
    position_of_outputs,
    state_of,
    stay_of,
    time_since,
    use_past,
    use_plain_words,
)
from archqa.terminology.concept import DRUG_KINDS
from archqa.terminology.concepts import find_concepts, related
from archqa.terminology.matching import expand
from archqa.terminology.words import common_forms


class GeneralKind(NamedTuple):
    """What a kind of rows accepts.

    concepts: kinds of concepts that name its rows. listed, named: the field returned of a list,
    and of rows that a name without further words asks for. traits: as in the table.
    """

    what: RowKind
    concepts: frozenset[str]
    listed: ReturnedField
    named: ReturnedField
    fields: frozenset[str]
    verbs: frozenset[str]
    traits: frozenset[str]

    @property
    def nameable(self) -> Nameable:
        """What names its rows."""
        return Nameable(self.concepts, frozenset({self.what}))


def read_general_rows(words: ConsumedWords, what: RowKind) -> Draft | Declined:
    """The queries of a clause about rows of a kind of the table."""
    kind = general_kinds()[what]
    named = names_of(words, kind.nameable)
    if what == "procedure":
        use_for_before_names(words, kind.nameable)
    if words.clause.has("field", "reason") and "reason" not in kind.fields:
        return decline("why_value", *_dates(kind, named))
    reasons = reasons_of(words) if "reason" in kind.fields else ()
    stay = stay_of(words) if "stays" in kind.traits else Stay()
    outputs = tuple(_outputs(words, kind, named))
    use_plain_words(words)
    words.use("row", kind.what)
    if kind.what == "diagnosis":
        words.use("row", "history")
    if "for" in kind.traits:
        words.use("link", "for")
    words.use("verb", *kind.verbs, "test_positive")
    words.use("noun", "episode")
    words.use("ever")
    words.use("series")
    words.use("history")
    spans = words.use_spans()
    if what == "diagnosis" and (tests := _tests_of(words, named)):
        limits = {"flag": "positive"}
        return Draft(
            ("observation",), (Output("value", "exists"),), tests, spans, stay, limits
        )
    return Draft(
        (what,),
        outputs,
        named,
        spans,
        stay,
        {"reasons": reasons, "newest": newest_of(words)},
    )


def _tests_of(words: ConsumedWords, named: Named) -> Named | None:
    """The tests for what is named, where it is asked whether one was positive."""
    asks_result = words.clause.has("verb", "test_positive") or words.clause.has(
        "outcome", "positive"
    )
    tests_of = related("diagnosis by observation")
    limits = []
    for limit in named.limits:
        tests = [test for name in limit.concepts for test in tests_of.get(name, ())]
        if not asks_result or not tests:
            return None
        limits.append(NameLimit(concepts=tuple(tests)))
    words.use("outcome", "positive")
    return Named(tuple(limits), named.joined) if limits else None


def _dates(kind: GeneralKind, named: Named) -> Iterator[Query]:
    """Since when each named thing is there."""
    for limit in named.limits:
        yield Query(
            what=kind.what, names=limit.names, concepts=limit.concepts, returns="time"
        )


def _outputs(words: ConsumedWords, kind: GeneralKind, named: Named) -> Iterator[Output]:
    outputs = tuple(_open_outputs(words, kind, named))
    position = position_of_outputs(words, outputs)
    state = None
    if "ends" in kind.traits:
        state = state_of(words)
    else:
        use_past(words)
    for output in outputs:
        now = _implied_state(words, kind, output)
        at = None if output.summary == "count" else position or output.position
        yield output._replace(position=at, state=output.state or state or now)


def _open_outputs(
    words: ConsumedWords, kind: GeneralKind, named: Named
) -> Iterator[Output]:
    """What is asked, before position and state of the whole clause."""
    has_ended = _use_end(words, kind)
    if counts(words) or words.use("wh", "how_often"):
        words.use("field", "dose")
        yield Output(kind.listed, "count")
        if words.clause.has("position") and words.clause.has("join"):
            yield Output("time")
        return
    fields = [plain_field(field) for field in fields_of(words, kind.fields)]
    if not fields and asks_last_time(words):
        fields = ["time"]
    if (
        "elapsed" in kind.fields
        and words.use("wh", "how_long")
        and "elapsed" not in fields
    ):
        if "length_of_stay" in kind.fields and words.clause.tense in {"past", ""}:
            # How long did it take, how long did it last, how long on the ventilator.
            words.use("verb", "take")
            said = [mark for mark in words.clause.marks if mark.kind != "sign"]
            if said[-1].value == "last":
                words.used.add(said[-1])
            yield Output("length_of_stay")
            return
        yield Output("elapsed", position="first")
        if "length_of_stay" in kind.fields and words.clause.tense == "perfect":
            yield Output("length_of_stay")  # What has ended does not go on until now.
        return
    # "History of asthma" asks whether there was any; "allergy history" asks for all.
    has_history_of = "of" in words.clause.words_of("history")
    is_named = bool(named.limits)
    asks_history_of = (
        has_history_of and not fields and is_named and not words.clause.tense
    )
    if words.clause.is_yes_no or asks_history_of:
        yield Output(kind.named, "exists", state="ended" if has_ended else None)
    elif not fields:
        yield Output(kind.named if is_named else kind.listed)
    for field in dict.fromkeys(fields):
        yield _field(words, kind, field, has_ended=has_ended)


def _use_end(words: ConsumedWords, kind: GeneralKind) -> bool:
    """Whether the end of rows is asked for: resolved, went away, ended."""
    if "end_time" not in kind.fields:
        return False
    is_ended = words.clause.has("field", "time") and words.clause.has("state", "ended")
    return bool(words.use("verb", "resolve", "stop")) or is_ended


def _field(
    words: ConsumedWords, kind: GeneralKind, field: str, *, has_ended: bool
) -> Output:
    if field == "time" and has_ended:
        return Output("end_time", state="ended")
    if (
        field == "time"
        and kind.what != "diagnosis"
        and words.clause.has("verb", "start")
    ):
        return Output("time", position="first")
    if field == "elapsed":
        return time_since(words)
    return Output(cast("ReturnedField", field))


def _implied_state(
    words: ConsumedWords, kind: GeneralKind, output: Output
) -> State | None:
    """What somebody has is current; what she had or has had may have ended."""
    if "current" not in kind.traits or words.clause.has("ever"):
        return None
    asks_history = words.clause.has("history") or words.clause.has("row", "history")
    if asks_history or words.clause.has("span"):
        return None
    if output.summary == "count" and "have" not in words.clause.words:
        return None
    is_date = output.returns in {"time", "end_time"} and output.summary != "exists"
    if words.clause.has("position") or is_date:
        return None
    if words.clause.tense == "present":
        return "current"
    is_bare_list = (
        not words.clause.tense
        and not words.clause.is_yes_no
        and output.returns == kind.listed
    )
    is_named = words.clause.has_any("concept", "name")
    return "current" if is_bare_list and not is_named else None


@cache
def general_kinds() -> dict[str, GeneralKind]:
    """The kinds of `data/kinds_of_rows.tsv`."""
    return {
        row[0]: _general_kind(row)
        for row in read_rows("query/questions/everyday/data/kinds_of_rows.tsv", 7)
    }


def _general_kind(row: tuple[str, ...]) -> GeneralKind:
    what, concepts, listed, named, fields, verbs, traits = row
    return GeneralKind(
        what=cast("RowKind", what),
        concepts=frozenset(concepts.split()) - {"-"},
        listed=cast("ReturnedField", listed),
        named=cast("ReturnedField", named),
        fields=frozenset(fields.split()),
        verbs=frozenset(verbs.split()),
        traits=frozenset(traits.split()),
    )


def read_allergies(words: ConsumedWords) -> Draft | Declined:
    """The queries of a clause about allergies."""
    categories = {mark.value for mark in words.use("category")}
    if categories and not _are_all_of(words, categories):
        return decline("category", Query(what="allergy", returns="name"))
    return read_general_rows(words, "allergy")


def _are_all_of(words: ConsumedWords, categories: set[str]) -> bool:
    """Whether every allergy of the patient is of the category that is asked for."""
    allergens = []
    for name in words.vocabulary.own("allergy"):
        if stated_by(name).kind == "allergy":
            allergens.append(name)
    if categories != {"drug"}:
        return not allergens
    for allergen in allergens:
        kinds = {match.concept.kind for match in find_concepts(allergen)}
        if kinds.isdisjoint(DRUG_KINDS):
            return False
    return True


def read_appointments(words: ConsumedWords) -> Draft | Declined:
    """The queries of a clause about appointments that lie ahead."""
    is_next = words.clause.has("future", "next")
    words.use("future")
    words.use("link", "with")
    draft = read_general_rows(words, "appointment")
    if isinstance(draft, Declined):
        return draft
    outputs = []
    for output in draft.outputs:
        position = "first" if is_next else output.position
        outputs.append(output._replace(state="current", position=position))
    return draft._replace(outputs=tuple(outputs))


_OF_REFUSALS = ("refused", "refusal", "declined", "objection", "unwilling", "PATOBJ")
"""Words of the reasons for which a patient did not get something, and their code in v3-ActReason."""


def read_refusals(words: ConsumedWords) -> Draft | Declined:
    """The queries of a clause about what was refused, or was not given or done."""
    refusals = {mark.value for mark in words.use("refusal")}
    draft = read_general_rows(words, "not_done")
    if isinstance(draft, Declined) or "not_done" in refusals:
        return draft
    return draft._replace(limits={**draft.limits, "results": _OF_REFUSALS})


def read_family_history(words: ConsumedWords) -> Draft | Declined:
    """The queries of a clause about the family, or about some relatives of the patient."""
    relatives = words.use("relative")
    if relatives:
        words.use("link", "with")
    words.use("row", "diagnosis", "history")
    words.use("verb", "diagnose")
    draft = read_general_rows(words, "family_history")
    if isinstance(draft, Declined) or not relatives:
        return draft
    results = tuple(dict.fromkeys(mark.value for mark in relatives))
    return draft._replace(limits={**draft.limits, "results": results})


def read_care_plans(words: ConsumedWords) -> Draft | Declined:
    """The queries of a clause about care plans."""
    draft = read_general_rows(words, "care_plan")
    if isinstance(draft, Declined):
        return draft
    named = Named(tuple(map(_of_condition, draft.named.limits)), draft.named.joined)
    draft = draft._replace(named=named)
    if len(named.limits) != 1 or len(draft.outputs) != 1:
        return draft
    return draft._replace(reasons_instead_of_names=tuple(_reasons(named.limits[0])))


def _of_condition(limit: NameLimit) -> NameLimit:
    """The limit with the condition whose values a measurement tells: cholesterol, sugar."""
    conditions = related("condition of measurement")
    names = [name for each in limit.concepts for name in conditions.get(each, (each,))]
    return limit._replace(concepts=tuple(names))


def _reasons(limit: NameLimit) -> Iterator[str]:
    yield from limit.concepts
    yield from limit.names


_IMAGING = frozenset(
    {
        "chest x-ray",
        "x-ray",
        "ct scan",
        "mri scan",
        "ultrasound",
        "mammogram",
        "echocardiogram",
    }
    | {"bone density scan"}
)
"""Procedures that a record may hold as imaging studies."""


def read_procedures(words: ConsumedWords) -> Draft | Declined:
    """The queries of a clause about procedures."""
    if words.clause.has("span"):
        words.use("still")  # Still on dialysis in 2024: whether it was done then.
    draft = read_general_rows(words, "procedure")
    if (
        isinstance(draft, Declined)
        or len(draft.outputs) > 1
        or len(draft.named.limits) != 1
    ):
        return draft
    concepts = words.clause.of("concept")
    if draft.outputs[0].returns == "length_of_stay":
        return draft
    if any(common_forms(mark.text) in _devices() for mark in concepts):
        return draft._replace(kinds=("procedure", "device"))
    if set(draft.named.limits[0].concepts) & _IMAGING:
        return draft._replace(kinds=("procedure", "imaging"))
    return draft


@cache
def _devices() -> frozenset[tuple[str, ...]]:
    rows = read_rows("terminology/data/items.tsv", 3)
    forms = (
        form for kind, cell, _ in rows if kind == "device" for form in expand(cell)
    )
    return frozenset(map(common_forms, forms))


_WORDS_OF_FIELDS = (
    ("alive", "still", ()),
    ("alive", "state", ("current",)),
    ("age", "state", ("current",)),
    ("birth_date", "field", ("time",)),
    ("practitioner", "field", ("practitioner",)),
)
"""Marks that go with a field: still alive, current age, who is her doctor."""


def read_person(words: ConsumedWords) -> Draft:
    """The queries of a clause about the person: one for each field. Raises ValueError."""
    fields = _fields_of_person(words)
    asks_death = "died" in fields
    if asks_death:
        fields[fields.index("died")] = "death_time"
    for field, kind, values in _WORDS_OF_FIELDS:
        if field in fields:
            words.use(kind, *values)
    asks_date = False
    if "death_time" in fields:
        asks_date = bool(words.use("field", "time") + words.use("series", "dates"))
    words.use("link", "for")
    use_plain_words(words)
    words.use("noun", "measure")
    is_yes_no = asks_death and not asks_date
    outputs = tuple(
        _ask_of_person(field, is_yes_no=is_yes_no) for field in dict.fromkeys(fields)
    )
    return Draft(("patient",), outputs)


def _fields_of_person(words: ConsumedWords) -> list[str]:
    """The fields that are asked for, each once. Raises ValueError where a word stands for nothing."""
    marks = words.use("person")
    fields = list(dict.fromkeys(mark.value for mark in marks))
    is_joined = words.clause.has("join")
    if len(fields) < len(marks) and not is_joined:
        raise ValueError("two words for one thing: the family's doctor is another one")
    if is_joined and words.clause.has("noun", "named"):
        if not _asks_name_too(words.clause):
            raise ValueError("a name of what is not clear")
        fields = [
            "patient_name",
            *(field for field in fields if field != "patient_name"),
        ]
    if (
        "contact" in fields
    ):  # Who is to be contacted stands there with the telephone number.
        fields = [field for field in fields if field not in {"phone", "address"}]
    return fields


def _asks_name_too(clause: Clause) -> bool:
    """Whether "name" stands before "and" or a comma: "name and phone"."""
    named = {mark.end for mark in clause.of("noun", "named")}
    return any(mark.start in named for mark in clause.of("join"))


def _ask_of_person(field: str, *, is_yes_no: bool) -> Output:
    """Whether she has died is another question than whether she is alive: yes is no."""
    summary: Aggregation = "exists" if is_yes_no and field == "death_time" else "each"
    return Output(cast("ReturnedField", field), summary)
