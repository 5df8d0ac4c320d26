"""Rows by concept: codes whatever the display says, parts of panels, units, changes."""

from pathlib import Path
from typing import Any

import pytest

from archqa.query import CannotExecute, Chart, Companion, Query, execute
from tests.fhir.invented import build_store, patient
from tests.query.clinic import (
    LAST,
    NOW,
    RXNORM,
    SUBJECT,
    Ask,
    Resource,
    blood_pressure,
    coded,
    names,
    order,
    problem,
    refs,
    result,
)


def allergy(name: str) -> Resource:
    return {
        "resourceType": "AllergyIntolerance",
        "id": "a",
        "patient": SUBJECT,
        "code": {"text": name},
        "reaction": [{"manifestation": [{"text": "Hives"}], "severity": "severe"}],
    }


@pytest.mark.parametrize(
    ("name", "concept", "found"),
    [
        ("Allergy to penicillin", "amoxicillin", True),
        ("Amoxicillin", "penicillin", True),
        ("Amoxicillin", "aspirin", False),
    ],
)
def test_an_allergy_to_a_class_is_one_to_its_drugs(
    ask: Ask, name: str, concept: str, found: bool
) -> None:
    answer = ask([allergy(name)], "allergy", concepts=[concept], summary="exists")
    assert answer.answer.values == (found,)


@pytest.mark.parametrize(
    ("field", "value"), [("reaction", "Hives"), ("severity", "severe")]
)
def test_an_allergy_tells_its_reaction(ask: Ask, field: str, value: str) -> None:
    assert ask([allergy("Latex")], "allergy", returns=field).answer.values == (value,)


def sugar(
    result_id: str, display: str, time: str, value: Any, code: str = "2339-0"
) -> Resource:
    return result(result_id, code, display, time, value)


SUGARS = [
    sugar(
        "o1", "Glucose [Mass/volume] in Blood", "2020-01-01T10:00:00Z", (90, "mg/dL")
    ),
    sugar("o2", "Sugar, blood", "2021-01-01T10:00:00Z", (200, "mg/dL")),
    sugar("o3", "Glucose, serum", "2022-01-01T10:00:00Z", (110, "mg/dL"), "2345-7"),
    sugar("o4", "Glucose in urine", "2023-01-01T10:00:00Z", (300, "mg/dL"), "5792-7"),
]


def test_rows_of_one_code_are_one_thing_whatever_the_display_says(ask: Ask) -> None:
    name = "Glucose [Mass/volume] in Blood"
    answer = ask(SUGARS, "observation", names=[name], summary="maximum")
    assert answer.answer.values == (200,)
    assert sorted(refs(answer)) == ["Observation/o1", "Observation/o2"]
    only_that = ask(SUGARS, "lab", names=[name], conventions="mimic-ehrsql")
    assert only_that.chosen == ()


def test_a_concept_has_all_its_codes_and_no_others(ask: Ask) -> None:
    answer = ask(SUGARS, "observation", concepts=["glucose"])
    assert refs(answer) == ["Observation/o1", "Observation/o2", "Observation/o3"]
    assert answer.steps[:2] == (("results in the record", 4), ("of 'glucose'", 3))


def test_an_unknown_concept_cannot_be_executed(ask: Ask) -> None:
    with pytest.raises(CannotExecute, match="no concept named 'shngles'"):
        ask(SUGARS, "observation", concepts=["shngles"])


def test_the_newest_are_the_rows_of_the_latest_times(ask: Ask) -> None:
    answer = ask(SUGARS, "observation", concepts=["glucose"], newest=2)
    assert refs(answer) == ["Observation/o2", "Observation/o3"]
    average = ask(
        SUGARS, "observation", concepts=["glucose"], newest=2, summary="average"
    )
    assert average.answer.values == (155,)


def test_the_newest_are_neither_counted_nor_at_a_position(ask: Ask) -> None:
    for fields in ({"summary": "count"}, {"when": {"position": "last"}}):
        with pytest.raises(ValueError, match="neither counted nor at one position"):
            ask(SUGARS, "observation", newest=2, **fields)


def test_values_of_a_concept_are_converted_to_one_unit(ask: Ask) -> None:
    held = [*SUGARS[:3], sugar("o5", "Glucose", "2024-01-01T10:00:00Z", (10, "mmol/L"))]
    answer = ask(held, "observation", concepts=["glucose"], when=LAST)
    assert list(answer.answer.values) == [pytest.approx(180, abs=1)]
    assert answer.answer.unit == "mg/dL"
    assert answer.chosen[0].facts["recorded_value"] == ("10 mmol/L",)
    assert answer.warnings == ("Values of glucose in mmol/L are converted to mg/dL.",)


