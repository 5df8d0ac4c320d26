"""The kinds of rows: one declaration for each, read by executor, model, grammar, wording and docs.

A declaration says which resources hold the rows, at which paths, which statuses are no facts, which
are current, and which fields can be returned. A new kind is one more `KindOfRows` in the table
below and one `Source` in `declaration.py`: `query/execution/declared_rows.py` reads it. The kinds of
MIMIC-IV on FHIR keep row functions of their own (`reader`), whose names
`query/execution/row_selection.py` knows.
"""

from archqa.query.kinds.declaration import (
    ADMINISTRATION_NOT_DONE,
    ALLERGY,
    APPOINTMENT,
    CARE_PLAN,
    CARE_TEAM,
    CONDITION,
    COVERAGE,
    DEVICE,
    DEVICE_USE,
    ENCOUNTER,
    ERROR,
    FAMILY_HISTORY,
    GOAL,
    IMAGING_STUDY,
    IMMUNIZATION,
    IMMUNIZATION_NOT_DONE,
    MEDICATION_ADMINISTRATION,
    MEDICATION_DISPENSE,
    MEDICATION_REQUEST,
    MEDICATION_STATEMENT,
    OBSERVATION,
    PATIENT,
    PROCEDURE,
    PROCEDURE_NOT_DONE,
    REPORT,
    SUPPLY_DELIVERY,
    SUPPLY_REQUEST,
    KindOfRows,
    Reader,
    ReturnedField,
    RowKind,
    Source,
    Statuses,
)
from archqa.terminology.concept import ConceptKind

__all__ = [
    "CONDITION",
    "ENCOUNTER",
    "ERROR",
    "KINDS",
    "MEDICATION_ADMINISTRATION",
    "MEDICATION_DISPENSE",
    "MEDICATION_REQUEST",
    "MEDICATION_STATEMENT",
    "OBSERVATION",
    "PROCEDURE",
    "KindOfRows",
    "Reader",
    "ReturnedField",
    "RowKind",
    "Source",
    "Statuses",
]

_TIMED: frozenset[str] = frozenset({"name", "time", "elapsed", "visit", "status"})
_WHO: frozenset[str] = frozenset({"practitioner", "place"})
_RESULT_FIELDS: frozenset[str] = (
    frozenset({"value", "flag", "body_site"}) | _TIMED | _WHO
)
_MICROBIOLOGY_FIELDS: frozenset[str] = (
    frozenset({"value", "flag", "specimen", "organism", "body_site"}) | _TIMED
)
_DRUG_FIELDS: frozenset[str] = (
    frozenset({"end_time", "route", "dose", "frequency", "reason"})
    | {"status_reason", "days_supply", "refills"}
    | _TIMED
    | _WHO
)
_STAY_FIELDS: frozenset[str] = frozenset(
    {
        "time",
        "end_time",
        "elapsed",
        "length_of_stay",
        "age",
        "visit",
        "status",
        "reason",
    }
    | {"practitioner", "place", "visit_type", "care_unit"}
)
_DEMOGRAPHICS: frozenset[str] = frozenset(
    {
        "sex",
        "birth_date",
        "age",
        "marital_status",
        "ethnicity",
        "language",
        "death_time",
        "alive",
    }
    | {"address", "phone", "email", "identifier", "contact", "patient_name"}
)

_TESTS: tuple[ConceptKind, ...] = ("measurement", "procedure", "condition")
_DRUGS: tuple[ConceptKind, ...] = ("drug_class", "drug")
_PROCEDURES: tuple[ConceptKind, ...] = ("procedure", "measurement")
_ANY_CONCEPT: tuple[ConceptKind, ...] = (
    "condition",
    "procedure",
    "measurement",
    "drug_class",
    "drug",
    "vaccine",
)

