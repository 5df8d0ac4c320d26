"""What each convention changes."""

import dataclasses
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from archqa.errors import CallerError
from archqa.fhir import Store
from archqa.query import (
    CLINICAL,
    CONVENTIONS,
    MIMIC_EHRSQL,
    Ago,
    CannotExecute,
    Conventions,
    Query,
    Span,
    Visit,
    When,
    execute,
    get_conventions,
)
from archqa.query.conventions import at_stated_time
from tests.fhir.invented import (
    Resource,
    build_store,
    codeable_concept,
    encounter,
    location,
    medication,
    medication_request,
    observation,
    patient,
)

SYSTEM = "http://mimic.mit.edu/fhir/mimic/CodeSystem/"
IN_H2 = {"encounter": {"reference": "Encounter/h2"}}
LAB_SYSTEM = f"{SYSTEM}mimic-d-labitems"
CHART_SYSTEM = f"{SYSTEM}mimic-chartevents-d-items"
NOW = "2131-12-31T23:59:00"
CURRENT_VISIT = When(visit=Visit(kind="hospital", which="current"))
LAST_ICU_STAY = When(visit=Visit(kind="icu", which="last"))


def lab(
    resource_id: str, name: str, time: str, value: Any = 5, **fields: Any
) -> Resource:
    code = codeable_concept(name, name, LAB_SYSTEM)
    if isinstance(value, str):
        result: dict[str, Any] = {"valueString": value}
    else:
        result = {"valueQuantity": {"value": value, "unit": "mg/dL"}}
    return observation(resource_id, "p", code, time, **{**result, **fields})


def order(order_id: str, medication_id: str, start: str | None) -> Resource:
    """A prescription written in January 2131."""
    fields: dict[str, Any] = dict(IN_H2)
    if start is not None:
        fields["dispenseRequest"] = {"validityPeriod": {"start": start}}
    return medication_request(
        order_id, "p", medication_id, "2131-01-05T08:00:00-05:00", **fields
    )


def procedure(
    procedure_id: str, system: str, encounter_id: str, **performed: Any
) -> Resource:
    return {
        "resourceType": "Procedure",
        "id": procedure_id,
        "status": "completed",
        "code": codeable_concept(procedure_id, "Line", f"{SYSTEM}{system}"),
        "subject": {"reference": "Patient/p"},
        "encounter": {"reference": f"Encounter/{encounter_id}"},
        **performed,
    }


def visits() -> list[Resource]:
    """Two hospital visits, with an ICU stay during the later one.

    The clocks go forward before its end: 24 hours by the local clock are 23 true hours.
    """
    referral = codeable_concept("PHYSICIAN REFERRAL", system=SYSTEM)
    source = {"hospitalization": {"admitSource": referral}}
    emergency = {**source, "class": {"code": "EMER", "display": "emergency"}}
    part_of_h2 = {"partOf": {"reference": "Encounter/h2"}}
    return [
        encounter(
            "h1",
            "p",
            "2130-01-01T08:00:00-05:00",
            "2130-01-09T12:00:00-05:00",
            **source,
        ),
        encounter(
            "h2",
            "p",
            "2131-03-10T12:00:00-05:00",
            "2131-03-11T12:00:00-04:00",
            **emergency,
        ),
        encounter(
            "i1",
            "p",
            "2131-03-10T13:00:00-05:00",
            "2131-03-10T20:00:00-05:00",
            "icu",
            **part_of_h2,
        ),
    ]


def charted(resource_id: str, name: str, value: float, unit: str) -> Resource:
    return observation(
        resource_id,
        "p",
        codeable_concept(resource_id, name, CHART_SYSTEM),
        "2131-03-10T14:00:00-05:00",
        valueQuantity={"value": value, "unit": unit},
        encounter={"reference": "Encounter/i1"},
    )


