"""The kinds of rows: one declaration for each, read by executor, model, grammar, wording and docs.

`kinds.toml` declares which resources hold the rows, at which paths, which statuses are no facts,
which are current, and which fields can be returned. A new kind is one more of its `kinds` and one
of its `sources`: `query/execution/declared_rows.py` reads it. The kinds of MIMIC-IV on FHIR keep
row functions of their own (`reader`), whose names `query/execution/row_selection.py` knows.
"""

import tomllib
from pathlib import Path
from typing import Literal, NamedTuple

from pydantic import TypeAdapter

from archqa.terminology.concept import ConceptKind

RowKind = Literal[
    "lab",
    "vital",
    "output",
    "microbiology_test",
    "organism",
    "susceptibility",
    "medication",
    "procedure",
    "diagnosis",
    "hospital_visit",
    "icu_stay",
    "care_unit",
    "patient",
    "observation",
    "administration",
    "encounter",
    "allergy",
    "immunization",
    "care_plan",
    "care_team",
    "goal",
    "device",
    "supply",
    "report",
    "imaging",
    "family_history",
    "coverage",
    "dispense",
    "appointment",
    "not_done",
]
"""The kind of rows a query is about. A medication row is one drug of one order, an administration
one dose that was given; a care unit row is one stay in a unit; an observation is a result of any
category, or one component of it; an encounter is a contact of any class; a family history row is
one condition of one relative."""

ReturnedField = Literal[
    "value",
    "time",
    "end_time",
    "elapsed",
    "length_of_stay",
    "name",
    "specimen",
    "organism",
    "route",
    "dose",
    "care_unit",
    "visit",
    "admission_type",
    "admission_source",
    "discharge_destination",
    "sex",
    "birth_date",
    "age",
    "marital_status",
    "ethnicity",
    "language",
    "death_time",
    "status",
    "reason",
    "frequency",
    "status_reason",
    "days_supply",
    "refills",
    "practitioner",
    "place",
    "visit_type",
    "flag",
    "reaction",
    "severity",
    "activity",
    "target",
    "body_site",
    "payer",
    "address",
    "phone",
    "email",
    "identifier",
    "contact",
    "patient_name",
    "alive",
]
"""The field of each row that is returned. elapsed: from its time to the time of the question;
end_time: discharge, leaving the unit, the end of a problem or of an order; flag: high, low or
abnormal; alive: yes or no."""

Reader = Literal[
    "declared",
    "allergies",
    "family_history",
    "immunizations",
    "measurements",
    "microbiology",
    "observations",
    "medications",
    "administrations",
    "dispenses",
    "diagnoses",
    "procedures",
    "hospital_visits",
    "icu_stays",
    "care_units",
    "encounters",
    "patient_rows",
]
"""The function that reads the rows: the general one (declared), or one for what is particular."""

ERROR = "entered-in-error"
"""The status, in every value set of FHIR, of what was recorded by mistake: it never counts."""


class Statuses(NamedTuple):
    """What the statuses of a resource mean. A status in none of the sets is just a fact.

    `paths` may hold a boolean, whose own name is the status where it is true (doNotPerform).
    """

    paths: tuple[str, ...] = ("status",)
    no_fact: frozenset[str] = frozenset()
    current: frozenset[str] = frozenset()
    ended: frozenset[str] = frozenset()
    tentative: frozenset[str] = frozenset()


class Source(NamedTuple):
    """The resources of one type that hold rows of a kind, and the paths of what a row tells.

    `names`: concepts or texts; all of them are names, the first the preferred one. `ignored_codes`:
    last parts of the code systems that tell nothing of the row, such as a profile's own category.
    `times`, `ends`, `values`: tried in order. `recorded`: the times of recording,
    which stand in where no time says when it was. `items`: the element that is one row each; paths that
    begin with a dot start there. `facts`: further returned fields. `people`, `places`, `reasons`:
    references, or concepts. `by_encounter`: those of the encounter stand in for missing people and
    places. `search`: what the search asks for besides the patient. `optional`: a
    server may lack the type.
    """

    type: str
    names: tuple[str, ...] = ()
    times: tuple[str, ...] = ()
    recorded: tuple[str, ...] = ()
    ends: tuple[str, ...] = ()
    statuses: Statuses = Statuses()
    values: tuple[str, ...] = ()
    items: str = ""
    facts: tuple[tuple[str, tuple[str, ...]], ...] = ()
    people: tuple[str, ...] = ()
    places: tuple[str, ...] = ()
    reasons: tuple[str, ...] = ()
    encounter: str = "encounter"
    by_encounter: bool = False
    patient: str = "patient"
    search: tuple[tuple[str, str], ...] = ()
    optional: bool = False
    ignored_codes: tuple[str, ...] = ()


class KindOfRows(NamedTuple):
    """One kind of rows.

    `meaning`: what one row is, and what its fields tell, where the names do not say it.
    `concepts`: which concepts name its rows; of two with one name, that of the earlier kind.
    `named`: whether its rows have names. `one_code`: its rows of one code are one thing, whatever
    they are called. `stays`: its rows last, so that first and last may mean
    their end. `ahead`: they may lie ahead of the question, and are current until they are over.
    `also_under`: kinds under which the same thing may stand. `line_fields`: fields that belong to
    every line about such rows, if the record has them; `single_row_fields`: to that of a single row.
    """

    what: RowKind
    singular: str
    plural: str
    returns: frozenset[str]
    sources: tuple[Source, ...] = ()
    reader: Reader = "declared"
    concepts: tuple[ConceptKind, ...] = ()
    named: bool = True
    one_code: bool = False
    stays: bool = False
    ahead: bool = False
    also_under: tuple[RowKind, ...] = ()
    line_fields: tuple[str, ...] = ()
    single_row_fields: tuple[str, ...] = ()
    meaning: str = ""

    @property
    def has_state(self) -> bool:
        """Whether a row can be current or have ended."""
        return any(
            source.statuses.current or source.statuses.ended for source in self.sources
        )


_DECLARATIONS = tomllib.loads(
    (Path(__file__).parent / "kinds.toml").read_text(encoding="utf-8")
)
_SOURCES = TypeAdapter(dict[str, Source]).validate_python(_DECLARATIONS["sources"])
LISTS = TypeAdapter(dict[str, tuple[str, ...]]).validate_python(_DECLARATIONS["lists"])
"""Lists of fields, facts, limits and types of resources; kinds.toml tells what each is for."""

CONDITION = _SOURCES["condition"]
ENCOUNTER = _SOURCES["encounter"]
MEDICATION_ADMINISTRATION = _SOURCES["medication_administration"]
MEDICATION_DISPENSE = _SOURCES["medication_dispense"]
MEDICATION_REQUEST = _SOURCES["medication_request"]
MEDICATION_STATEMENT = _SOURCES["medication_statement"]
OBSERVATION = _SOURCES["observation"]
PROCEDURE = _SOURCES["procedure"]


def _load_kinds() -> dict[str, KindOfRows]:
    rows = _DECLARATIONS["kinds"]
    for row in rows:
        row["sources"] = [_SOURCES[name] for name in row.get("sources", ())]
    kinds = TypeAdapter(list[KindOfRows]).validate_python(rows)
    return {kind.what: kind for kind in kinds}


KINDS = _load_kinds()
"""Every kind of rows, by what a query calls it."""