_DECLARATIONS = (
    KindOfRows(
        what="lab",
        singular="lab result",
        plural="lab results",
        meaning="One result of the laboratory.",
        returns=_RESULT_FIELDS | {"specimen"},
        sources=(OBSERVATION,),
        reader="measurements",
        concepts=_TESTS,
        one_code=True,
    ),
    KindOfRows(
        what="vital",
        singular="charted measurement",
        plural="charted measurements",
        meaning="One vital sign, or what else is charted at the bedside.",
        returns=_RESULT_FIELDS,
        sources=(OBSERVATION,),
        reader="measurements",
        concepts=_TESTS,
        one_code=True,
    ),
    KindOfRows(
        what="output",
        singular="output",
        plural="outputs",
        meaning="One amount of fluid that the patient lost or passed.",
        returns=_RESULT_FIELDS,
        sources=(OBSERVATION,),
        reader="measurements",
        concepts=_TESTS,
        one_code=True,
    ),
    KindOfRows(
        what="observation",
        singular="result",
        plural="results",
        meaning=(
            "One result of any category (laboratory, vital sign, survey, social "
            "history, exam), or one component of a panel, such as the systolic "
            "pressure."
        ),
        returns=_RESULT_FIELDS,
        sources=(OBSERVATION,),
        reader="observations",
        concepts=_TESTS,
        one_code=True,
    ),
    KindOfRows(
        what="microbiology_test",
        singular="microbiology test",
        plural="microbiology tests",
        meaning="One culture, stain or other test of a specimen.",
        returns=_MICROBIOLOGY_FIELDS,
        sources=(OBSERVATION,),
        reader="microbiology",
        concepts=_TESTS,
    ),
    KindOfRows(
        what="organism",
        singular="organism grown in a microbiology test",
        plural="organisms grown in microbiology tests",
        meaning="One organism that grew in a test; the name is the organism's.",
        returns=_MICROBIOLOGY_FIELDS,
        sources=(OBSERVATION,),
        reader="microbiology",
        concepts=("condition",),
    ),
    KindOfRows(
        what="susceptibility",
        singular="susceptibility result",
        plural="susceptibility results",
        meaning=(
            "One antibiotic (the name) tested on an organism; the value is in words, "
            "such as S or R."
        ),
        returns=_MICROBIOLOGY_FIELDS,
        sources=(OBSERVATION,),
        reader="microbiology",
        concepts=_DRUGS,
    ),
    KindOfRows(
        what="medication",
        singular="prescribed drug",
        plural="prescribed drugs",
        meaning=(
            "One drug of one order, of a statement that the patient takes it, or of "
            "what was handed over."
        ),
        returns=_DRUG_FIELDS,
        sources=(MEDICATION_REQUEST, MEDICATION_STATEMENT, MEDICATION_DISPENSE),
        reader="medications",
        concepts=_DRUGS,
        one_code=True,
    ),
    KindOfRows(
        what="administration",
        singular="drug given",
        plural="drugs given",
        meaning="One dose that was given.",
        returns=_DRUG_FIELDS,
        sources=(MEDICATION_ADMINISTRATION,),
        reader="administrations",
        concepts=_DRUGS,
        one_code=True,
    ),
    KindOfRows(
        what="dispense",
        singular="drug dispensed",
        plural="drugs dispensed",
        meaning="One drug that was handed over, such as by a pharmacy.",
        returns=_DRUG_FIELDS,
        sources=(MEDICATION_DISPENSE,),
        reader="dispenses",
        concepts=_DRUGS,
        one_code=True,
    ),
    KindOfRows(
        what="procedure",
        singular="procedure",
        plural="procedures",
        meaning="One procedure that was done.",
        returns=frozenset({"end_time", "length_of_stay", "reason", "body_site", "age"})
        | _TIMED
        | _WHO,
        sources=(PROCEDURE,),
        reader="procedures",
        concepts=_PROCEDURES,
        one_code=True,
    ),
    KindOfRows(
        what="diagnosis",
        singular="diagnosis",
        plural="diagnoses",
        meaning=(
            "One condition, problem or symptom; time is its onset, end_time when it was over."
        ),
        returns=frozenset({"end_time", "severity", "body_site", "age"}) | _TIMED | _WHO,
        sources=(CONDITION,),
        reader="diagnoses",
        concepts=("condition", "procedure"),
        one_code=True,
    ),
    KindOfRows(
        what="hospital_visit",
        singular="hospital visit",
        plural="hospital visits",
        meaning="One stay in a hospital.",
        returns=_STAY_FIELDS
        | {"admission_type", "admission_source", "discharge_destination"},
        sources=(ENCOUNTER,),
        reader="hospital_visits",
        named=False,
        stays=True,
    ),
    KindOfRows(
        what="icu_stay",
        singular="ICU stay",
        plural="ICU stays",
        meaning="One stay in an intensive care unit.",
        returns=_STAY_FIELDS,
        sources=(ENCOUNTER,),
        reader="icu_stays",
        named=False,
        stays=True,
    ),
    KindOfRows(
        what="care_unit",
        singular="stay in a care unit",
        plural="stays in care units",
        meaning="One stay in one ward; the name is the ward's.",
        returns=frozenset(
            {
                "name",
                "care_unit",
                "time",
                "end_time",
                "elapsed",
                "length_of_stay",
                "visit",
            }
        ),
        reader="care_units",
        stays=True,
    ),
    KindOfRows(
        what="encounter",
        singular="encounter",
        plural="encounters",
        meaning=(
            "One contact of any class, be it a visit, a call or a stay; names are those "
            "of its type, concepts those of its type or of what it was about."
        ),
        returns=_STAY_FIELDS | {"name", "admission_source", "discharge_destination"},
        sources=(ENCOUNTER,),
        reader="encounters",
        concepts=_ANY_CONCEPT,
        stays=True,
    ),
    KindOfRows(
        what="patient",
        singular="patient",
        plural="patient",
        meaning="The person.",
        returns=_DEMOGRAPHICS | _WHO,
        sources=(PATIENT,),
        reader="patient_rows",
        named=False,
    ),
    KindOfRows(
        what="allergy",
        singular="allergy",
        plural="allergies",
        meaning="One allergy or intolerance; the name is the substance.",
        returns=frozenset({"reaction", "severity", "practitioner"}) | _TIMED,
        sources=(ALLERGY,),
        reader="allergies",
        concepts=("drug_class", "drug", "condition", "vaccine"),
    ),
    KindOfRows(
        what="immunization",
        singular="immunization",
        plural="immunizations",
        meaning="One vaccine that was given.",
        returns=frozenset({"dose", "route", "reason", "body_site", "age"})
        | _TIMED
        | _WHO,
        sources=(IMMUNIZATION,),
        reader="immunizations",
        concepts=("vaccine",),
    ),
    KindOfRows(
        what="care_plan",
        singular="care plan",
        plural="care plans",
        meaning="One care plan; activity lists what is to be done, target its goals.",
        returns=frozenset({"end_time", "activity", "target", "reason", "practitioner"})
        | _TIMED,
        sources=(CARE_PLAN,),
        concepts=_ANY_CONCEPT,
    ),
    KindOfRows(
        what="care_team",
        singular="care team",
        plural="care teams",
        meaning="One team; practitioner lists its members.",
        returns=frozenset({"end_time", "reason"}) | _TIMED | _WHO,
        sources=(CARE_TEAM,),
        concepts=_ANY_CONCEPT,
    ),
    KindOfRows(
        what="goal",
        singular="goal",
        plural="goals",
        meaning="One goal; target tells what is to be reached, and by when.",
        returns=frozenset({"target", "reason", "practitioner"}) | _TIMED,
        sources=(GOAL,),
        concepts=_ANY_CONCEPT,
    ),
    KindOfRows(
        what="device",
        singular="device",
        plural="devices",
        meaning="One device of the patient; the value is its identifier.",
        returns=frozenset({"value", "end_time", "reason", "body_site"}) | _TIMED,
        sources=(DEVICE, DEVICE_USE),
        concepts=_PROCEDURES,
    ),
    KindOfRows(
        what="supply",
        singular="supply",
        plural="supplies",
        meaning="One item that was supplied; the value is the quantity.",
        returns=frozenset({"value", "reason"}) | _TIMED | _WHO,
        sources=(SUPPLY_DELIVERY, SUPPLY_REQUEST),
        concepts=_ANY_CONCEPT,
    ),
    KindOfRows(
        what="report",
        singular="diagnostic report",
        plural="diagnostic reports",
        meaning="One diagnostic report; the value is its conclusion.",
        returns=frozenset({"value"}) | _TIMED | _WHO,
        sources=(REPORT,),
        concepts=("measurement", "procedure"),
        one_code=True,
    ),
    KindOfRows(
        what="imaging",
        singular="imaging study",
        plural="imaging studies",
        meaning="One imaging study.",
        returns=frozenset({"reason", "body_site"}) | _TIMED | _WHO,
        sources=(IMAGING_STUDY,),
        concepts=_PROCEDURES,
    ),
    KindOfRows(
        what="family_history",
        singular="condition of a relative",
        plural="conditions of relatives",
        meaning="One condition (the name) of one relative; the value is the relationship.",
        returns=frozenset({"value", "name", "time", "status"}),
        sources=(FAMILY_HISTORY,),
        reader="family_history",
        concepts=("condition",),
        one_code=True,
    ),
    KindOfRows(
        what="coverage",
        singular="insurance",
        plural="insurances",
        meaning="One insurance; the name is the plan's.",
        returns=frozenset({"name", "payer", "time", "end_time", "elapsed", "status"}),
        sources=(COVERAGE,),
    ),
    KindOfRows(
        what="appointment",
        singular="appointment",
        plural="appointments",
        meaning="One appointment, past or to come; it is current until it is over.",
        returns=frozenset({"end_time", "reason"}) | _TIMED | _WHO,
        sources=(APPOINTMENT,),
        concepts=_ANY_CONCEPT,
        ahead=True,
    ),
    KindOfRows(
        what="not_done",
        singular="refusal or omission",
        plural="refusals and omissions",
        meaning=(
            "One vaccine, procedure or dose that was not given or done; status_reason says why."
        ),
        returns=frozenset({"status_reason"}) | _TIMED,
        sources=(IMMUNIZATION_NOT_DONE, PROCEDURE_NOT_DONE, ADMINISTRATION_NOT_DONE),
        concepts=("vaccine", "procedure", "measurement", "drug_class", "drug"),
        one_code=True,
    ),
)
KINDS: dict[str, KindOfRows] = {kind.what: kind for kind in _DECLARATIONS}
"""Every kind of rows, by what a query calls it."""