def ward_resources() -> list[Resource]:
    return [
        patient("p", maritalStatus=codeable_concept("S", system=SYSTEM)),
        *visits(),
        location("w1", "Medicine"),
        lab("l1", "Glucose", "2131-03-10T13:00:00-05:00", 100, **IN_H2),
        lab("l2", "Glucose", "2131-03-10T14:00:00-05:00", 200),
        lab("l3", "glucose", "2132-01-01T00:00:00-05:00", 300, **IN_H2),
        lab("l4", "Glucose, CSF", "2131-03-10T15:00:00-05:00", 400, **IN_H2),
        lab("l5", "Troponin", "2131-03-10T15:00:00-05:00", "NEG", **IN_H2),
        lab(
            "l6",
            "Lactate",
            "2131-03-10T15:00:00-05:00",
            valueQuantity={"value": 3, "comparator": "<"},
            **IN_H2,
        ),
        lab("l7", "Lactate", "2131-03-10T16:00:00-05:00", 5, **IN_H2),
        lab("l8", "Sodium", "2131-11-30T12:00:00-05:00", 130, **IN_H2),
        lab("l9", "Sodium", "2131-12-01T12:00:00-05:00", 140, **IN_H2),
        charted("t1", "Temperature Celsius", 38, "°C"),
        charted("t2", "Temperature Fahrenheit", 98.6, "°F"),
        medication("m1", "Vancomycin"),
        medication("m2", "vancomycin"),
        medication("m3", "Vancomycin HCl"),
        order("r1", "m1", "2131-03-10T14:00:00-05:00"),
        order("r2", "m2", "2131-03-10T15:00:00-05:00"),
        order("r3", "m3", None),
        procedure(
            "q1",
            "mimic-procedure-icd9",
            "h2",
            performedDateTime="2131-03-10T00:00:00-05:00",
        ),
        procedure(
            "q2",
            "mimic-d-items",
            "i1",
            performedPeriod={"start": "2131-03-10T15:00:00-05:00"},
        ),
    ]


