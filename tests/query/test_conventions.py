"""Each convention is one switch: what it changes, and nothing else."""

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
HERE = {"encounter": {"reference": "Encounter/h2"}}
LABS, CHART = f"{SYSTEM}mimic-d-labitems", f"{SYSTEM}mimic-chartevents-d-items"
NOW = "2131-12-31T23:59:00"


def lab(name: str, called: str, when: str, value: Any = 5, **more: Any) -> Resource:
    amount = (
        {"valueString": value}
        if isinstance(value, str)
        else {"valueQuantity": {"value": value, "unit": "mg/dL"}}
    )
    return observation(
        name, "p", codeable_concept(called, called, LABS), when, **{**amount, **more}
    )


def prescribed(
    name: str, drug: str, start: str | None, authored: str = "2131-01-05T08:00:00-05:00"
) -> Resource:
    period = {"dispenseRequest": {"validityPeriod": {"start": start}}} if start else {}
    return medication_request(name, "p", drug, authored, **HERE, **period)


def done(name: str, system: str, encounter: str, **when: Any) -> Resource:
    code = codeable_concept(name, "Line", f"{SYSTEM}{system}")
    more = {
        "subject": {"reference": "Patient/p"},
        "encounter": {"reference": f"Encounter/{encounter}"},
        **when,
    }
    return {"resourceType": "Procedure", "id": name, "status": "completed", "code": code, **more}


def visits() -> list[Resource]:
    """Two visits with an ICU stay in the second, at whose end the clocks go forward: 24 hours, or 23 in truth."""
    source = {
        "hospitalization": {"admitSource": codeable_concept("PHYSICIAN REFERRAL", system=SYSTEM)}
    }
    emergency = {**source, "class": {"code": "EMER", "display": "emergency"}}
    whole = {"partOf": {"reference": "Encounter/h2"}}
    return [
        encounter("h1", "p", "2130-01-01T08:00:00-05:00", "2130-01-09T12:00:00-05:00", **source),
        encounter("h2", "p", "2131-03-10T12:00:00-05:00", "2131-03-11T12:00:00-04:00", **emergency),
        encounter(
            "i1", "p", "2131-03-10T13:00:00-05:00", "2131-03-10T20:00:00-05:00", "icu", **whole
        ),
    ]


def charted(name: str, called: str, value: float, unit: str) -> Resource:
    amount = {
        "valueQuantity": {"value": value, "unit": unit},
        "encounter": {"reference": "Encounter/i1"},
    }
    return observation(
        name, "p", codeable_concept(name, called, CHART), "2131-03-10T14:00:00-05:00", **amount
    )


def the_ward() -> list[Resource]:
    return [
        patient("p", maritalStatus=codeable_concept("S", system=SYSTEM)),
        *visits(),
        location("w1", "Medicine"),
        lab("l1", "Glucose", "2131-03-10T13:00:00-05:00", 100, **HERE),
        lab("l2", "Glucose", "2131-03-10T14:00:00-05:00", 200),
        lab("l3", "glucose", "2132-01-01T00:00:00-05:00", 300, **HERE),
        lab("l4", "Glucose, CSF", "2131-03-10T15:00:00-05:00", 400, **HERE),
        lab("l5", "Troponin", "2131-03-10T15:00:00-05:00", "NEG", **HERE),
        lab(
            "l6",
            "Lactate",
            "2131-03-10T15:00:00-05:00",
            valueQuantity={"value": 3, "comparator": "<"},
            **HERE,
        ),
        lab("l7", "Lactate", "2131-03-10T16:00:00-05:00", 5, **HERE),
        lab("l8", "Sodium", "2131-11-30T12:00:00-05:00", 130, **HERE),
        lab("l9", "Sodium", "2131-12-01T12:00:00-05:00", 140, **HERE),
        charted("t1", "Temperature Celsius", 38, "°C"),
        charted("t2", "Temperature Fahrenheit", 98.6, "°F"),
        medication("m1", "Vancomycin"),
        medication("m2", "vancomycin"),
        medication("m3", "Vancomycin HCl"),
        prescribed("r1", "m1", "2131-03-10T14:00:00-05:00"),
        prescribed("r2", "m2", "2131-03-10T15:00:00-05:00"),
        prescribed("r3", "m3", None),
        done("q1", "mimic-procedure-icd9", "h2", performedDateTime="2131-03-10T00:00:00-05:00"),
        done("q2", "mimic-d-items", "i1", performedPeriod={"start": "2131-03-10T15:00:00-05:00"}),
    ]


