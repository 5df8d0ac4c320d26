"""What a declaration of a kind of rows consists of."""

from typing import Literal, NamedTuple

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
    "measurements",
    "microbiology",
    "observations",
    "medications",
    "administrations",
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
    `times`, `ends`, `values`: tried in order. `items`: the element that is one row each; paths that
    begin with a dot start there. `facts`: further returned fields. `people`, `places`, `reasons`:
    references, or concepts. `by_encounter`: those of the encounter stand in for missing people and
    places. `search`: what the search asks for besides the patient. `absent`: only
    resources without this element. `optional`: a server may lack the type.
    """

    type: str
    names: tuple[str, ...] = ()
    times: tuple[str, ...] = ()
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
    absent: str = ""
    optional: bool = False
    ignored_codes: tuple[str, ...] = ()


class KindOfRows(NamedTuple):
    """One kind of rows.

    `meaning`: what one row is, and what its fields tell, where the names do not say it.
    `concepts`: which concepts name its rows; of two with one name, that of the earlier kind.
    `named`: whether its rows have names. `one_code`: its rows of one code are one thing, whatever
    they are called. `stays`: its rows last, so that first and last may mean
    their end.
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
    meaning: str = ""

    @property
    def has_state(self) -> bool:
        """Whether a row can be current or have ended."""
        return any(source.statuses.current or source.statuses.ended for source in self.sources)
