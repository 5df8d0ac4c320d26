"""Reading a question: the account of its words, and the queries that hold them all."""

from collections.abc import Callable, Iterator
from collections.abc import Set as AbstractSet
from datetime import date
from functools import partial

from archqa.query.kinds import LISTS
from archqa.query.model import Query
from archqa.query.questions.calendar import is_month
from archqa.query.questions.everyday.clause import (
    AUXILIARIES,
    SILENT_KINDS,
    Clause,
    ConsumedWords,
    Mark,
)
from archqa.query.questions.everyday.declining import (
    MOST_QUERIES,
    Declined,
    NotUnderstood,
    Reading,
    Understood,
    read_judgement,
)
from archqa.query.questions.everyday.encounters import read_encounters
from archqa.query.questions.everyday.kinds_of_rows import (
    general_kinds,
    read_allergies,
    read_appointments,
    read_care_plans,
    read_family_history,
    read_general_rows,
    read_person,
    read_procedures,
    read_refusals,
)
from archqa.query.questions.everyday.measurements import (
    asks_results_of_specimen,
    read_cultures,
    read_measurements,
)
from archqa.query.questions.everyday.medications import DRUGS, read_medications
from archqa.query.questions.everyday.names import (
    CONDITIONS,
    named_marks,
    with_drug_classes,
    with_vaccines,
)
from archqa.query.questions.everyday.outputs import Draft
from archqa.query.questions.everyday.phrases import mark
from archqa.query.questions.everyday.vocabulary import Vocabulary
from archqa.terminology.concept import DRUG_KINDS
from archqa.terminology.words import word_list

_ENDS = frozenset("?.;!")
_SHARED = (
    "span",
    "position",
    "state",
    "still",
    "flag",
    "test",
    "extreme",
    "summary",
    "ever",
)
"""Marks that may be meant for both parts: "current problems and medicines"."""

_NOUNS = ("row", "concept", "name", "class", "person")
_OPENERS = frozenset({"wh", "field", "request", "exists"})


def parts_of(clause: Clause) -> Iterator[tuple[Clause, ...]]:
    """Ways to split a question: at the ends of sentences, and at "and" and commas."""
    at_ends = _split(clause, _is_end)
    if len(at_ends) > 1:
        yield at_ends
    at_joints = _split(clause, _is_joint)
    if len(at_joints) > 1:
        yield _with_shared_position(at_joints)


def _with_shared_position(parts: tuple[Clause, ...]) -> tuple[Clause, ...]:
    """The parts; those that only name something share the position: "last colonoscopy and flu shot"."""
    first, *others = parts
    positions = first.of("position")
    if len(positions) != 1 or not _stands_before_noun(first, positions[0]):
        return parts
    shared = [first]
    for part in others:
        kinds = {mark.kind for mark in part.marks} - SILENT_KINDS
        is_name = "concept" in kinds and kinds <= {"concept", "row"}
        if is_name and not opens_question(part):
            part = part._replace(marks=(*positions, *part.marks))
        shared.append(part)
    return tuple(shared)


def may_be_split(parts: tuple[Clause, ...]) -> bool:
    """Whether no word of one part may be meant for another: each part is a question of its own."""
    if all(opens_question(part) for part in parts[1:]):
        return True
    *others, last = parts
    shared = {kind for part in others for kind in _SHARED if part.has(kind)}
    if shared:
        return _repeat(parts, shared)
    return all(
        _stands_before_noun(last, mark) for kind in _SHARED for mark in last.of(kind)
    )


def _repeat(parts: tuple[Clause, ...], shared: AbstractSet[str]) -> bool:
    """Whether all parts say the same of one noun: "the last colonoscopy and the last mammogram"."""
    for part in parts:
        kinds = {kind for kind in _SHARED if part.has(kind)}
        if kinds != shared or not _stands_before_noun(part, part.of(min(kinds))[0]):
            return False
    return shared == {"position"}


def _with_first_question(parts: tuple[Clause, ...]) -> tuple[Clause, ...]:
    """The parts; those that repeat the position without a question ask what the first one asks."""
    first, *others = parts
    opening = tuple(mark for mark in first.marks if mark.kind in {"wh", "field"})
    completed = [first]
    for part in others:
        is_question = opens_question(part) or part.has_any("wh", "field")
        # "When were the last colonoscopy and the last mammogram".
        if part.has("position") and not is_question:
            part = part._replace(marks=(*opening, *part.marks))
        completed.append(part)
    return tuple(completed)


