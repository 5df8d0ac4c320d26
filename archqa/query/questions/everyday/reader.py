"""Reading a question: the account of its words, and the queries that hold them all."""

from collections.abc import Callable
from datetime import date
from functools import partial

from archqa.query.model import RowKind
from archqa.query.questions.calendar import is_month
from archqa.query.questions.everyday.allergies import read_allergies
from archqa.query.questions.everyday.background import read_beside_background
from archqa.query.questions.everyday.care_plans import read_care_plans
from archqa.query.questions.everyday.clauses import may_be_split, parts_of
from archqa.query.questions.everyday.draft import Draft
from archqa.query.questions.everyday.encounters import read_encounters
from archqa.query.questions.everyday.general_rows import general_kinds, read_general_rows
from archqa.query.questions.everyday.judgements import read_judgement
from archqa.query.questions.everyday.marking import mark
from archqa.query.questions.everyday.marks import Account, Clause
from archqa.query.questions.everyday.measurements import read_measurements
from archqa.query.questions.everyday.medications import read_medications
from archqa.query.questions.everyday.microbiology import CultureQueries, read_cultures
from archqa.query.questions.everyday.person import read_person
from archqa.query.questions.everyday.procedures import read_procedures
from archqa.query.questions.everyday.reading import (
    MOST_QUERIES,
    Declined,
    NotUnderstood,
    Reading,
    Understood,
)
from archqa.query.questions.everyday.special_names import with_drug_classes, with_vaccines
from archqa.query.questions.everyday.subject import resolve_concepts, subject_of
from archqa.query.questions.everyday.vocabulary import Vocabulary

Reader = Callable[[Account], Draft | CultureQueries | Declined]

_READERS: dict[str, Reader] = {
    "allergy": read_allergies,
    "care_plan": read_care_plans,
    "encounter": read_encounters,
    "measurements": read_measurements,
    "medication": read_medications,
    "microbiology": read_cultures,
    "patient": read_person,
    "procedure": read_procedures,
}

UNKNOWN = "neither words of the question language nor names of the record"
MONTH = "a month without its year"
UNUSED = "cannot be combined with the rest of the question"
NO_SUBJECT = "nothing says what is asked about"
TOO_MANY = f"more than {MOST_QUERIES} questions at once"


def read_question(question: str, vocabulary: Vocabulary, *, today: date | None = None) -> Reading:
    """Read a short question about one patient's record.

    Every word is taken into a query, known to carry nothing, or named in `NotUnderstood`. A month
    without a year is the last such month before `today`; without `today` it is not understood.
    """
    clause = mark(question, vocabulary, today)
    reading = _read_whole_or_parts(clause, vocabulary)
    if isinstance(reading, NotUnderstood):
        read = partial(_read_whole_or_parts, vocabulary=vocabulary)
        reading = read_beside_background(clause, question, read) or reading
    if isinstance(reading, Understood):
        return reading._replace(assumed=_assumed(clause))
    return reading


def _read_whole_or_parts(clause: Clause, vocabulary: Vocabulary) -> Reading:
    """Read a clause as a whole, or else part by part."""
    reading = _read_clause(clause, vocabulary)
    if not isinstance(reading, NotUnderstood):
        return reading
    return _read_parts(clause, vocabulary) or reading


def _assumed(clause: Clause) -> tuple[str, ...]:
    """The words for a relative that were taken for the patient."""
    relatives = (mark for mark in clause.of("person_name") if mark.value.startswith("relative"))
    return tuple(dict.fromkeys(mark.text for mark in relatives))


def _read_parts(clause: Clause, vocabulary: Vocabulary) -> Reading | None:
    """The readings of the parts of a question together, if each part can stand by itself."""
    for parts in parts_of(clause):
        readings = [_read_clause(part, vocabulary) for part in parts]
        understood = [each for each in readings if isinstance(each, Understood)]
        if len(understood) < len(readings) or not may_be_split(parts):
            continue
        queries = tuple(query for each in understood for query in each.queries)
        if len(queries) <= MOST_QUERIES:
            return Understood(queries)
    return None


def _read_clause(clause: Clause, vocabulary: Vocabulary) -> Reading:
    clause = with_drug_classes(with_vaccines(resolve_concepts(clause)))
    judgement = read_judgement(clause)
    if judgement is not None:
        return judgement
    unknown = clause.of("unknown")
    account = Account(clause, vocabulary)
    subject = subject_of(clause)
    if subject is None:
        words = tuple(each.text for each in unknown) or _words(account)
        return NotUnderstood(words, UNKNOWN if unknown else NO_SUBJECT)
    try:
        draft = _reader(subject)(account)
        return draft if isinstance(draft, Declined) else _understood(account, draft)
    except ValueError:
        return NotUnderstood(_words(account), UNUSED)


def _reader(subject: str) -> Reader:
    if subject in _READERS:
        return _READERS[subject]
    what: RowKind = general_kinds()[subject].what
    return lambda account: read_general_rows(account, what)


def _understood(account: Account, draft: Draft | CultureQueries) -> Reading:
    """The queries, if all words are accounted for."""
    left = account.left
    unknown = tuple(each.text for each in left if each.kind == "unknown")
    if unknown:
        return NotUnderstood(unknown, MONTH if is_month(unknown[0]) else UNKNOWN)
    if left:
        return NotUnderstood(tuple(each.text for each in left), UNUSED)
    queries = tuple(dict.fromkeys(draft.queries()))
    if len(queries) > MOST_QUERIES:
        return NotUnderstood(_words(account), TOO_MANY)
    return Understood(queries, draft.joined)


def _words(account: Account) -> tuple[str, ...]:
    """The words that carry something."""
    return tuple(
        each.text for each in account.clause.marks if each.kind not in {"filler", "sign", "join"}
    )
