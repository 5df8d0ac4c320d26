"""What a declaration of a kind of rows consists of, and the declared types of resources.

A `Source` says where resources of a type have what a row holds, and what their statuses mean. Paths
and statuses: hl7.org/fhir/R4; the profiles of US Core R4 are the check list.
"""

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
    meaning: str = ""

    @property
    def has_state(self) -> bool:
        """Whether a row can be current or have ended."""
        return any(
            source.statuses.current or source.statuses.ended for source in self.sources
        )


def _set(words: str) -> frozenset[str]:
    return frozenset(words.split())


_RESULT_STATUSES = Statuses(
    no_fact=_set("registered cancelled data-absent"),
    tentative=_set("preliminary partial"),
)
"""data-absent: no status of FHIR, but what this package calls a result with a dataAbsentReason."""

_ORDER_STATUSES = Statuses(
    paths=("status", "intent", "doNotPerform"),
    no_fact=_set("cancelled draft proposal option doNotPerform"),
    current=_set("active"),
    ended=_set("stopped completed"),
)
_STATEMENT_STATUSES = Statuses(
    no_fact=_set("intended not-taken"),
    current=_set("active"),
    ended=_set("completed stopped"),
)
_DISPENSE_STATUSES = Statuses(
    no_fact=_set("preparation in-progress cancelled declined on-hold"),
    ended=_set("stopped"),
)
_PROCEDURE_STATUSES = Statuses(
    no_fact=_set("preparation not-done"),
    current=_set("in-progress"),
    ended=_set("completed stopped"),
)
_GIVEN_STATUSES = Statuses(
    no_fact=_set("not-done"),
    current=_set("in-progress"),
    ended=_set("completed stopped"),
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
    by_encounter=True,
)
_MEDICATION_NAMES = ("medicationCodeableConcept", "medicationReference")
_STATUS_REASON = (
    "status_reason",
    ("statusReason", "statusReasonCodeableConcept", "statusReasonReference"),
)
MEDICATION_REQUEST = Source(
    type="MedicationRequest",
    names=_MEDICATION_NAMES,
    times=("dispenseRequest.validityPeriod.start",),
    ends=(
        "dispenseRequest.validityPeriod.end",
        "dosageInstruction.timing.repeat.boundsPeriod.end",
    ),
    statuses=_ORDER_STATUSES,
    facts=(
        _STATUS_REASON,
        ("days_supply", ("dispenseRequest.expectedSupplyDuration",)),
    ),
    people=("requester", "recorder"),
    reasons=("reasonCode", "reasonReference"),
    by_encounter=True,
)
MEDICATION_STATEMENT = Source(
    type="MedicationStatement",
    names=_MEDICATION_NAMES,
    times=("effectivePeriod.start", "effectiveDateTime", "dateAsserted"),
    ends=("effectivePeriod.end",),
    statuses=_STATEMENT_STATUSES,
    facts=(_STATUS_REASON,),
    people=("informationSource",),
    reasons=("reasonCode", "reasonReference"),
    encounter="context",
    optional=True,
)
MEDICATION_DISPENSE = Source(
    type="MedicationDispense",
    names=_MEDICATION_NAMES,
    times=("whenHandedOver", "whenPrepared"),
    statuses=_DISPENSE_STATUSES,
    facts=(_STATUS_REASON, ("days_supply", ("daysSupply",))),
    people=("performer.actor",),
    places=("location", "performer.actor"),
    encounter="context",
    optional=True,
)