def _stands_before_noun(part: Clause, mark: Mark) -> bool:
    """Whether a word belongs to the noun after it alone: "allergies and current medicines"."""
    nouns = [each.start for kind in _NOUNS for each in part.of(kind)]
    return bool(nouns) and mark.end <= min(nouns)


def opens_question(part: Clause) -> bool:
    """Whether a clause begins as a question or a request does."""
    first = next((mark for mark in part.marks if mark.kind != "sign"), None)
    if first is None:
        return False
    return first.kind in _OPENERS or part.tokens[first.start].text in AUXILIARIES


def _is_end(mark: Mark) -> bool:
    return mark.kind == "sign" and mark.text in _ENDS


def _is_joint(mark: Mark) -> bool:
    is_and = mark.kind == "join" and mark.value == "and"
    return is_and or mark.text in {",", "&"} or _is_end(mark)


def _split(clause: Clause, is_bound: Callable[[Mark], bool]) -> tuple[Clause, ...]:
    parts: list[list[Mark]] = [[]]
    for each in clause.marks:
        if is_bound(each):
            parts.append([])
        else:
            parts[-1].append(each)
    return tuple(clause._replace(marks=tuple(part)) for part in parts if part)


_REFERRING = word_list("referring")
"""Words that may mean what another sentence says."""

DECIDING = word_list("deciding")
_LIMITING_KINDS = frozenset(
    {
        "span",
        "test",
        "position",
        "newest",
        "extreme",
        "summary",
        "state",
        "still",
        "flag",
        "class",
    }
    | {"judgement", "outcome", "trend", "per", "stay", "field", "wh"}
)
"""Kinds of marks that may limit what another sentence asks."""


_FEWEST_WORDS = 4
"""Fewer words are no sentence: they may belong to the question."""


_Sentence = tuple[Clause, str]
"""A sentence of a question, and the sign that ends it; empty without one."""


def read_with_background(
    clause: Clause, question: str, read: Callable[[Clause], Reading]
) -> Understood | None:
    """The reading of the one sentence that asks, with the others as left out; else None.

    A sentence is left out only if it neither asks nor limits anything, and nothing in the question
    refers to it.
    """
    sentences = list(_sentences(clause))
    asking = []
    background = []
    for sentence, sign in sentences:
        if not _is_background(sentence, sign):
            asking.append(sentence)
            continue
        first, last = sentence.marks[0], sentence.marks[-1]
        start, end = (
            sentence.tokens[first.start].start,
            sentence.tokens[last.end - 1].end,
        )
        background.append(question[start:end])
    if len(sentences) < 2 or len(asking) != 1 or asking[0].words & _REFERRING:
        return None
    reading = read(asking[0])
    if not isinstance(reading, Understood):
        return None
    return reading._replace(left_out=tuple(background))


def _sentences(clause: Clause) -> Iterator[_Sentence]:
    marks: list[Mark] = []
    for each in clause.marks:
        if _is_end(each):
            if marks:
                yield clause._replace(marks=tuple(marks)), each.text
            marks = []
        else:
            marks.append(each)
    if marks:
        yield clause._replace(marks=tuple(marks)), ""


def _is_background(clause: Clause, sign: str) -> bool:
    if sign == "?" or opens_question(clause) or clause.has("request"):
        return False
    if clause.words & DECIDING or clause.has_any(*_LIMITING_KINDS):
        return False
    has_unknown = clause.has("unknown")
    return has_unknown and len(clause.words) >= _FEWEST_WORDS


_ROWS_BEFORE_NAMES = LISTS["rows_before_names"]
"""Nouns that say of which kind the rows are, whatever else is named."""

_OF_MEASUREMENTS = ("noun", "flag", "test", "trend", "extreme")
_OF_DRUGS = ("take", "taken", "use", "order", "administer", "give", "dispense")