def test_values_of_one_unit_stay_as_they_are(ask: Ask) -> None:
    held = [sugar("o5", "Glucose", "2024-01-01T10:00:00Z", (10, "mmol/L"))]
    answer = ask(held, "observation", concepts=["glucose"], when=LAST)
    assert (answer.answer.values, answer.answer.unit) == ((10,), "mmol/L")


def test_a_class_of_drugs_is_its_ingredients(ask: Ask) -> None:
    held = [
        order("r1", "Simvastatin 20 MG Oral Tablet", "stopped"),
        order("r2", "atorvastatin 40 MG Oral Tablet"),
        order("r3", "Nystatin 100 UNT/ML Oral Suspension"),
    ]
    assert refs(ask(held, "medication", concepts=["statin"], returns="name")) == [
        "MedicationRequest/r1",
        "MedicationRequest/r2",
    ]
    current = ask(
        held, "medication", concepts=["statin"], returns="dose", state="current"
    )
    assert current.answer.values == ("40 MG",)
    assert current.steps == (
        ("prescribed drugs in the record", 3),
        ("of 'statin'", 2),
        ("current", 1),
    )


PRESSURES = [
    blood_pressure("b1", "2020-01-01T10:00:00Z", 120, 80),
    blood_pressure("b2", "2021-01-01T10:00:00Z", 160, 90),
    blood_pressure("b3", "2022-01-01T10:00:00Z", 140, 95),
    result("b4", "8480-6", "Systolic", "2022-01-01T10:00:00Z", (140, "mm[Hg]")),
]


def test_the_last_blood_pressure_has_both_parts(ask: Ask) -> None:
    answer = ask(PRESSURES, "observation", concepts=["blood pressure"], when=LAST)
    assert answer.answer.values == (140, 95)
    assert answer.chosen[0].refs == ("Observation/b4", "Observation/b3")
    assert answer.evidence == {"Observation": ("b4", "b3")}


@pytest.mark.parametrize(
    ("summary", "values"),
    [
        ("average", (140, pytest.approx(88.333, abs=0.001))),
        ("maximum", (160, 95)),
        ("change", (20, 15)),
        ("count", (3,)),
    ],
)
def test_each_part_of_a_blood_pressure_has_a_number_of_its_own(
    ask: Ask, summary: str, values: tuple[float, ...]
) -> None:
    answer = ask(
        PRESSURES, "observation", concepts=["blood pressure"], summary=summary
    ).answer
    assert answer.values == values
    if summary != "count":
        assert answer.names == ("systolic blood pressure", "diastolic blood pressure")


def test_the_average_of_a_year_is_one_for_each_part(ask: Ask) -> None:
    asked = {"concepts": ["blood pressure"], "summary": "average", "per": "year"}
    answer = ask(PRESSURES[:2], "observation", **asked).answer
    assert answer.values == (120, 160, 80, 90)
    assert answer.periods == ("2020", "2021", "2020", "2021")


def test_the_highest_blood_pressure_is_the_one_with_the_highest_first_part(
    ask: Ask,
) -> None:
    answer = ask(
        PRESSURES, "observation", concepts=["blood pressure"], extreme="maximum"
    )
    assert answer.answer.values == (160, 90)


def test_a_measurement_of_several_parts_is_compared_with_nothing(ask: Ask) -> None:
    against = {"relation": "greater", "when": {"spans": [{"year": 2020}]}}
    asked = {"concepts": ["blood pressure"], "when": {"spans": [{"year": 2021}]}}
    with pytest.raises(CannotExecute, match="has several parts"):
        ask(PRESSURES, "observation", against=against, **asked)
    asked["concepts"] = ["systolic blood pressure"]
    answer = ask(PRESSURES, "observation", against=against, **asked)
    assert answer.answer.values == (True,)


def test_a_number_of_several_tests_is_told_as_such(ask: Ask) -> None:
    answer = ask(SUGARS, "observation", names=["glucose"], summary="maximum")
    assert answer.answer.values == (300,)
    assert answer.warnings[0].startswith("The values are of 3 different tests: Glucose")


def test_a_component_is_found_by_the_name_of_its_panel(ask: Ask) -> None:
    for what in ("vital", "observation"):  # Without a category, it is one by its code.
        answer = ask(PRESSURES[:1], what, names=["Blood pressure panel"])
        assert names(answer) == ["Systolic BP", "Diastolic BP"]
    assert ask(PRESSURES[:1], "lab", names=["Blood pressure panel"]).chosen == ()


