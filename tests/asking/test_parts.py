"""Questions of several parts, of which not all are clear."""

from pathlib import Path

import pytest

import archqa
from archqa.asking.answer import Answer
from tests.fhir.invented import Resource, build_store


def result(name: str, value: float, unit: str) -> Resource:
    return {
        "resourceType": "Observation",
        "id": name.lower(),
        "status": "final",
        "code": {"text": name},
        "subject": {"reference": "Patient/p"},
        "effectiveDateTime": "2025-02-03",
        "valueQuantity": {"value": value, "unit": unit},
    }


def ask(folder: Path, question: str) -> Answer:
    patient = {"resourceType": "Patient", "id": "p", "birthDate": "1960-05-05"}
    results = [
        result("Potassium", 4.1, "mmol/L"),
        result("Sodium", 139, "mmol/L"),
        result("Creatinine", 1.1, "mg/dL"),
        result("Hemoglobin", 12.9, "g/dL"),
    ]
    with build_store(folder, [patient, *results]) as store:
        return archqa.ask(
            question, patient="p", record=store.path, now="2025-06-02T12:00:00"
        )


@pytest.mark.parametrize(
    "question",
    [
        "potassium and zorblatt",
        "What is her potassium and what is her zorblatt?",
        "zorblatt and potassium",
    ],
)
def test_an_unknown_name_leaves_the_other_part_clear(
    tmp_path: Path, question: str
) -> None:
    answer = ask(tmp_path, question)
    assert answer.status == "answered"
    assert "4.1 mmol/L" in answer.lines[0].text
    assert "zorblatt" in answer.not_understood
    assert any("zorblatt" in remark for remark in answer.remarks)
    assert answer.is_partial


@pytest.mark.parametrize(
    "question",
    [
        "Is her potassium and zorblatt high?",
        "potassium and sodium without zorblatt",
        "potassium and not zorblatt",
        "potassium zorblatt",
    ],
)
def test_an_unknown_word_that_may_limit_the_question_is_not_left_out(
    tmp_path: Path, question: str
) -> None:
    assert ask(tmp_path, question).status == "not_understood"


def test_four_results_are_asked_for_at_once(tmp_path: Path) -> None:
    question = "What is her potassium, what is her sodium, what is her creatinine and what is her hemoglobin?"
    assert len(ask(tmp_path, question).lines) == 4


def test_all_results_are_shown_or_the_first_line_says_how_many_are_not(
    tmp_path: Path,
) -> None:
    def answer_of(count: int) -> Answer:
        results = []
        for number in range(count):
            day = f"20{10 + number // 28:02}-01-{number % 28 + 1:02}"
            potassium = result("Potassium", number + 1, "mmol/L")
            results.append({**potassium, "id": f"k{number}", "effectiveDateTime": day})
        patient: Resource = {"resourceType": "Patient", "id": "p"}
        with build_store(tmp_path / str(count), [patient, *results]) as store:
            path = store.path
        return archqa.ask("show all her potassium results", patient="p", record=path)

    answer = answer_of(30)
    assert len(answer.lines) == 30
    assert "more" not in answer.text
    assert "earlier" not in answer.text
    answer = answer_of(230)
    assert len(answer.lines) == 200
    assert answer.lines[0].text.startswith("The 200 latest of 230: Potassium 31 mmol/L")


CARE: tuple[Resource, ...] = (
    {
        "resourceType": "Procedure",
        "id": "colonoscopy",
        "status": "completed",
        "code": {"text": "Colonoscopy"},
        "performedDateTime": "2019-04-02",
    },
    {
        "resourceType": "Procedure",
        "id": "dialysis",
        "status": "completed",
        "code": {"text": "Hemodialysis"},
        "performedDateTime": "2023-11-20",
    },
    {
        "resourceType": "Immunization",
        "id": "flu",
        "status": "completed",
        "vaccineCode": {"text": "Influenza vaccine"},
        "occurrenceDateTime": "2023-10-05",
    },
    {
        "resourceType": "MedicationRequest",
        "id": "warfarin",
        "status": "completed",
        "intent": "order",
        "medicationCodeableConcept": {"text": "Warfarin 5 mg"},
        "authoredOn": "2025-03-01",
        "dispenseRequest": {
            "validityPeriod": {"start": "2025-03-01", "end": "2025-03-11"}
        },
    },
)