def subject_of(clause: Clause) -> str | None:
    """The kind of rows, `measurements`, or None if nothing says what is asked about."""
    if clause.has("person"):
        return "patient"
    if clause.has("relative"):
        return "family_history"
    if clause.has("refusal"):
        return "not_done"
    if clause.has("row", "appointment"):
        return "appointment"
    if clause.has("disposition"):
        return "encounter"
    for kind in _ROWS_BEFORE_NAMES:
        if clause.has("row", kind):
            return kind
    if clause.has("field", "reaction") or clause.has("category"):
        return "allergy"
    if clause.has("specimen") and asks_results_of_specimen(clause):
        return "measurements"
    is_grown = clause.has("verb", "grow") or clause.has("row", "microbiology")
    if is_grown or clause.has_any("specimen", "susceptibility", "germ"):
        return "microbiology"
    return _by_names(clause) or _by_words(clause)


def resolve_concepts(clause: Clause) -> Clause:
    """The clause with concepts of one kind where a word names several: potassium, pregnant."""
    marks = list(clause.marks)
    for place, each in enumerate(marks):
        kinds = {concept.kind for concept in each.concepts}
        if len(kinds) < 2:
            continue
        preferred = _preferred_kinds(clause, kinds)
        concepts = tuple(
            concept for concept in each.concepts if concept.kind in preferred
        )
        if concepts:
            marks[place] = each._replace(concepts=concepts)
    return clause._replace(marks=tuple(marks))


_EVENTS = frozenset({"condition", "procedure", "vaccine"})


def with_ages_of_events(clause: Clause) -> Clause:
    """The clause in which the age of the person is one at an event that it names.

    "How old was she when she had her hysterectomy" asks for a field of the procedure.
    """
    if {mark.value for mark in clause.of("person")} != {"age"}:
        return clause
    if _EVENTS.isdisjoint(concept.kind for concept in clause.concepts):
        return clause
    marks = []
    for each in clause.marks:
        if each.kind == "person":
            marks.append(each._replace(kind="field"))
        elif each.kind == "field" and each.value == "time":
            marks.append(each._replace(kind="filler"))  # "When" leads to the event.
        else:
            marks.append(each)
    return clause._replace(marks=tuple(marks))


_AHEAD = word_list("ahead")
_APPOINTMENTS = word_list("appointment")


def with_appointments(clause: Clause) -> Clause:
    """The clause in which a visit that lies ahead is an appointment: "her next visit"."""
    visits = clause.of("row", "encounter", "appointment")
    plans = [mark for mark in clause.of("judgement", "plan") if mark.text in _AHEAD]
    has_now = clause.tense == "present" and not clause.has_any("span", "position")
    is_booked = (
        has_now
        and clause.is_yes_no
        and not _APPOINTMENTS.isdisjoint(clause.words_of("row", "encounter"))
    )
    if not visits or not (plans or clause.has("future") or is_booked):
        return clause
    marks = []
    for each in clause.marks:
        if each in visits:
            each = each._replace(kind="row", value="appointment")
        elif each in plans:
            each = each._replace(kind="future", value=each.text)
        marks.append(each)
    return clause._replace(marks=tuple(marks))


_DECLINED = word_list("declined")


def with_refusals(clause: Clause) -> Clause:
    """The clause in which somebody declined something, unless a value did."""
    kinds = {concept.kind for concept in clause.concepts}
    if not kinds & {"vaccine", "procedure", "drug", "drug_class"}:
        return clause
    marks = []
    for each in clause.marks:
        if each.kind == "trend" and each.text in _DECLINED:
            each = each._replace(kind="refusal", value="refused")
        elif each.kind == "field" and each.value == "reason":
            reason = each._replace(value="status_reason")
            each = reason if clause.has("refusal") else each
        marks.append(each)
    return clause._replace(marks=tuple(marks))


def _preferred_kinds(clause: Clause, kinds: AbstractSet[str]) -> frozenset[str]:
    """Which kinds the other words speak for."""
    if clause.has("row", *_ROWS_BEFORE_NAMES) or clause.has("relative"):
        return frozenset(kinds)
    if "measurement" in kinds and clause.has_any(*_OF_MEASUREMENTS):
        return frozenset({"measurement"})
    if kinds & DRUG_KINDS and _speaks_of_drugs(clause):
        return DRUG_KINDS
    others = frozenset(kinds - {"measurement"})
    if "condition" in kinds and clause.has("summary", "count"):
        return frozenset({"condition"})
    if "measurement" in kinds and (clause.has("summary") or not clause.is_yes_no):
        return frozenset({"measurement"})
    if "condition" in others:
        return frozenset({"condition"})
    return others