@pytest.fixture(scope="module")
def ward(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    with build_store(tmp_path_factory.mktemp("ward"), the_ward()) as store:
        yield store


def answer(ward: Store, query: Query, ways: Conventions = CLINICAL, **switch: Any) -> Any:
    """The values, by some conventions of which one or more switches are set."""
    return execute(query, ward, "p", ways.model_copy(update=switch)).answer.values


def counted(what: Any, *names: str, **more: Any) -> Query:
    return Query(what=what, names=names, summary="count", now=NOW, **more)


def last(kind: Any = "hospital", which: Any = "current") -> When:
    return When(visit=Visit(kind=kind, which=which))


def test_the_current_visit_is_an_open_one_or_else_the_latest(ward: Store) -> None:
    query = counted("lab", "Lactate", when=last())
    assert answer(ward, query) == (2,)
    assert answer(ward, query, current_visit="without_end") == (0,)
    assert any("most recent" in each for each in execute(query, ward, "p").warnings)


def test_the_clock_can_be_turned_back_to_midnight(ward: Store) -> None:
    query = Query(
        what="lab",
        names=("Sodium",),
        when=When(position="last"),
        returns="elapsed",
        unit="hour",
        now=NOW,
    )
    given, midnight = answer(ward, query)[0], answer(ward, query, now="midnight")[0]
    assert given - midnight == pytest.approx(23 + 59 / 60)


def test_since_may_end_with_the_day_of_the_clock(ward: Store) -> None:
    query = counted("lab", "glucose", when=When(spans=(Span(relation="since", year=2131),)))
    assert answer(ward, query) == (3,)
    assert answer(ward, query, since_window_end="with_the_clock") == (2,)
    open_ended = query.model_copy(update={"when": When(spans=(Span(relation="in", year=2132),))})
    assert answer(ward, open_ended, since_window_end="with_the_clock") == (1,)


def test_a_month_before_the_31st_ends_or_overflows(ward: Store) -> None:
    ago = Span(relation="since", ago=Ago(count=1, unit="month"))
    query = counted("lab", "Sodium", when=When(spans=(ago,)))
    assert answer(ward, query, now="midnight") == (2,)
    assert answer(ward, query, now="midnight", month_arithmetic="overflow") == (1,)


def test_names_are_whole_or_words(ward: Store) -> None:
    assert answer(ward, counted("medication", "VANCOMYCIN ")) == (3,)
    assert answer(ward, counted("medication", "VANCOMYCIN "), name_matching="equal") == (2,)
    assert answer(ward, counted("lab", "glucose")) == (3,)
    assert answer(ward, counted("lab", "csf")) == (1,)
    assert answer(ward, counted("lab", "csf"), name_matching="equal") == (0,)
    assert answer(ward, counted("lab", "gluc"), name_matching="words") == (0,)


def test_different_names_may_differ_in_case_only(ward: Store) -> None:
    query = Query(what="medication", returns="name", summary="count_distinct")
    assert answer(ward, query) == (2,)
    assert answer(ward, query, distinct_name_matching="as_written") == (3,)


def test_lengths_are_true_or_those_of_the_clock_on_the_wall(ward: Store) -> None:
    query = Query(
        what="hospital_visit", returns="length_of_stay", unit="hour", when=When(position="last")
    )
    assert answer(ward, query) == (pytest.approx(23),)
    assert answer(ward, query, time_comparison="wall_clock") == (pytest.approx(24),)


def test_results_outside_of_encounters_can_be_left_out(ward: Store) -> None:
    query = counted("lab", "glucose")
    assert answer(ward, query, requires_encounter=True) == (2,)
    found = execute(query, ward, "p", CLINICAL.model_copy(update={"requires_encounter": True}))
    assert "1 of 3 lab results (33 %) have no encounter and are left out." in found.warnings
    inside = counted("lab", "glucose", when=last("icu", "last"))
    assert answer(ward, inside) == (2,)
    assert answer(ward, inside, requires_encounter=True) == (1,)


def test_what_was_done_in_the_icu_is_a_procedure_or_not(ward: Store) -> None:
    assert answer(ward, counted("procedure")) == (2,)
    assert answer(ward, counted("procedure"), include_icu_procedures=False) == (1,)


def test_fahrenheit_is_converted_or_not(ward: Store) -> None:
    query = Query(what="vital", names=("temperature",), summary="maximum")
    lowest = query.model_copy(update={"summary": "minimum"})
    assert answer(ward, query) == (38,)
    assert answer(ward, lowest) == (37,)
    assert answer(ward, query, convert_to_celsius=False) == (98.6,)
    as_charted = execute(
        query, ward, "p", CLINICAL.model_copy(update={"convert_to_celsius": False})
    )
    assert any("different units" in each for each in as_charted.warnings)


def test_a_mere_bound_counts_or_is_no_number(ward: Store) -> None:
    query = Query(what="lab", names=("Lactate",), summary="minimum")
    assert answer(ward, query) == (3,)
    assert answer(ward, query, censored_values="left_out") == (5,)


def test_a_result_in_words_is_told_or_is_no_value(ward: Store) -> None:
    query = Query(what="lab", names=("Troponin",))
    assert answer(ward, query) == ("NEG",)
    assert answer(ward, query, include_text_values=False) == (None,)


def test_a_prescription_without_a_start_has_the_time_of_writing(ward: Store) -> None:
    first = Query(what="medication", returns="name", when=When(position="first"))
    january = counted("medication", when=When(spans=(Span(year=2131, month=1),)))
    assert answer(ward, first) == ("Vancomycin HCl",)
    assert answer(ward, first, missing_start_policy="authored_unless_ordered") == ("Vancomycin",)
    assert (
        answer(ward, january)
        == answer(ward, january, missing_start_policy="authored_unless_ordered")
        == (1,)
    )


def test_the_admission_type_is_recorded_or_guessed(ward: Store) -> None:
    query = Query(what="hospital_visit", returns="admission_type", when=When(position="last"))
    assert answer(ward, query) == ("emergency",)
    assert answer(ward, query, admission_types="mimic") == ("DIRECT EMER.",)


def test_sex_and_marital_status_are_words_or_mimics_codes(ward: Store) -> None:
    sex, marital = (Query(what="patient", returns=each) for each in ("sex", "marital_status"))  # type: ignore[arg-type]
    assert answer(ward, sex) + answer(ward, marital) == ("female", "never married")
    assert answer(ward, sex, demographic_coding="mimic") + answer(
        ward, marital, demographic_coding="mimic"
    ) == (
        "F",
        "SINGLE",
    )


def test_the_marital_status_may_be_that_of_the_last_admission(ward: Store) -> None:
    query = Query(what="patient", returns="marital_status")
    assert execute(query, ward, "p").evidence == {"Patient": ("p",)}
    assert execute(query, ward, "p", "mimic-ehrsql").evidence == {
        "Encounter": ("h2",),
        "Patient": ("p",),
    }


def test_every_switch_is_described_and_set_by_the_benchmark() -> None:
    fields = Conventions.model_fields
    assert all(field.description for name, field in fields.items() if name != "name")
    assert [name for name in fields if getattr(CLINICAL, name) == getattr(MIMIC_EHRSQL, name)] == []
    assert set(CONVENTIONS) == {"clinical", "mimic-ehrsql"}


def test_unknown_conventions_and_a_missing_clock_are_said_in_words(ward: Store) -> None:
    with pytest.raises(CallerError, match="clinical, mimic-ehrsql"):
        get_conventions("sql")
    with pytest.raises(CannotExecute, match="what time it is"):
        execute(Query(what="lab", when=When(spans=(Span(years_back=0),))), ward, "p")
    with pytest.raises(CannotExecute, match="no such day"):
        execute(Query(what="lab", when=When(spans=(Span(year=2131, month=2, day=30),))), ward, "p")


def test_rows_are_plain_values(ward: Store, tmp_path: Path) -> None:
    found = execute(counted("lab", "glucose"), ward, "p")
    assert [dataclasses.asdict(row)["value"] for row in found.rows] == [100, 200, 300]
    assert '"chosen":true' in found.model_dump_json()
