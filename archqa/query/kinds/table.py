"""The table of the kinds of rows: what each is called, read from and can return."""

from archqa.query.kinds.declaration import ConceptKind, KindOfRows
from archqa.query.kinds.sources import (
    ALLERGY,
    CARE_PLAN,
    CARE_TEAM,
    CONDITION,
    COVERAGE,
    DEVICE,
    DEVICE_USE,
    ENCOUNTER,
    FAMILY_HISTORY,
    GOAL,
    IMAGING_STUDY,
    IMMUNIZATION,
    MEDICATION_ADMINISTRATION,
    MEDICATION_DISPENSE,
    MEDICATION_REQUEST,
    MEDICATION_STATEMENT,
    OBSERVATION,
    PATIENT,
    PROCEDURE,
    REPORT,
    SUPPLY_DELIVERY,
    SUPPLY_REQUEST,
)

_TIMED: frozenset[str] = frozenset({"name", "time", "elapsed", "visit", "status"})
_WHO: frozenset[str] = frozenset({"practitioner", "place"})
_RESULT_FIELDS: frozenset[str] = frozenset({"value", "flag", "body_site"}) | _TIMED | _WHO
_MICROBIOLOGY_FIELDS: frozenset[str] = (
    frozenset({"value", "flag", "specimen", "organism", "body_site"}) | _TIMED
)
_DRUG_FIELDS: frozenset[str] = (
    frozenset({"end_time", "route", "dose", "frequency", "reason"}) | _TIMED | _WHO
)
_STAY_FIELDS: frozenset[str] = frozenset(
    {"time", "end_time", "elapsed", "length_of_stay", "age", "visit", "status", "reason"}
    | {"practitioner", "place", "visit_type", "care_unit"}
)
_DEMOGRAPHICS: frozenset[str] = frozenset(
    {"sex", "birth_date", "age", "marital_status", "ethnicity", "language", "death_time", "alive"}
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
        returns=_MICROBIOLOGY_FIELDS,
        sources=(OBSERVATION,),
        reader="microbiology",
        concepts=_TESTS,
    ),
    KindOfRows(
        what="organism",
        singular="organism grown in a microbiology test",
        plural="organisms grown in microbiology tests",
        returns=_MICROBIOLOGY_FIELDS,
        sources=(OBSERVATION,),
        reader="microbiology",
        concepts=("condition",),
    ),
    KindOfRows(
        what="susceptibility",
        singular="susceptibility result",
        plural="susceptibility results",
        returns=_MICROBIOLOGY_FIELDS,
        sources=(OBSERVATION,),
        reader="microbiology",
        concepts=_DRUGS,
    ),
    KindOfRows(
        what="medication",
        singular="prescribed drug",
        plural="prescribed drugs",
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
        returns=_DRUG_FIELDS,
        sources=(MEDICATION_ADMINISTRATION,),
        reader="administrations",
        concepts=_DRUGS,
        one_code=True,
    ),
    KindOfRows(
        what="procedure",
        singular="procedure",
        plural="procedures",
        returns=frozenset({"end_time", "reason", "body_site"}) | _TIMED | _WHO,
        sources=(PROCEDURE,),
        reader="procedures",
        concepts=_PROCEDURES,
        one_code=True,
    ),
    KindOfRows(
        what="diagnosis",
        singular="diagnosis",
        plural="diagnoses",
        returns=frozenset({"end_time", "severity", "body_site"}) | _TIMED | _WHO,
        sources=(CONDITION,),
        reader="diagnoses",
        concepts=("condition", "procedure"),
        one_code=True,
    ),
    KindOfRows(
        what="hospital_visit",
        singular="hospital visit",
        plural="hospital visits",
        returns=_STAY_FIELDS | {"admission_type", "admission_source", "discharge_destination"},
        sources=(ENCOUNTER,),
        reader="hospital_visits",
        named=False,
        stays=True,
    ),
    KindOfRows(
        what="icu_stay",
        singular="ICU stay",
        plural="ICU stays",
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
        returns=frozenset(
            {"name", "care_unit", "time", "end_time", "elapsed", "length_of_stay", "visit"}
        ),
        reader="care_units",
        stays=True,
    ),
    KindOfRows(
        what="encounter",
        singular="encounter",
        plural="encounters",
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
        returns=_DEMOGRAPHICS | _WHO,
        sources=(PATIENT,),
        reader="patient_rows",
        named=False,
    ),
    KindOfRows(
        what="allergy",
        singular="allergy",
        plural="allergies",
        returns=frozenset({"reaction", "severity", "practitioner"}) | _TIMED,
        sources=(ALLERGY,),
        concepts=("drug_class", "drug", "condition", "vaccine"),
    ),
    KindOfRows(
        what="immunization",
        singular="immunization",
        plural="immunizations",
        returns=frozenset({"dose", "route", "reason", "body_site"}) | _TIMED | _WHO,
        sources=(IMMUNIZATION,),
        concepts=("vaccine",),
    ),
    KindOfRows(
        what="care_plan",
        singular="care plan",
        plural="care plans",
        returns=frozenset({"end_time", "activity", "target", "reason", "practitioner"}) | _TIMED,
        sources=(CARE_PLAN,),
        concepts=_ANY_CONCEPT,
    ),
    KindOfRows(
        what="care_team",
        singular="care team",
        plural="care teams",
        returns=frozenset({"end_time", "reason"}) | _TIMED | _WHO,
        sources=(CARE_TEAM,),
        concepts=_ANY_CONCEPT,
    ),
    KindOfRows(
        what="goal",
        singular="goal",
        plural="goals",
        returns=frozenset({"target", "reason", "practitioner"}) | _TIMED,
        sources=(GOAL,),
        concepts=_ANY_CONCEPT,
    ),
    KindOfRows(
        what="device",
        singular="device",
        plural="devices",
        returns=frozenset({"value", "end_time", "reason", "body_site"}) | _TIMED,
        sources=(DEVICE, DEVICE_USE),
        concepts=_PROCEDURES,
    ),
    KindOfRows(
        what="supply",
        singular="supply",
        plural="supplies",
        returns=frozenset({"value", "reason"}) | _TIMED | _WHO,
        sources=(SUPPLY_DELIVERY, SUPPLY_REQUEST),
        concepts=_ANY_CONCEPT,
    ),
    KindOfRows(
        what="report",
        singular="diagnostic report",
        plural="diagnostic reports",
        returns=frozenset({"value"}) | _TIMED | _WHO,
        sources=(REPORT,),
        concepts=("measurement", "procedure"),
        one_code=True,
    ),
    KindOfRows(
        what="imaging",
        singular="imaging study",
        plural="imaging studies",
        returns=frozenset({"reason", "body_site"}) | _TIMED | _WHO,
        sources=(IMAGING_STUDY,),
        concepts=_PROCEDURES,
    ),
    KindOfRows(
        what="family_history",
        singular="condition of a relative",
        plural="conditions of relatives",
        returns=frozenset({"value", "name", "time", "status"}),
        sources=(FAMILY_HISTORY,),
        concepts=("condition",),
        one_code=True,
    ),
    KindOfRows(
        what="coverage",
        singular="insurance",
        plural="insurances",
        returns=frozenset({"name", "payer", "time", "end_time", "elapsed", "status"}),
        sources=(COVERAGE,),
    ),
)
KINDS: dict[str, KindOfRows] = {kind.what: kind for kind in _DECLARATIONS}
"""Every kind of rows, by what a query calls it."""