def test_a_change_is_the_last_value_minus_the_first(ask: Ask) -> None:
    answer = ask(SUGARS, "observation", concepts=["glucose"], summary="change")
    assert answer.answer.values == (20,)
    assert refs(answer) == ["Observation/o1", "Observation/o3"]
    alone = ask(SUGARS[:1], "observation", concepts=["glucose"], summary="change")
    assert alone.answer.values == (None,)
    assert alone.warnings == ("A change needs two values of different times.",)


def test_a_result_without_a_value_is_no_result(ask: Ask) -> None:
    held = sugar("o1", "Glucose", "2020-01-01T10:00:00Z", None)
    held["dataAbsentReason"] = {"text": "hemolyzed"}
    answer = ask([*SUGARS[1:2], held], "observation", concepts=["glucose"])
    assert answer.answer.values == (200,)
    assert answer.left_out[0].facts["data_absent"] == ("hemolyzed",)


def test_a_companion_may_be_a_concept(ask: Ask) -> None:
    held = [order("r1", "Aspirin 81 MG"), order("r2", "Simvastatin 20 MG Oral Tablet")]
    companion = Companion(what="medication", concepts=("statin",), within="same_day")
    answer = ask(
        held, "medication", names=["aspirin"], companion=companion, returns="name"
    )
    assert names(answer) == ["Aspirin 81 MG"]


def test_results_of_a_patient_with_very_many_are_searched_by_code(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = Query(what="observation", concepts=("blood pressure",), now=NOW, when=LAST)
    with build_store(tmp_path / "many", [patient("p"), *PRESSURES, *SUGARS]) as store:
        at_once = execute(asked, store, "p")
        monkeypatch.setattr("archqa.query.execution.observations._MAX_ROWS_AT_ONCE", 3)
        by_code = execute(asked, store, "p")
    assert by_code.answer == at_once.answer
    assert by_code.chosen == at_once.chosen
    assert by_code.steps[0] == ("results in the record", 8)


def test_rows_are_read_once_for_a_chart(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise AssertionError("The record was searched again.")

    with build_store(tmp_path / "chart", [patient("p"), *SUGARS]) as store:
        chart = Chart(store, "p")
        asked = Query(what="observation", concepts=("glucose",), now=NOW)
        first = execute(asked, store, "p", chart=chart)
        monkeypatch.setattr(store, "search_all", refuse)
        assert execute(asked, store, "p", chart=chart) == first


def shot(shot_id: str, code: str, display: str) -> Resource:
    """A vaccination by the code of a vaccine: those of 207 are not confirmed by any source."""
    coding = {"system": "http://hl7.org/fhir/sid/cvx", "code": code}
    return {
        "resourceType": "Immunization",
        "id": shot_id,
        "status": "completed",
        "patient": SUBJECT,
        "occurrenceDateTime": "2022-01-01",
        "vaccineCode": {"coding": [coding | ({"display": display} if display else {})]},
    }


@pytest.mark.parametrize(
    ("code", "display", "counts"),
    [
        ("207", "SARS-COV-2 (COVID-19) vaccine, mRNA", True),
        ("207", "", True),
        ("207", "influenza, seasonal, injectable", False),
        ("207", "Vaccine, adult dose", False),
        ("208", "COVID-19, mRNA, LNP-S, PF, 30 mcg/0.3 mL dose", True),
    ],
)
def test_an_uncertain_code_counts_only_where_the_display_fits(
    ask: Ask, code: str, display: str, counts: bool
) -> None:
    answer = ask(
        [shot("i", code, display)],
        "immunization",
        concepts=["covid-19 vaccine"],
        summary="exists",
    )
    assert answer.answer.values == (counts,)


@pytest.mark.parametrize(
    ("display", "counts"),
    [
        ("furosemide 40 MG Oral Tablet", True),
        ("metformin hydrochloride 500 MG Oral Tablet", False),
    ],
)
def test_an_uncertain_code_of_a_medicine_counts_only_with_its_ingredient(
    ask: Ask, display: str, counts: bool
) -> None:
    rows = [order("m", display, concept=coded("4603", display, RXNORM))]
    answer = ask(rows, "medication", concepts=["furosemide"], summary="exists")
    assert answer.answer.values == (counts,)


@pytest.mark.parametrize(
    ("display", "counts"),
    [
        ("Acquired absence of other specified parts of digestive tract", False),
        ("History of appendectomy", True),
    ],
)
def test_a_code_for_many_organs_tells_no_single_operation(
    ask: Ask, display: str, counts: bool
) -> None:
    """Z90.49 is the absence of the appendix, of the gallbladder or of another part of the gut."""
    code = coded("Z90.49", display, "http://hl7.org/fhir/sid/icd-10-cm")
    rows = [problem("a", display, code=code)]
    answer = ask(rows, "diagnosis", concepts=["appendectomy"], summary="exists")
    assert answer.answer.values == (counts,)
