"""The kinds of rows: one declaration for each, read by executor, model, grammar, wording and docs.

A declaration says which resources hold the rows, at which paths (hl7.org/fhir/R4; US Core R4 is the
check list), which statuses are no facts, which are current, and which fields can be returned. A new
kind is one more declaration: `declared_rows.py` reads it. The kinds of MIMIC-IV on FHIR keep row
functions of their own (`reader`), whose names `row_sources.py` knows.
"""

from typing import Literal, NamedTuple

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
    references, or concepts. `search`: what the search asks for besides the patient. `absent`: only
    resources without this element.
    """

    type: str
    names: tuple[str, ...] = ()
    times: tuple[str, ...] = ()
    ends: tuple[str, ...] = ()
    statuses: Statuses = Statuses()
    values: tuple[str, ...] = ()
    items: str = ""
    facts: tuple[tuple[ReturnedField, tuple[str, ...]], ...] = ()
    people: tuple[str, ...] = ()
    places: tuple[str, ...] = ()
    reasons: tuple[str, ...] = ()
    encounter: str = "encounter"
    patient: str = "patient"
    search: tuple[tuple[str, str], ...] = ()
    absent: str = ""
    ignored_codes: tuple[str, ...] = ()


class KindOfRows(NamedTuple):
    """One kind of rows. `stays`: its rows last, so that first and last may mean their end."""

    what: RowKind
    singular: str
    plural: str
    returns: frozenset[ReturnedField]
    sources: tuple[Source, ...] = ()
    reader: Reader = "declared"
    named: bool = True
    stays: bool = False

    @property
    def has_state(self) -> bool:
        """Whether a row can be current or have ended."""
        return any(source.statuses.current or source.statuses.ended for source in self.sources)


def _set(words: str) -> frozenset[str]:
    return frozenset(words.split())


_TIMED: frozenset[ReturnedField] = frozenset({"name", "time", "elapsed", "visit", "status"})
_WHO: frozenset[ReturnedField] = frozenset({"practitioner", "place"})
_STAY: frozenset[ReturnedField] = frozenset(
    {"time", "end_time", "elapsed", "length_of_stay", "age", "visit", "status", "reason"}
    | {"practitioner", "place", "visit_type", "care_unit"}
)

_RESULT_STATUSES = Statuses(
    no_fact=_set("registered cancelled data-absent"), tentative=_set("preliminary partial")
)
"""data-absent: no status of FHIR, but what this package calls a result with a dataAbsentReason."""

_ORDER_STATUSES = Statuses(
    paths=("status", "intent", "doNotPerform"),
    no_fact=_set("cancelled draft proposal option doNotPerform"),
    current=_set("active"),
    ended=_set("stopped completed"),
)
_STATEMENT_STATUSES = Statuses(
    no_fact=_set("intended not-taken"), current=_set("active"), ended=_set("completed stopped")
)
_DISPENSE_STATUSES = Statuses(no_fact=_set("preparation in-progress cancelled declined on-hold"))
_PROCEDURE_STATUSES = Statuses(
    no_fact=_set("preparation not-done"),
    current=_set("in-progress"),
    ended=_set("completed stopped"),
)
_GIVEN_STATUSES = Statuses(
    no_fact=_set("not-done"), current=_set("in-progress"), ended=_set("completed stopped")
)
_PROBLEM_STATUSES = Statuses(
    paths=("clinicalStatus", "verificationStatus"),
    no_fact=_set("refuted differential"),
    current=_set("active recurrence relapse"),
    ended=_set("inactive remission resolved"),
    tentative=_set("unconfirmed provisional"),
)
_ENCOUNTER_STATUSES = Statuses(
    no_fact=_set("planned cancelled"),
    current=_set("arrived triaged in-progress onleave"),
    ended=_set("finished"),
)
_PLAN_STATUSES = Statuses(
    paths=("status", "intent"),
    no_fact=_set("draft proposal option"),
    current=_set("active"),
    ended=_set("completed revoked"),
)
_TEAM_STATUSES = Statuses(
    no_fact=_set("proposed"), current=_set("active"), ended=_set("inactive suspended")
)
_GOAL_STATUSES = Statuses(
    paths=("lifecycleStatus",),
    no_fact=_set("proposed planned rejected"),
    current=_set("accepted active"),
    ended=_set("completed cancelled"),
)
_DEVICE_STATUSES = Statuses(current=_set("active"), ended=_set("inactive"))
_DEVICE_USE_STATUSES = Statuses(
    no_fact=_set("intended"), current=_set("active"), ended=_set("completed stopped")
)
_DELIVERY_STATUSES = Statuses(
    no_fact=_set("abandoned"), current=_set("in-progress"), ended=_set("completed")
)
_SUPPLY_ORDER_STATUSES = Statuses(
    no_fact=_set("draft cancelled"), current=_set("active"), ended=_set("completed")
)
_COVERAGE_STATUSES = Statuses(
    no_fact=_set("draft"), current=_set("active"), ended=_set("cancelled")
)
_FAMILY_STATUSES = Statuses(no_fact=_set("health-unknown"))

OBSERVATION = Source(
    type="Observation",
    names=("code",),
    times=("effectiveDateTime", "effectivePeriod.start", "effectiveInstant", "issued"),
    statuses=_RESULT_STATUSES,
    facts=(("body_site", ("bodySite",)),),
    people=("performer",),
    places=("performer",),
)
_MEDICATION_NAMES = ("medicationCodeableConcept", "medicationReference")
MEDICATION_REQUEST = Source(
    type="MedicationRequest",
    names=_MEDICATION_NAMES,
    times=("dispenseRequest.validityPeriod.start",),
    ends=("dispenseRequest.validityPeriod.end", "dosageInstruction.timing.repeat.boundsPeriod.end"),
    statuses=_ORDER_STATUSES,
    people=("requester", "recorder"),
    reasons=("reasonCode", "reasonReference"),
)
MEDICATION_STATEMENT = Source(
    type="MedicationStatement",
    names=_MEDICATION_NAMES,
    times=("effectivePeriod.start", "effectiveDateTime", "dateAsserted"),
    ends=("effectivePeriod.end",),
    statuses=_STATEMENT_STATUSES,
    people=("informationSource",),
    reasons=("reasonCode", "reasonReference"),
    encounter="context",
)
MEDICATION_DISPENSE = Source(
    type="MedicationDispense",
    names=_MEDICATION_NAMES,
    times=("whenHandedOver", "whenPrepared"),
    statuses=_DISPENSE_STATUSES,
    people=("performer.actor",),
    places=("location", "performer.actor"),
    encounter="context",
    absent="authorizingPrescription",
)
"""What was handed over without an order of its own: with one, it only repeats the order."""

MEDICATION_ADMINISTRATION = Source(
    type="MedicationAdministration",
    names=_MEDICATION_NAMES,
    times=("effectiveDateTime", "effectivePeriod.start"),
    ends=("effectivePeriod.end",),
    statuses=_GIVEN_STATUSES,
    people=("performer.actor",),
    reasons=("reasonCode", "reasonReference"),
    encounter="context",
)
PROCEDURE = Source(
    type="Procedure",
    names=("code",),
    times=("performedDateTime", "performedPeriod.start"),
    ends=("performedPeriod.end",),
    statuses=_PROCEDURE_STATUSES,
    facts=(("body_site", ("bodySite",)),),
    people=("performer.actor", "recorder", "asserter"),
    places=("location", "performer.actor", "performer.onBehalfOf"),
    reasons=("reasonCode", "reasonReference"),
)
CONDITION = Source(
    type="Condition",
    names=("code",),
    times=("onsetDateTime", "onsetPeriod.start", "recordedDate"),
    ends=("abatementDateTime", "abatementPeriod.end", "abatementPeriod.start"),
    statuses=_PROBLEM_STATUSES,
    facts=(("severity", ("severity",)), ("body_site", ("bodySite",))),
    people=("asserter", "recorder"),
)
ENCOUNTER = Source(
    type="Encounter",
    names=("type", "serviceType"),
    times=("period.start",),
    ends=("period.end",),
    statuses=_ENCOUNTER_STATUSES,
    facts=(
        ("visit_type", ("type", "serviceType")),
        ("admission_source", ("hospitalization.admitSource",)),
        ("discharge_destination", ("hospitalization.dischargeDisposition",)),
    ),
    people=("participant.individual",),
    places=("serviceProvider", "location.location"),
    reasons=("reasonCode", "reasonReference", "diagnosis.condition"),
)
_RESULT_FIELDS = frozenset({"value", "flag", "body_site"}) | _TIMED | _WHO
_MICROBIOLOGY_FIELDS = frozenset({"value", "specimen", "organism", "flag"}) | _TIMED
_DRUG_FIELDS = (
    frozenset({"end_time", "route", "dose", "reason", "frequency", "practitioner", "place"})
    | _TIMED
)

_DECLARATIONS = (
    KindOfRows(
        "lab",
        "lab result",
        "lab results",
        _RESULT_FIELDS | {"specimen"},
        (OBSERVATION,),
        "measurements",
    ),
    KindOfRows(
        "vital",
        "charted measurement",
        "charted measurements",
        _RESULT_FIELDS,
        (OBSERVATION,),
        "measurements",
    ),
    KindOfRows("output", "output", "outputs", _RESULT_FIELDS, (OBSERVATION,), "measurements"),
    KindOfRows(
        "microbiology_test",
        "microbiology test",
        "microbiology tests",
        _MICROBIOLOGY_FIELDS,
        (OBSERVATION,),
        "microbiology",
    ),
    KindOfRows(
        "organism",
        "organism grown in a microbiology test",
        "organisms grown in microbiology tests",
        _MICROBIOLOGY_FIELDS,
        (OBSERVATION,),
        "microbiology",
    ),
    KindOfRows(
        "susceptibility",
        "susceptibility result",
        "susceptibility results",
        _MICROBIOLOGY_FIELDS,
        (OBSERVATION,),
        "microbiology",
    ),
    KindOfRows(
        "medication",
        "prescribed drug",
        "prescribed drugs",
        _DRUG_FIELDS,
        (MEDICATION_REQUEST, MEDICATION_STATEMENT, MEDICATION_DISPENSE),
        "medications",
    ),
    KindOfRows(
        "administration",
        "drug given",
        "drugs given",
        _DRUG_FIELDS,
        (MEDICATION_ADMINISTRATION,),
        "administrations",
    ),
    KindOfRows(
        "procedure",
        "procedure",
        "procedures",
        frozenset({"end_time", "reason", "body_site"}) | _TIMED | _WHO,
        (PROCEDURE,),
        "procedures",
    ),
    KindOfRows(
        "diagnosis",
        "diagnosis",
        "diagnoses",
        frozenset({"end_time", "severity", "body_site"}) | _TIMED | _WHO,
        (CONDITION,),
        "diagnoses",
    ),
    KindOfRows(
        "hospital_visit",
        "hospital visit",
        "hospital visits",
        _STAY | {"admission_type", "admission_source", "discharge_destination"},
        (ENCOUNTER,),
        "hospital_visits",
        named=False,
        stays=True,
    ),
    KindOfRows(
        "icu_stay",
        "ICU stay",
        "ICU stays",
        _STAY,
        (ENCOUNTER,),
        "icu_stays",
        named=False,
        stays=True,
    ),
    KindOfRows(
        "care_unit",
        "stay in a care unit",
        "stays in care units",
        frozenset(
            {"name", "care_unit", "time", "end_time", "elapsed", "length_of_stay", "visit"}
        ),
        reader="care_units",
        stays=True,
    ),
    KindOfRows(
        "encounter",
        "encounter",
        "encounters",
        _STAY | {"name", "admission_source", "discharge_destination"},
        (ENCOUNTER,),
        "encounters",
        stays=True,
    ),
    KindOfRows(
        "patient",
        "patient",
        "patient",
        frozenset(
            {"sex", "birth_date", "age", "marital_status", "ethnicity", "language", "death_time"}
            | {"address", "phone", "email", "alive", "practitioner", "place"}
        ),
        (
            Source(
                type="Patient", people=("generalPractitioner",), places=("managingOrganization",)
            ),
        ),
        "patient_rows",
        named=False,
    ),
    KindOfRows(
        "observation",
        "result",
        "results",
        _RESULT_FIELDS | {"specimen"},
        (OBSERVATION,),
        "observations",
    ),
    KindOfRows(
        "allergy",
        "allergy",
        "allergies",
        frozenset({"reaction", "severity", "practitioner", "end_time"}) | _TIMED,
        (
            Source(
                type="AllergyIntolerance",
                names=("code", "reaction.substance"),
                times=("onsetDateTime", "onsetPeriod.start", "recordedDate"),
                statuses=_PROBLEM_STATUSES,
                facts=(
                    ("reaction", ("reaction.manifestation", "reaction.description")),
                    ("severity", ("reaction.severity", "criticality")),
                ),
                people=("recorder", "asserter"),
            ),
        ),
    ),
    KindOfRows(
        "immunization",
        "immunization",
        "immunizations",
        frozenset({"dose", "route", "reason", "body_site"}) | _TIMED | _WHO,
        (
            Source(
                type="Immunization",
                names=("vaccineCode", "protocolApplied.targetDisease"),
                times=("occurrenceDateTime", "recorded"),
                statuses=Statuses(no_fact=_set("not-done")),
                values=("doseQuantity",),
                facts=(
                    ("route", ("route",)),
                    ("body_site", ("site",)),
                ),
                people=("performer.actor",),
                places=("location", "performer.actor"),
                reasons=("reasonCode", "reasonReference", "statusReason"),
            ),
        ),
    ),
    KindOfRows(
        "care_plan",
        "care plan",
        "care plans",
        frozenset({"end_time", "activity", "target", "reason", "practitioner"}) | _TIMED,
        (
            Source(
                type="CarePlan",
                names=("category", "title"),
                times=("period.start", "created"),
                ends=("period.end",),
                statuses=_PLAN_STATUSES,
                facts=(
                    (
                        "activity",
                        (
                            "activity.detail.code",
                            "activity.detail.description",
                            "activity.reference",
                        ),
                    ),
                    ("target", ("goal",)),
                ),
                people=("author", "contributor", "careTeam"),
                reasons=("addresses", "activity.detail.reasonCode"),
                ignored_codes=("careplan-category",),
            ),
        ),
    ),
    KindOfRows(
        "care_team",
        "care team",
        "care teams",
        frozenset({"end_time", "reason", "practitioner", "place"}) | _TIMED,
        (
            Source(
                type="CareTeam",
                names=("name", "category"),
                times=("period.start",),
                ends=("period.end",),
                statuses=_TEAM_STATUSES,
                people=("participant.member",),
                places=("managingOrganization", "participant.member"),
                reasons=("reasonCode", "reasonReference"),
            ),
        ),
    ),
    KindOfRows(
        "goal",
        "goal",
        "goals",
        frozenset({"target", "reason", "practitioner"}) | _TIMED,
        (
            Source(
                type="Goal",
                names=("description",),
                times=("startDate", "statusDate"),
                statuses=_GOAL_STATUSES,
                facts=(
                    (
                        "target",
                        ("target.detailQuantity", "target.detailRange", "target.detailString")
                        + ("target.detailCodeableConcept", "target.measure", "target.dueDate"),
                    ),
                ),
                people=("expressedBy",),
                reasons=("addresses",),
            ),
        ),
    ),
    KindOfRows(
        "device",
        "device",
        "devices",
        frozenset({"value", "end_time", "reason", "body_site"}) | _TIMED,
        (
            Source(
                type="Device",
                names=("deviceName.name", "type", "modelNumber"),
                statuses=_DEVICE_STATUSES,
                values=("udiCarrier.carrierHRF", "udiCarrier.deviceIdentifier"),
            ),
            Source(
                type="DeviceUseStatement",
                names=("device",),
                times=("timingDateTime", "timingPeriod.start", "recordedOn"),
                ends=("timingPeriod.end",),
                statuses=_DEVICE_USE_STATUSES,
                facts=(("body_site", ("bodySite",)),),
                reasons=("reasonCode", "reasonReference"),
            ),
        ),
    ),
    KindOfRows(
        "supply",
        "supply",
        "supplies",
        frozenset({"value", "practitioner", "place", "reason"}) | _TIMED,
        (
            Source(
                type="SupplyDelivery",
                names=("suppliedItem.itemCodeableConcept", "suppliedItem.itemReference"),
                times=("occurrenceDateTime", "occurrencePeriod.start", "occurrenceTiming.event"),
                statuses=_DELIVERY_STATUSES,
                values=("suppliedItem.quantity",),
                people=("supplier",),
                places=("destination", "supplier"),
            ),
            Source(
                type="SupplyRequest",
                names=("itemCodeableConcept", "itemReference"),
                times=("authoredOn", "occurrenceDateTime", "occurrencePeriod.start"),
                statuses=_SUPPLY_ORDER_STATUSES,
                values=("quantity",),
                people=("requester",),
                places=("supplier",),
                reasons=("reasonCode", "reasonReference"),
                patient="subject",
            ),
        ),
    ),
    KindOfRows(
        "report",
        "diagnostic report",
        "diagnostic reports",
        frozenset({"value"}) | _TIMED | _WHO,
        (
            Source(
                type="DiagnosticReport",
                names=("code",),
                times=("effectiveDateTime", "effectivePeriod.start", "issued"),
                statuses=_RESULT_STATUSES,
                values=("conclusion", "conclusionCode"),
                people=("resultsInterpreter", "performer"),
                places=("performer",),
            ),
        ),
    ),
    KindOfRows(
        "imaging",
        "imaging study",
        "imaging studies",
        frozenset({"body_site", "reason"}) | _TIMED | _WHO,
        (
            Source(
                type="ImagingStudy",
                names=("procedureCode", "description", "series.description", "series.modality"),
                times=("started", "series.started"),
                statuses=Statuses(no_fact=_set("registered cancelled")),
                facts=(("body_site", ("series.bodySite",)),),
                people=("interpreter", "referrer", "series.performer.actor"),
                places=("location",),
                reasons=("reasonCode", "reasonReference"),
            ),
        ),
    ),
    KindOfRows(
        "family_history",
        "condition of a relative",
        "conditions of relatives",
        frozenset({"value", "name", "time", "status"}),
        (
            Source(
                type="FamilyMemberHistory",
                names=(".code",),
                times=(".onsetString", "date"),
                statuses=_FAMILY_STATUSES,
                values=("relationship", "name"),
                items="condition",
            ),
        ),
    ),
    KindOfRows(
        "coverage",
        "insurance",
        "insurances",
        frozenset({"name", "payer", "time", "end_time", "elapsed", "status"}),
        (
            Source(
                type="Coverage",
                names=("class.name", "type", "payor"),
                times=("period.start",),
                ends=("period.end",),
                statuses=_COVERAGE_STATUSES,
                facts=(("payer", ("payor",)),),
            ),
        ),
    ),
)
KINDS: dict[str, KindOfRows] = {kind.what: kind for kind in _DECLARATIONS}
"""Every kind of rows, by what a query calls it."""