def _speaks_of_drugs(clause: Clause) -> bool:
    if clause.has("row", "medication") or clause.has("verb", *_OF_DRUGS):
        return True
    has_field = clause.has("field", "dose", "frequency", "route") or clause.has(
        "wh", "how_much"
    )
    is_event = clause.has("wh", "how_long") or clause.has("verb", "start")
    return has_field or ("on" in clause.words and (clause.is_yes_no or is_event))


def _by_names(clause: Clause) -> str | None:
    """The kind that the concepts and the names of the record speak for."""
    if named_marks(clause, DRUGS) or clause.has("row", "medication"):
        return "medication"
    kinds = {concept.kind for concept in clause.concepts}
    rows = {name.kind for mark in clause.of("name") for name in mark.names}
    if clause.has("row", "lab", "vital", "observation") or "measurement" in kinds:
        return "measurements"
    if "vaccine" in kinds:
        return "immunization"
    if "procedure" in kinds or clause.has("row", "procedure"):
        return "procedure"
    if clause.has("verb", "take", "taken", "use", "order", "administer", "dispense"):
        # Where was she taken: a person is, not a medicine.
        is_person = clause.has("verb", "take", "taken") and clause.has("field", "place")
        return "encounter" if is_person else "medication"
    if clause.has("class") or clause.has("row", "encounter") or clause.has("stay"):
        # Visits, unless a name of the record has rows of another kind during a stay.
        others = rows - {"encounter", "diagnosis"}
        return _by_rows(others) or "encounter"
    if named_marks(clause, CONDITIONS) or clause.has("row", "diagnosis", "history"):
        return "diagnosis"
    return _by_rows(rows)


def _by_rows(rows: AbstractSet[str]) -> str | None:
    if "observation" in rows:
        return "measurements"
    if "encounter" in rows:
        return "encounter"
    return next((kind for kind in general_kinds() if kind in rows), None)


_RESULTS = word_list("result")


_OF_VISITS = ("discharge_destination", "visit_type", "length_of_stay")


def _by_words(clause: Clause) -> str | None:
    """The kind that verbs and fields speak for when nothing is named."""
    if clause.has("field", "dose", "days_supply", "refills"):
        return "medication"
    if clause.has("flag"):
        return "measurements"
    if clause.has("verb", "diagnose"):
        return "diagnosis"
    if clause.has("verb", "vaccinate"):
        return "immunization"
    if clause.has("verb", "visit", "discharge", "stay") or clause.has(
        "field", *_OF_VISITS
    ):
        return "encounter"
    if _RESULTS & clause.words_of("noun", "measure"):
        return "measurements"
    return "encounter" if clause.has("field", "place") else None


Reader = Callable[[ConsumedWords], Draft | Understood | Declined]

_READERS: dict[str, Reader] = {
    "allergy": read_allergies,
    "appointment": read_appointments,
    "care_plan": read_care_plans,
    "encounter": read_encounters,
    "measurements": read_measurements,
    "medication": read_medications,
    "microbiology": read_cultures,
    "family_history": read_family_history,
    "not_done": read_refusals,
    "patient": read_person,
    "procedure": read_procedures,
}

UNKNOWN = "neither words of the question language nor names of the record"
MONTH = "a month without its year"
UNUSED = "cannot be combined with the rest of the question"
NO_SUBJECT = "nothing says what is asked about"
_MOST_PARTS = 6
"""Questions of one query that may be asked at once."""

TOO_MANY = f"more than {MOST_QUERIES} questions at once"


def read_question(
    question: str, vocabulary: Vocabulary, *, today: date | None = None
) -> Reading:
    """Read a short question about one patient's record.

    Every word is taken into a query, known to carry nothing, or named in `NotUnderstood`. A month
    without a year is the last such month before `today`; without `today` it is not understood.
    """
    clause = mark(question, vocabulary, today)
    reading = _read_whole_or_parts(clause, vocabulary)
    if isinstance(reading, NotUnderstood):
        read = partial(_read_whole_or_parts, vocabulary=vocabulary)
        reading = read_with_background(clause, question, read) or reading
    if not isinstance(reading, Understood):
        return reading
    assumed: dict[str, None] = {}
    for each in clause.of("person_name"):
        if each.value.startswith("relative"):
            assumed[each.text] = None
    asks_all = clause.has("series", "all") and not clause.is_yes_no
    return reading._replace(assumed=tuple(assumed), asks_all=asks_all)