def care(folder: Path, question: str) -> str:
    person = {"resourceType": "Patient", "id": "p", "birthDate": "1960-05-05"}
    subject = {"reference": "Patient/p"}
    rows = [{"subject": subject, "patient": subject, **each} for each in CARE]
    readings = [
        {**result("Temperature", 38.9, "Cel"), "code": {"text": "Body temperature"}},
        {**result("SpO2", 84, "%"), "code": {"text": "SpO2"}},
        result("Potassium", 4.1, "mmol/L"),
        {**result("Heavy", 86, "kg"), "code": {"text": "Body weight"}},
    ]
    for reading in readings:
        reading["subject"] = subject
    light = {**readings[-1], "id": "light", "effectiveDateTime": "2024-02-03"}
    light["valueQuantity"] = {"value": 80, "unit": "kg"}
    with build_store(folder, [person, *rows, *readings, light]) as store:
        answer = archqa.ask(
            question, patient="p", record=store.path, now="2025-06-02T12:00:00"
        )
    return answer.text


@pytest.mark.parametrize(
    ("question", "texts"),
    [
        ("last colonoscopy and flu shot", ("2019-04-02", "2023-10-05")),
        ("latest potassium and colonoscopy", ("4.1", "2019-04-02")),
        ("Is she still on dialysis in 2024?", ("No dialysis in 2024", "2023-11-20")),
        ("Was he still on dialysis in 2023?", ("Yes", "2023-11-20")),
    ],
)
def test_no_part_of_a_question_goes_missing(
    tmp_path: Path, question: str, texts: tuple[str, ...]
) -> None:
    answer = care(tmp_path, question)
    assert all(text in answer for text in texts)


@pytest.mark.parametrize(
    ("question", "plain"),
    [
        ("Did she run a fever?", "Did she have a fever?"),
        ("Did he spike a fever?", "Did he have a fever?"),
        ("Did she become hypoxic?", "Was she hypoxic?"),
        ("Did the potassium go above 4?", "Was the potassium above 4?"),
        ("Did her sats drop below 90?", "Were her sats below 90?"),
        ("Has he put on weight?", "Has he gained weight?"),
        ("Has she had a colonoscopy yet?", "Has she had a colonoscopy?"),
        ("How many days was she on warfarin?", "How long was she on warfarin?"),
    ],
)
def test_everyday_verbs_read_as_their_plain_forms(
    tmp_path: Path, question: str, plain: str
) -> None:
    assert care(tmp_path / "everyday", question) == care(tmp_path / "plain", plain)


def test_how_long_a_medicine_was_taken_has_its_start_and_end(tmp_path: Path) -> None:
    answer = care(tmp_path, "How many days was she on warfarin?")
    assert "2025-03-01" in answer
    assert "2025-03-11" in answer


def test_all_results_of_two_tests_are_shown(tmp_path: Path) -> None:
    patient = {"resourceType": "Patient", "id": "p"}
    rows: list[Resource] = []
    for number in range(9):
        for name in ("Calcium", "Magnesium"):
            row = result(name, number + 1, "mg/dL")
            day = f"2025-02-0{number + 1}"
            rows.append({**row, "id": f"{name}{number}", "effectiveDateTime": day})
    for row in rows:
        row["category"] = [{"coding": [{"code": "laboratory"}]}]
    with build_store(tmp_path, [patient, *rows]) as store:
        answer = archqa.ask("show all labs", patient="p", record=store.path)
    assert len(answer.lines) == len(rows)


def test_refusals_are_listed_next_to_what_was_done(tmp_path: Path) -> None:
    patient = {"resourceType": "Patient", "id": "p"}
    subject = {"patient": {"reference": "Patient/p"}}
    done = {**CARE[2], **subject}
    refused = {
        **done,
        "id": "refused",
        "status": "not-done",
        "statusReason": {"text": "Patient refused"},
        "occurrenceDateTime": "2024-10-05",
    }
    for question in ("Any refusals?", "Did she refuse a flu shot?"):
        folder = tmp_path / question[:3]
        with build_store(folder, [patient, done, refused]) as store:
            answer = archqa.ask(question, patient="p", record=store.path)
        assert "2024-10-05" in answer.text
        assert "2023-10-05" not in answer.text
