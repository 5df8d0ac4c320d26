"""Which kind of rows a clause asks about."""

from collections.abc import Set as AbstractSet

from archqa.query.questions.everyday.asks import form_of
from archqa.query.questions.everyday.general_rows import general_kinds
from archqa.query.questions.everyday.marks import Clause, Mark
from archqa.query.questions.everyday.medications import DRUGS
from archqa.query.questions.everyday.naming import named_marks
from archqa.query.questions.everyday.reasons import CONDITIONS

_ROWS_BEFORE_NAMES = (
    "family_history",
    "allergy",
    "immunization",
    "care_plan",
    "care_team",
    "goal",
    "coverage",
    "supply",
    "device",
    "imaging",
    "report",
    "care_unit",
)
"""Nouns that say of which kind the rows are, whatever else is named."""

_OF_MEASUREMENTS = ("noun", "flag", "test", "trend", "extreme")
_OF_DRUGS = ("take", "taken", "use", "order", "administer", "give")


def subject_of(clause: Clause) -> str | None:
    """The kind of rows, `measurements`, or None if nothing says what is asked about."""
    if clause.has("person"):
        return "patient"
    for kind in _ROWS_BEFORE_NAMES:
        if clause.has("row", kind):
            return kind
    if clause.has("field", "reaction") or clause.has("category"):
        return "allergy"
    if any(clause.has(kind) for kind in ("specimen", "susceptibility", "germ")):
        return "microbiology"
    if clause.has("verb", "grow"):
        return "microbiology"
    if clause.has("row", "microbiology"):
        return "microbiology"
    return _by_names(clause) or _by_words(clause)


def resolve_concepts(clause: Clause) -> Clause:
    """The clause with concepts of one kind where a word names several: potassium, pregnant."""
    marks = tuple(_resolved(clause, mark) for mark in clause.marks)
    return clause._replace(marks=marks)


def _resolved(clause: Clause, mark: Mark) -> Mark:
    kinds = {concept.kind for concept in mark.concepts}
    if len(kinds) < 2:
        return mark
    preferred = _preferred_kinds(clause, kinds)
    concepts = tuple(concept for concept in mark.concepts if concept.kind in preferred)
    return mark._replace(concepts=concepts or mark.concepts)


def _preferred_kinds(clause: Clause, kinds: AbstractSet[str]) -> frozenset[str]:
    """Which kinds the other words speak for."""
    if clause.has("row", *_ROWS_BEFORE_NAMES):
        return frozenset(kinds)
    if "measurement" in kinds and any(clause.has(kind) for kind in _OF_MEASUREMENTS):
        return frozenset({"measurement"})
    drugs = frozenset({"drug", "drug_class"})
    if kinds & drugs and _speaks_of_drugs(clause):
        return drugs
    form = form_of(clause)
    others = frozenset(kinds - {"measurement"})
    if "measurement" in kinds and (clause.has("summary") or not form.is_yes_no):
        return frozenset({"measurement"})
    if "condition" in others:
        return frozenset({"condition"})
    return others


def _speaks_of_drugs(clause: Clause) -> bool:
    if clause.has("row", "medication") or clause.has("verb", *_OF_DRUGS):
        return True
    has_field = clause.has("field", "dose", "frequency", "route") or clause.has("wh", "how_much")
    return has_field or _follows_on(clause)


def _follows_on(clause: Clause) -> bool:
    """Is she on potassium."""
    return "on" in clause.words and form_of(clause).is_yes_no


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
    if clause.has("verb", "take", "taken", "use", "order", "administer"):
        return "encounter" if _asks_where_taken(clause) else "medication"
    if clause.has("class") or clause.has("row", "encounter") or clause.has("stay"):
        return _visits_or(rows)
    if named_marks(clause, CONDITIONS) or clause.has("row", "diagnosis", "history"):
        return "diagnosis"
    return _by_rows(rows)


def _asks_where_taken(clause: Clause) -> bool:
    """Where was she taken: a person is, not a medicine."""
    return clause.has("verb", "take", "taken") and clause.has("field", "place")


def _visits_or(rows: AbstractSet[str]) -> str:
    """Visits, unless a name of the record has rows of another kind during a stay."""
    others = rows - {"encounter", "diagnosis"}
    return _by_rows(others) or "encounter"


def _by_rows(rows: AbstractSet[str]) -> str | None:
    if "observation" in rows:
        return "measurements"
    if "encounter" in rows:
        return "encounter"
    return next((kind for kind in general_kinds() if kind in rows), None)


_RESULTS = frozenset({"result", "results", "test", "tests", "finding", "findings", "values"})


def _names_results(clause: Clause) -> bool:
    """Whether results are meant although none is named: a bare "number" or "count" is none."""
    return any(_RESULTS & set(mark.text.split()) for mark in clause.of("noun", "measure"))


_OF_VISITS = ("discharge_destination", "visit_type", "length_of_stay")


def _by_words(clause: Clause) -> str | None:
    """The kind that verbs and fields speak for when nothing is named."""
    if clause.has("field", "dose"):
        return "medication"
    if clause.has("flag"):
        return "measurements"
    if clause.has("verb", "diagnose"):
        return "diagnosis"
    if clause.has("verb", "vaccinate"):
        return "immunization"
    if clause.has("verb", "visit", "discharge", "stay") or clause.has("field", *_OF_VISITS):
        return "encounter"
    if _names_results(clause):
        return "measurements"
    return "encounter" if clause.has("field", "place") else None