MEDICATION_ADMINISTRATION = Source(
    type="MedicationAdministration",
    names=_MEDICATION_NAMES,
    times=("effectiveDateTime", "effectivePeriod.start"),
    ends=("effectivePeriod.end",),
    statuses=_GIVEN_STATUSES,
    facts=(_STATUS_REASON,),
    people=("performer.actor",),
    reasons=("reasonCode", "reasonReference"),
    encounter="context",
    by_encounter=True,
)
PROCEDURE = Source(
    type="Procedure",
    names=("code",),
    times=("performedDateTime", "performedPeriod.start"),
    ends=("performedPeriod.end",),
    statuses=_PROCEDURE_STATUSES,
    facts=(
        ("body_site", ("bodySite",)),
        ("age_at_time", ("performedAge", "performedRange")),
        ("time_text", ("performedString",)),
    ),
    people=("performer.actor", "recorder", "asserter"),
    places=("location", "performer.actor", "performer.onBehalfOf"),
    reasons=("reasonCode", "reasonReference"),
    by_encounter=True,
)
CONDITION = Source(
    type="Condition",
    names=("code",),
    times=("onsetDateTime", "onsetPeriod.start"),
    recorded=("recordedDate",),
    ends=("abatementDateTime", "abatementPeriod.end", "abatementPeriod.start"),
    statuses=_PROBLEM_STATUSES,
    facts=(
        ("severity", ("severity",)),
        ("body_site", ("bodySite",)),
        ("age_at_time", ("onsetAge", "onsetRange")),
        ("time_text", ("onsetString",)),
        ("end_text", ("abatementString", "abatementAge", "abatementRange")),
    ),
    people=("asserter", "recorder"),
    by_encounter=True,
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
PATIENT = Source(
    type="Patient", people=("generalPractitioner",), places=("managingOrganization",)
)
ALLERGY = Source(
    type="AllergyIntolerance",
    names=("code", "reaction.substance"),
    times=("onsetDateTime", "onsetPeriod.start"),
    recorded=("recordedDate",),
    statuses=_PROBLEM_STATUSES,
    facts=(
        ("reaction", ("reaction.manifestation", "reaction.description")),
        ("severity", ("reaction.severity", "criticality")),
    ),
    people=("recorder", "asserter"),
)
IMMUNIZATION = Source(
    type="Immunization",
    names=("vaccineCode", "protocolApplied.targetDisease"),
    times=("occurrenceDateTime",),
    recorded=("recorded",),
    statuses=Statuses(no_fact=_set("not-done")),
    values=("doseQuantity",),
    facts=(
        ("route", ("route",)),
        ("body_site", ("site",)),
        ("time_text", ("occurrenceString",)),
    ),
    people=("performer.actor",),
    places=("location", "performer.actor"),
    reasons=("reasonCode", "reasonReference", "statusReason"),
    by_encounter=True,
)
CARE_PLAN = Source(
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
)
CARE_TEAM = Source(
    type="CareTeam",
    names=("name", "category"),
    times=("period.start",),
    ends=("period.end",),
    statuses=_TEAM_STATUSES,
    people=("participant.member",),
    places=("managingOrganization", "participant.member"),
    reasons=("reasonCode", "reasonReference"),
)
GOAL = Source(
    type="Goal",
    names=("description",),
    times=("startDate", "statusDate"),
    statuses=_GOAL_STATUSES,
    facts=(
        (
            "target",
            (
                "target.measure",
                "target.detailQuantity",
                "target.detailRange",
                "target.detailString",
                "target.detailCodeableConcept",
                "target.dueDate",
            ),
        ),
    ),
    people=("expressedBy",),
    reasons=("addresses",),
)
DEVICE = Source(
    type="Device",
    names=("deviceName.name", "type", "modelNumber"),
    statuses=_DEVICE_STATUSES,
    values=("udiCarrier.carrierHRF", "udiCarrier.deviceIdentifier"),
)
DEVICE_USE = Source(
    type="DeviceUseStatement",
    names=("device",),
    times=("timingDateTime", "timingPeriod.start", "recordedOn"),
    ends=("timingPeriod.end",),
    statuses=_DEVICE_USE_STATUSES,
    facts=(("body_site", ("bodySite",)),),
    reasons=("reasonCode", "reasonReference"),
    optional=True,
)
SUPPLY_DELIVERY = Source(
    type="SupplyDelivery",
    names=("suppliedItem.itemCodeableConcept", "suppliedItem.itemReference"),
    times=("occurrenceDateTime", "occurrencePeriod.start", "occurrenceTiming.event"),
    statuses=_DELIVERY_STATUSES,
    values=("suppliedItem.quantity",),
    people=("supplier",),
    places=("destination", "supplier"),
)
SUPPLY_REQUEST = Source(
    type="SupplyRequest",
    names=("itemCodeableConcept", "itemReference"),
    times=("authoredOn", "occurrenceDateTime", "occurrencePeriod.start"),
    statuses=_SUPPLY_ORDER_STATUSES,
    values=("quantity",),
    people=("requester",),
    places=("supplier",),
    reasons=("reasonCode", "reasonReference"),
    patient="subject",
    optional=True,
)
REPORT = Source(
    type="DiagnosticReport",
    names=("code",),
    times=("effectiveDateTime", "effectivePeriod.start", "issued"),
    statuses=_RESULT_STATUSES,
    values=("conclusion", "conclusionCode"),
    people=("resultsInterpreter", "performer"),
    places=("performer",),
    by_encounter=True,
)
IMAGING_STUDY = Source(
    type="ImagingStudy",
    names=("procedureCode", "description", "series.description", "series.modality"),
    times=("started", "series.started"),
    statuses=Statuses(no_fact=_set("registered cancelled")),
    facts=(("body_site", ("series.bodySite",)),),
    people=("interpreter", "referrer", "series.performer.actor"),
    places=("location",),
    reasons=("reasonCode", "reasonReference"),
    by_encounter=True,
)
FAMILY_HISTORY = Source(
    type="FamilyMemberHistory",
    names=(".code",),
    times=("date",),
    statuses=_FAMILY_STATUSES,
    values=("relationship", "name"),
    items="condition",
)
COVERAGE = Source(
    type="Coverage",
    names=("class.name", "type", "payor"),
    times=("period.start",),
    ends=("period.end",),
    statuses=_COVERAGE_STATUSES,
    facts=(("payer", ("payor",)),),
)
APPOINTMENT = Source(
    type="Appointment",
    names=("description", "serviceType", "appointmentType", "specialty"),
    times=("start", "requestedPeriod.start"),
    ends=("end", "start"),
    statuses=Statuses(
        no_fact=_set("cancelled noshow"),
        current=_set("proposed pending booked waitlist arrived checked-in"),
        ended=_set("fulfilled"),
    ),
    people=("participant.actor",),
    places=("participant.actor",),
    reasons=("reasonCode", "reasonReference"),
    optional=True,
)


def _not_done(source: Source) -> Source:
    """Those of the resources that state what was not done, and why."""
    return source._replace(
        statuses=Statuses(),
        facts=(_STATUS_REASON,),
        search=(("status", "not-done"),),
        optional=True,
    )


IMMUNIZATION_NOT_DONE = _not_done(IMMUNIZATION)
PROCEDURE_NOT_DONE = _not_done(PROCEDURE)
ADMINISTRATION_NOT_DONE = _not_done(MEDICATION_ADMINISTRATION)