@pytest.fixture(scope="module")
def ward(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    with build_store(tmp_path_factory.mktemp("ward"), ward_resources()) as store:
        yield store


def answer(
    ward: Store, query: Query, conventions: Conventions = CLINICAL, **switches: Any
) -> Any:
    """The values, by conventions of which the given switches are set."""
    return execute(
        query, ward, "p", conventions.model_copy(update=switches)
    ).answer.values


def count_query(what: Any, *names: str, **fields: Any) -> Query:
    return Query(what=what, names=names, summary="count", now=NOW, **fields)


def test_the_current_visit_is_an_open_one_or_else_the_latest(ward: Store) -> None:
    query = count_query("lab", "Lactate", when=CURRENT_VISIT)
    assert answer(ward, query) == (2,)
    assert answer(ward, query, current_visit="without_end") == (0,)
    assert any(
        "most recent" in warning for warning in execute(query, ward, "p").warnings
    )


def test_the_clock_can_be_turned_back_to_midnight(ward: Store) -> None:
    query = Query(
        what="lab",
        names=("Sodium",),
        when=When(position="last"),
        returns="elapsed",
        unit="hour",
        now=NOW,
    )
    hours_until_now = answer(ward, query)[0]
    hours_until_midnight = answer(ward, query, now="midnight")[0]
    assert hours_until_now - hours_until_midnight == pytest.approx(23 + 59 / 60)


def test_since_may_end_with_the_day_of_the_clock(ward: Store) -> None:
    query = count_query(
        "lab", "glucose", when=When(spans=(Span(relation="since", year=2131),))
    )
    assert answer(ward, query) == (3,)
    assert answer(ward, query, since_window_end="with_the_clock") == (2,)
    open_ended = query.model_copy(
        update={"when": When(spans=(Span(relation="in", year=2132),))}
    )
    assert answer(ward, open_ended, since_window_end="with_the_clock") == (1,)


def test_a_month_before_the_31st_ends_or_overflows(ward: Store) -> None:
    ago = Span(relation="since", ago=Ago(count=1, unit="month"))
    query = count_query("lab", "Sodium", when=When(spans=(ago,)))
    assert answer(ward, query, now="midnight") == (2,)
    assert answer(ward, query, now="midnight", month_arithmetic="overflow") == (1,)


def test_names_match_as_a_whole_or_by_their_words(ward: Store) -> None:
    assert answer(ward, count_query("medication", "VANCOMYCIN ")) == (3,)
    assert answer(
        ward, count_query("medication", "VANCOMYCIN "), name_matching="equal"
    ) == (2,)
    assert answer(ward, count_query("lab", "glucose")) == (3,)
    assert answer(ward, count_query("lab", "csf")) == (1,)
    assert answer(ward, count_query("lab", "csf"), name_matching="equal") == (0,)
    assert answer(ward, count_query("lab", "gluc"), name_matching="words") == (0,)


def test_different_names_may_differ_in_case_only(ward: Store) -> None:
    query = Query(what="medication", returns="name", summary="count_distinct")
    assert answer(ward, query) == (2,)
    assert answer(ward, query, distinct_name_matching="as_written") == (3,)


def test_durations_are_true_or_by_the_local_clock(ward: Store) -> None:
    query = Query(
        what="hospital_visit",
        returns="length_of_stay",
        unit="hour",
        when=When(position="last"),
    )
    assert answer(ward, query) == (pytest.approx(23),)
    assert answer(ward, query, time_comparison="wall_clock") == (pytest.approx(24),)


def test_results_outside_of_encounters_can_be_left_out(ward: Store) -> None:
    query = count_query("lab", "glucose")
    assert answer(ward, query, requires_encounter=True) == (2,)
    result = execute(
        query, ward, "p", CLINICAL.model_copy(update={"requires_encounter": True})
    )
    assert (
        "1 of 3 lab results (33 %) have no encounter and are left out."
        in result.warnings
    )
    inside = count_query("lab", "glucose", when=LAST_ICU_STAY)
    assert answer(ward, inside) == (2,)
    assert answer(ward, inside, requires_encounter=True) == (1,)


def test_icu_procedures_count_or_not(ward: Store) -> None:
    assert answer(ward, count_query("procedure")) == (2,)
    assert answer(ward, count_query("procedure"), include_icu_procedures=False) == (1,)


def test_fahrenheit_is_converted_or_not(ward: Store) -> None:
    query = Query(what="vital", names=("temperature",), summary="maximum")
    lowest = query.model_copy(update={"summary": "minimum"})
    assert answer(ward, query) == (38,)
    assert answer(ward, lowest) == (37,)
    assert answer(ward, query, convert_to_celsius=False) == (98.6,)
    as_charted = execute(
        query, ward, "p", CLINICAL.model_copy(update={"convert_to_celsius": False})
    )
    [caveat] = (
        caveat for caveat in as_charted.caveats if "different units" in caveat.text
    )
    assert caveat.kind == "mixed_units"


def test_a_bound_counts_as_its_number_or_is_left_out(ward: Store) -> None:
    query = Query(what="lab", names=("Lactate",), summary="minimum")
    assert answer(ward, query) == (3,)
    assert answer(ward, query, censored_values="left_out") == (5,)


def test_a_text_result_is_a_value_or_not(ward: Store) -> None:
    query = Query(what="lab", names=("Troponin",))
    assert answer(ward, query) == ("NEG",)
    assert answer(ward, query, include_text_values=False) == (None,)


def test_a_prescription_without_a_start_has_the_time_of_writing(ward: Store) -> None:
    first_drug = Query(what="medication", returns="name", when=When(position="first"))
    january = count_query("medication", when=When(spans=(Span(year=2131, month=1),)))
    assert answer(ward, first_drug) == ("Vancomycin HCl",)
    without_authored = answer(
        ward, first_drug, missing_start_policy="authored_unless_ordered"
    )
    assert without_authored == ("Vancomycin",)
    assert answer(ward, january) == (1,)
    assert answer(ward, january, missing_start_policy="authored_unless_ordered") == (1,)


def test_the_admission_type_is_recorded_or_inferred(ward: Store) -> None:
    query = Query(
        what="hospital_visit", returns="admission_type", when=When(position="last")
    )
    assert answer(ward, query) == ("emergency",)
    assert answer(ward, query, admission_types="mimic") == ("DIRECT EMER.",)


def test_sex_and_marital_status_are_words_or_mimics_codes(ward: Store) -> None:
    sex = Query(what="patient", returns="sex")
    assert answer(ward, sex) == ("female",)
    assert answer(ward, sex, demographic_coding="mimic") == ("F",)
    marital_status = Query(what="patient", returns="marital_status")
    assert answer(ward, marital_status) == ("never married",)
    assert answer(ward, marital_status, demographic_coding="mimic") == ("SINGLE",)


def test_the_marital_status_may_be_that_of_the_last_admission(ward: Store) -> None:
    query = Query(what="patient", returns="marital_status")
    assert execute(query, ward, "p").evidence == {"Patient": ("p",)}
    assert execute(query, ward, "p", "mimic-ehrsql").evidence == {
        "Encounter": ("h2",),
        "Patient": ("p",),
    }


def test_every_switch_is_described_and_set_by_the_benchmark() -> None:
    fields = Conventions.model_fields
    for name, field in fields.items():
        assert getattr(CLINICAL, name) != getattr(MIMIC_EHRSQL, name)
        assert field.description or name == "name"
    assert set(CONVENTIONS) == {"clinical", "mimic-ehrsql"}


def test_unknown_conventions_are_refused_with_the_known_names() -> None:
    with pytest.raises(CallerError, match="clinical, mimic-ehrsql"):
        get_conventions("sql")


@pytest.mark.parametrize(
    ("span", "message"),
    [
        (Span(years_back=0), "what time it is"),
        (Span(year=2131, month=2, day=30), "no such day"),
    ],
)
def test_a_span_that_has_no_meaning_is_refused(
    ward: Store, span: Span, message: str
) -> None:
    with pytest.raises(CannotExecute, match=message):
        execute(Query(what="lab", when=When(spans=(span,))), ward, "p")


def test_rows_are_plain_values(ward: Store, tmp_path: Path) -> None:
    result = execute(count_query("lab", "glucose"), ward, "p")
    assert [dataclasses.asdict(row)["value"] for row in result.rows] == [100, 200, 300]
    assert '"chosen":true' in result.model_dump_json()


def rows_at(
    store: Store, now: str, conventions: Conventions
) -> tuple[list[str], tuple[str, ...]]:
    query = Query(what="lab", names=("Later",), now=now)
    result = execute(query, store, "p", conventions)
    return [ref for row in result.chosen for ref in row.refs], result.warnings


@pytest.mark.parametrize(
    ("now", "kept"),
    [
        ("2130-06-01T12:00:00", ["Observation/early"]),
        ("2130-06-01T00:00:00", ["Observation/early", "Observation/evening"]),
        (
            "2131-01-01T00:00:00",
            ["Observation/early", "Observation/evening", "Observation/late"],
        ),
    ],
)
def test_what_is_dated_after_a_stated_time_is_left_out_and_counted(
    tmp_path: Path, now: str, kept: list[str]
) -> None:
    """A date without a time of day is the whole day."""
    visit = encounter("h2", "p", "2130-01-01T10:00:00+00:00", None)
    labs = [
        lab("early", "Later", "2130-05-01T10:00:00+00:00", **IN_H2),
        lab("evening", "Later", "2130-06-01T20:00:00+00:00", **IN_H2),
        lab("late", "Later", "2130-12-01T10:00:00+00:00", **IN_H2),
    ]
    store = build_store(tmp_path / "later", [patient("p"), visit, *labs])
    found, warnings = rows_at(store, now, at_stated_time("clinical"))
    assert found == kept
    missing = 3 - len(kept)
    noun = "lab result" if missing == 1 else "lab results"
    said = (
        (f"Left out, since dated after the question: {missing} {noun}.",)
        if missing
        else ()
    )
    assert warnings == said
    later = execute(
        Query(what="lab", names=("Later",), now=now),
        store,
        "p",
        at_stated_time("clinical"),
    )
    assert [
        caveat.text for caveat in later.caveats if caveat.kind == "dated_later"
    ] == list(said)
    for conventions in (CLINICAL, at_stated_time("mimic-ehrsql")):
        assert rows_at(store, now, conventions) == (
            ["Observation/early", "Observation/evening", "Observation/late"],
            (),
        )


def test_the_last_visit_is_the_last_one_that_had_begun(tmp_path: Path) -> None:
    stays = [
        encounter("one", "p", "2130-01-01T10:00:00+00:00", "2130-01-05T10:00:00+00:00"),
        encounter("two", "p", "2131-01-01T10:00:00+00:00", "2131-01-05T10:00:00+00:00"),
    ]
    store = build_store(tmp_path / "visits", [patient("p"), *stays])
    last = When(visit=Visit(kind="hospital", which="last"))
    query = Query(
        what="hospital_visit", when=last, returns="time", now="2130-06-01T00:00:00"
    )
    chosen = execute(query, store, "p", at_stated_time("clinical")).chosen
    assert [row.refs for row in chosen] == [("Encounter/one",)]
