"""Where resources of each type have what a row tells, and what their statuses mean.

Paths and statuses: hl7.org/fhir/R4; the profiles of US Core R4 are the check list.
"""

from archqa.query.kinds.declaration import Source, Statuses


def _set(words: str) -> frozenset[str]:
    return frozenset(words.split())


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
    by_encounter=True,
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
    by_encounter=True,
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
    optional=True,
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
    optional=True,
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
    by_encounter=True,
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
    by_encounter=True,
)
CONDITION = Source(
    type="Condition",
    names=("code",),
    times=("onsetDateTime", "onsetPeriod.start", "recordedDate"),
    ends=("abatementDateTime", "abatementPeriod.end", "abatementPeriod.start"),
    statuses=_PROBLEM_STATUSES,
    facts=(("severity", ("severity",)), ("body_site", ("bodySite",))),
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
PATIENT = Source(type="Patient", people=("generalPractitioner",), places=("managingOrganization",))
ALLERGY = Source(
    type="AllergyIntolerance",
    names=("code", "reaction.substance"),
    times=("onsetDateTime", "onsetPeriod.start", "recordedDate"),
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
    times=("occurrenceDateTime", "recorded"),
    statuses=Statuses(no_fact=_set("not-done")),
    values=("doseQuantity",),
    facts=(("route", ("route",)), ("body_site", ("site",))),
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
            ("activity.detail.code", "activity.detail.description", "activity.reference"),
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
