"""Results by local labels, without category or display, and the states that values show."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import archqa
from archqa.asking.answer import Answer, Status
from tests.fhir.invented import Resource, build_store

LOINC = "http://loinc.org"
NOW = "2025-06-02T12:00:00"
Ask = Callable[..., Answer]


@pytest.fixture
def ask(tmp_path: Path) -> Ask:
    """Ask a question about a patient with these resources."""

    def answer(question: str, *resources: Resource) -> Answer:
        patient = {"resourceType": "Patient", "id": "p", "birthDate": "1960-05-05"}
        own = []
        for number, resource in enumerate(resources):
            subject = {"subject": {"reference": "Patient/p"}}
            own.append({"id": f"r{number}", **subject, **resource})
        with build_store(tmp_path, [patient, *own]) as store:
            return archqa.ask(question, patient="p", record=store.path, now=NOW)

    return answer


def result(
    label: str = "",
    value: float | str | None = None,
    unit: str = "",
    *,
    code: str = "",
    day: str = "2025-05-10",
    **elements: Any,
) -> Resource:
    """Return a result with a text as label, or with a code of LOINC without display."""
    named: Resource = {"text": label} if label else {}
    if code:
        named["coding"] = [{"system": LOINC, "code": code}]
    resource = {
        "resourceType": "Observation",
        "status": "final",
        "code": named,
        "effectiveDateTime": f"{day}T08:00:00Z",
        **elements,
    }
    if isinstance(value, str):
        resource["valueCodeableConcept"] = {"text": value}
    elif value is not None:
        resource["valueQuantity"] = {"value": value, "unit": unit}
    return resource


def categorised(category: str, resource: Resource) -> Resource:
    return {**resource, "category": [{"coding": [{"code": category}]}]}


@pytest.mark.parametrize(
    ("label", "question"),
    [
        ("K (SERUM)", "What is her potassium?"),
        ("Creat Lvl", "What was her last creatinine?"),
        ("POC GLUCOSE", "What was her last blood sugar?"),
        ("hs-cTnT", "What was her last troponin?"),
        ("Natrium", "What is her sodium?"),
        ("SGOT", "What was her last AST?"),
    ],
)
def test_a_local_label_answers_for_its_test(
    ask: Ask, label: str, question: str
) -> None:
    answer = ask(question, categorised("laboratory", result(label, 7.25, "mmol/L")))
    assert "7.25" in answer.text


def test_two_labels_of_one_test_are_one_series(ask: Ask) -> None:
    answer = ask(
        "How has her potassium changed over time?",
        result("K+", 3.1, "mmol/L", day="2025-01-02"),
        result("POTASSIUM, PLASMA", 4.4, "mmol/L", day="2025-03-02"),
        result(code="2823-3", value=5.2, unit="mmol/L", day="2025-05-02"),
    )
    assert "Potassium, 3 results: it only rose" in answer.text


def test_a_code_without_display_has_the_name_of_its_test(ask: Ask) -> None:
    answer = ask("Show all her lab results", result(code="2951-2", value=128))
    assert "Sodium 128" in answer.text
    assert "2951-2" not in answer.text


def test_results_without_category_count_by_what_they_measure(ask: Ask) -> None:
    resources = (
        result("Platelets", 44, "10*3/uL"),
        result(code="8867-4", value=131, unit="/min"),
        categorised("HM", result("Zyx antigen", 3.3, "U/mL")),
    )
    labs = ask("Show all her lab results", *resources)
    assert "44" in labs.text
    assert "3.3" in labs.text
    assert "131" not in labs.text
    vitals = ask("What were her last vital signs?", *resources)
    assert "131" in vitals.text
    assert "44" not in vitals.text


def test_results_that_nobody_can_classify_are_named_as_such(ask: Ask) -> None:
    answer = ask(
        "Show all her lab results",
        result("Platelets", 44, "10*3/uL"),
        result("Zyx antigen", 3.3, "U/mL"),
    )
    assert "3.3" in answer.text
    assert any("1 result has neither a category" in text for text in answer.remarks)


def test_a_questionnaire_is_no_lab_result(ask: Ask) -> None:
    answer = ask(
        "Show all her lab results",
        result("PHQ-9", 21),
        categorised("survey", result("Zyx score", 17)),
        result("Platelets", 44, "10*3/uL"),
    )
    assert "44" in answer.text
    assert "21" not in answer.text
    assert "17" not in answer.text


class TestMeasuredStates:
    @pytest.mark.parametrize(
        ("question", "code", "value", "unit", "threshold"),
        [
            ("Did she have a fever?", "8310-5", 39.1, "Cel", "at or above 38 °C"),
            ("Did she have a fever?", "8310-5", 102.5, "[degF]", "at or above 38 °C"),
            ("Was she hypoxic?", "59408-5", 82, "%", "below 90 %"),
            ("Was she ever tachycardic?", "8867-4", 144, "/min", "above 100 /min"),
            ("Was she bradycardic?", "8867-4", 38, "/min", "below 60 /min"),
            ("Was she hypotensive?", "8480-6", 71, "mm[Hg]", "below 90 mmHg"),
            ("Was she tachypneic?", "9279-1", 34, "/min", "above 20 /min"),
            ("Was she hypoglycemic?", "2345-7", 41, "mg/dL", "below 70 mg/dL"),
            ("Was she hypoglycemic?", "2345-7", 2.1, "mmol/L", "below 70 mg/dL"),
            ("Was her blood pressure ever low?", "8480-6", 71, "mm[Hg]", "below 90"),
        ],
    )
    def test_a_value_beyond_the_limit_is_a_yes_with_the_limit(
        self,
        ask: Ask,
        question: str,
        code: str,
        value: float,
        unit: str,
        threshold: str,
    ) -> None:
        answer = ask(question, result(code=code, value=value, unit=unit))
        assert answer.text.startswith("Yes: ")
        assert threshold in answer.text
        assert answer.lines[0].citations == ("Observation/r0",)

    @pytest.mark.parametrize(
        ("question", "code", "value", "unit"),
        [
            ("Did she have a fever?", "8310-5", 37.9, "Cel"),
            ("Was she hypoxic?", "59408-5", 90, "%"),
            ("Was she tachycardic?", "8867-4", 100, "/min"),
            ("Was she bradycardic?", "8867-4", 60, "/min"),
            ("Was she hypotensive?", "8480-6", 90, "mm[Hg]"),
            ("Was she tachypneic?", "9279-1", 20, "/min"),
            ("Was she hypoglycemic?", "2345-7", 70, "mg/dL"),
        ],
    )
    def test_a_value_at_the_other_side_is_a_no_with_the_value(
        self, ask: Ask, question: str, code: str, value: float, unit: str
    ) -> None:
        answer = ask(question, result(code=code, value=value, unit=unit))
        assert answer.text.startswith("No: ")
        assert f"{value:g}" in answer.text

    def test_without_a_value_nothing_is_concluded(self, ask: Ask) -> None:
        answer = ask("Did she have a fever?", result("Temp", 38.9))
        assert answer.text.startswith("No fever is recorded")

    def test_a_bound_does_not_decide_what_it_may_be(self, ask: Ask) -> None:
        comparator = {
            "valueQuantity": {"value": 100, "unit": "mg/dL", "comparator": "<"}
        }
        answer = ask("Was she hypoglycemic?", result(code="2345-7", **comparator))
        assert not answer.text.startswith(("Yes", "No"))

    def test_a_recorded_diagnosis_counts_too(self, ask: Ask) -> None:
        fever = {"resourceType": "Condition", "code": {"text": "Fever"}}
        assert ask("Did she have a fever?", fever).text.startswith("Yes")

    def test_single_readings_are_no_diagnosis_of_hypertension(self, ask: Ask) -> None:
        high = result(code="8480-6", value=168, unit="mm[Hg]")
        answer = ask("Does she have hypertension?", high)
        assert answer.text.startswith("No diagnosis of hypertension is recorded, but")
        assert "168" in answer.text

    def test_marks_of_the_record_go_before_the_limits_of_adults(self, ask: Ask) -> None:
        normal = {"interpretation": [{"coding": [{"code": "N"}]}]}
        rate = result(code="8867-4", value=58, unit="/min", **normal)
        assert not ask("Was her heart rate ever low?", rate).text.startswith("Yes")

    def test_the_limits_of_adults_do_not_judge_a_child(self, ask: Ask) -> None:
        rate = result(code="8867-4", value=140, unit="/min", day="1962-03-04")
        answer = ask("Was she tachycardic?", rate)
        assert "140" in answer.text
        assert "the limit of adults" in answer.text
        assert not answer.text.startswith("Yes")


class TestEstablishedAbsence:
    @pytest.mark.parametrize(
        ("question", "label"),
        [
            ("What was her last creatinine?", "Creatinine, Urine"),
            ("What was her last sodium?", "Sodium (Urine)"),
            ("What was her last hemoglobin?", "Hemoglobin A1c"),
            ("What was her last calcium?", "Ionized Calcium"),
            ("What was her last blood sugar?", "Glucose, pleural fluid"),
        ],
    )
    def test_a_similar_test_is_named_as_another_one(
        self, ask: Ask, question: str, label: str
    ) -> None:
        answer = ask(question, result(label, 6.25, "g/L"))
        assert answer.status is Status.NOT_FOUND
        assert (
            f"Not counted as the same: {label} 6.25 g/L on 2025-05-10." in answer.text
        )

    def test_results_of_an_unknown_code_are_counted_as_such(self, ask: Ask) -> None:
        answer = ask("What was her last lipase?", result(code="99999-1", value=7))
        assert "1 result (1 of them without a known name) was searched" in answer.text

    def test_results_of_other_kinds_are_mentioned(self, ask: Ask) -> None:
        answer = ask(
            "Show all her lab results", categorised("survey", result("Zyx", 4))
        )
        assert answer.status is Status.NOT_FOUND
        assert "The record has 1 result that is of another kind." in answer.text


@pytest.mark.parametrize(
    "question", ["How much oxygen was she on?", "How many liters of O2 is she on?"]
)
def test_how_much_oxygen_is_the_flow_and_not_the_saturation(
    ask: Ask, question: str
) -> None:
    flow = {
        "code": {"coding": [{"system": LOINC, "code": "3151-8"}]},
        "valueQuantity": {"value": 6, "unit": "L/min"},
    }
    saturation = result(code="59408-5", value=91, unit="%", component=[flow])
    answer = ask(question, saturation)
    assert answer.text == "Oxygen flow rate 6 L/min on 2025-05-10"


def test_a_flow_of_oxygen_tells_that_somebody_was_on_oxygen(ask: Ask) -> None:
    answer = ask("Was she on oxygen?", result(code="3151-8", value=6, unit="L/min"))
    assert "Oxygen flow rate 6 L/min" in answer.text


@pytest.mark.parametrize("word", ["titer", "titre"])
def test_a_titer_belongs_to_the_name_of_a_test(ask: Ask, word: str) -> None:
    answer = ask(f"What was her RPR {word}?", result("RPR titer", "1:32"))
    assert "1:32" in answer.text


def test_the_blood_pressure_is_one_of_the_vital_signs(ask: Ask) -> None:
    parts = []
    for label, value in (("Systolic", 118), ("Diastolic", 76)):
        quantity = {"value": value, "unit": "mmHg"}
        parts.append({"code": {"text": label}, "valueQuantity": quantity})
    rate = result(code="8867-4", value=87, unit="/min")
    answer = ask("What were her last vital signs?", result("BP", component=parts), rate)
    assert "118/76" in answer.text
    assert "87" in answer.text


def in_specimen(kind: str) -> Resource:
    """Return the elements of a result whose Specimen is contained in it."""
    specimen = {"resourceType": "Specimen", "id": "s", "type": {"text": kind}}
    return {"contained": [specimen], "specimen": {"reference": "#s"}}


FLUIDS = (
    result("RBC, URINE", 14, "/hpf"),
    result("RBC", 4.6, "10*6/uL"),
    result("LDH", 410, "U/L", **in_specimen("Pleural fluid")),
    result("LDH", 200, "U/L"),
    result("Sodium", 31, "mmol/L", **in_specimen("Urine")),
    result("Sodium", 139, "mmol/L"),
    result("Albumin, Ascites", 1.2, "g/dL"),
)


@pytest.mark.parametrize(
    ("question", "value", "others"),
    [
        ("red cells in her urine?", "14", ("4.6",)),
        ("What was the LDH in the pleural fluid?", "410", ("200",)),
        ("pleural LDH", "410", ("200",)),
        ("sodium in the urine", "31", ("139",)),
        ("albumin in the ascitic fluid", "1.2", ()),
        ("last red count", "4.6", ("14",)),
        ("What is her LDH?", "200", ("410",)),
        ("last sodium", "139", ("31",)),
    ],
)
def test_an_analyte_is_that_of_the_specimen_of_the_question(
    ask: Ask, question: str, value: str, others: tuple[str, ...]
) -> None:
    answer = ask(question, *FLUIDS)
    assert answer.status == "answered"
    assert f" {value}" in answer.text
    assert not any(f" {other}" in answer.text for other in others)


def test_a_specimen_without_such_a_result_is_not_answered_from_the_blood(
    ask: Ask,
) -> None:
    answer = ask("What was the sodium in the CSF?", *FLUIDS)
    assert answer.status == "not_found"
    assert "139" not in answer.text


def test_growth_is_not_read_from_other_results_of_a_specimen(ask: Ask) -> None:
    nitrite = result("Nitrite, Urine", "Positive")
    assert ask("Did anything grow in the urine?", nitrite).status == "not_found"