def _read_whole_or_parts(clause: Clause, vocabulary: Vocabulary) -> Reading:
    """Read a clause as a whole, or else part by part, if each part can stand by itself."""
    reading = _read_clause(clause, vocabulary)
    if not isinstance(reading, NotUnderstood):
        return reading
    for parts in parts_of(clause):
        readings = [
            _read_clause(part, vocabulary) for part in _with_first_question(parts)
        ]
        understood = [each for each in readings if isinstance(each, Understood)]
        if len(understood) < len(readings) or not may_be_split(parts):
            continue
        queries = tuple(query for each in understood for query in each.queries)
        # Parts of one query are as clear as one question; those of many are not.
        most = _MOST_PARTS if len(queries) == len(readings) else MOST_QUERIES
        if len(queries) <= most:
            return Understood(queries)
    return _read_known_parts(clause, vocabulary) or reading


def _read_known_parts(clause: Clause, vocabulary: Vocabulary) -> Understood | None:
    """The reading of the parts that are clear, where the others only name something unknown.

    None for a yes/no question: "yes" would be taken for both parts. Only "and" names a further
    thing: after a comma or in another sentence, a word may limit what is asked.
    """
    parts = _split(clause, lambda each: each.kind == "join" and each.value == "and")
    if clause.is_yes_no or len(parts) < 2 or not may_be_split(parts):
        return None
    queries: list[Query] = []
    unknown: list[str] = []
    for part in _with_first_question(parts):
        if _names_unknown(part):
            unknown += [each.text for each in part.of("unknown")]
            continue
        reading = _read_whole_or_parts(part, vocabulary)
        if not isinstance(reading, Understood):
            return None
        queries += reading.queries
    if not queries or len(queries) > MOST_QUERIES:
        return None
    return Understood(tuple(queries), unknown=tuple(unknown))


def _names_unknown(part: Clause) -> bool:
    """Whether a part is a name that is not known, and limits nothing that is asked."""
    kinds = {mark.kind for mark in part.marks} - SILENT_KINDS
    if "unknown" not in kinds or part.words & (DECIDING | _REFERRING):
        return False
    return kinds == {"unknown"} or (
        opens_question(part) and kinds <= {"unknown", "wh", "field"}
    )


def _read_clause(clause: Clause, vocabulary: Vocabulary) -> Reading:
    clause = with_ages_of_events(
        with_drug_classes(with_vaccines(resolve_concepts(clause)))
    )
    clause = with_refusals(with_appointments(clause))
    judgement = read_judgement(clause)
    if judgement is not None:
        return judgement
    unknown = clause.of("unknown")
    subject = subject_of(clause)
    if subject is None:
        texts = tuple(each.text for each in unknown) or _content_words(clause)
        return NotUnderstood(texts, UNKNOWN if unknown else NO_SUBJECT)
    words = ConsumedWords(clause, vocabulary)
    try:
        if subject in _READERS:
            draft = _READERS[subject](words)
        else:
            draft = read_general_rows(words, general_kinds()[subject].what)
        if isinstance(draft, Declined):
            return draft
        unused = _unused_words(words)
        if unused is not None:
            return unused
        understood = draft.understood() if isinstance(draft, Draft) else draft
    except ValueError:
        return NotUnderstood(_content_words(clause), UNUSED)
    queries = tuple(dict.fromkeys(understood.queries))
    if len(queries) > MOST_QUERIES:
        return NotUnderstood(_content_words(clause), TOO_MANY)
    return understood._replace(queries=queries)


def _unused_words(words: ConsumedWords) -> NotUnderstood | None:
    """The words that carry something and that no query holds, if there are any."""
    unused = []
    for each in words.clause.marks:
        if each.kind not in SILENT_KINDS and each not in words.used:
            unused.append(each)
    unknown = tuple(each.text for each in unused if each.kind == "unknown")
    if unknown:
        return NotUnderstood(unknown, MONTH if is_month(unknown[0]) else UNKNOWN)
    if unused:
        return NotUnderstood(tuple(each.text for each in unused), UNUSED)
    return None


def _content_words(clause: Clause) -> tuple[str, ...]:
    """The words that carry something."""
    return tuple(
        each.text
        for each in clause.marks
        if each.kind not in {"filler", "sign", "join"}
    )
