"""Ages, deaths and onsets are as exact as the record, and no more."""

from pathlib import Path
from typing import Any

import pytest

import archqa
from archqa.asking.answer import Answer
from tests.fhir.invented import build_store

NOW = "2025-06-02T12:00:00"


def ask_of(folder: Path, question: str, *resources: dict[str, Any]) -> Answer:
    with build_store(folder / "record", list(resources)) as store:
        path = store.path
    return archqa.ask(question, patient="p", record=path, now=NOW)


def patient(**fields: Any) -> dict[str, Any]:
    return {"resourceType": "Patient", "id": "p", "gender": "female", **fields}


def condition(name: str, **fields: Any) -> dict[str, Any]:
    return {
        "resourceType": "Condition",
        "id": "c",
        "subject": {"reference": "Patient/p"},
        "clinicalStatus": {"coding": [{"code": "active"}]},
        "code": {"text": name},
        **fields,
    }


@pytest.mark.parametrize(
    ("birth", "age"),
    [
        ("2025-05-30", "3 days"),
        ("2025-05-11", "22 days (3 weeks)"),
        ("2025-04-20", "6 weeks"),
        ("2024-12-01", "6 months"),
        ("2023-06-03", "23 months"),
        ("2020-06-03", "4 years"),
        ("1948", "76 or 77 years"),
        ("1948-06", "76 or 77 years"),
        ("1948-07", "76 years"),
    ],
)
def test_an_age_is_as_exact_as_the_date_of_birth(
    birth: str, age: str, tmp_path: Path
) -> None:
    answer = ask_of(tmp_path, "How old is she?", patient(birthDate=birth))
    assert answer.text.startswith(f"She is {age} old (born {birth})")


def test_a_death_without_a_date_is_a_death(tmp_path: Path) -> None:
    dead = patient(birthDate="1944-10-02", deceasedBoolean=True)
    text = ask_of(tmp_path / "1", "Is she still alive?", dead).text
    assert text.startswith("No, she is recorded as dead; the date is not recorded.")
    text = ask_of(tmp_path / "2", "When did she die?", dead).text
    assert "the date is not recorded" in text
    assert ask_of(tmp_path / "3", "Has she died?", dead).text.startswith("Yes")
    assert ask_of(tmp_path / "4", "What sex is she?", dead).text.startswith(
        "She is female"
    )


def test_a_death_in_a_year_leaves_two_ages(tmp_path: Path) -> None:
    dead = patient(birthDate="1950-09-12", deceasedDateTime="2021")
    text = ask_of(tmp_path, "How old was she when she died?", dead).text
    assert text.startswith("She died in 2021 at the age of 70 or 71 years")


@pytest.mark.parametrize(
    ("fields", "text"),
    [
        ({"onsetDateTime": "2016-05"}, "Eczema, since 2016-05"),
        (
            {"recordedDate": "2024-08-05"},
            "The onset is not recorded: Eczema, recorded 2024-08-05",
        ),
        (
            {"onsetAge": {"value": 9, "unit": "years"}},
            "Eczema, onset at the age of 9 years",
        ),
        (
            {"onsetString": "after a burn", "recordedDate": "2024-08-05"},
            "Eczema, onset after a burn, recorded 2024-08-05",
        ),
    ],
)
def test_only_an_onset_says_since_when(
    fields: dict[str, Any], text: str, tmp_path: Path
) -> None:
    answer = ask_of(
        tmp_path,
        "Since when has she had eczema?",
        patient(),
        condition("Eczema", **fields),
    )
    assert answer.text.startswith(text)


@pytest.mark.parametrize(
    ("fields", "text"),
    [
        ({"onsetDateTime": "1999-03-01"}, "At the age of 34 years: Asthma"),
        ({"onsetDateTime": "1999"}, "At the age of 34 or 35 years: Asthma"),
        (
            {"onsetAge": {"value": 9, "unit": "years"}},
            "Asthma, onset at the age of 9 years",
        ),
        (
            {"recordedDate": "2020-01-01"},
            "The onset is not recorded: At the age of 55 years: Asthma, recorded",
        ),
    ],
)
def test_the_age_at_an_onset_follows_from_its_date(
    fields: dict[str, Any], text: str, tmp_path: Path
) -> None:
    born = patient(birthDate="1964-08-19")
    answer = ask_of(
        tmp_path,
        "At what age did her asthma start?",
        born,
        condition("Asthma", **fields),
    )
    assert answer.text.startswith(text)


def test_a_vaccine_of_childhood_has_no_other_date(tmp_path: Path) -> None:
    vaccine = {
        "resourceType": "Immunization",
        "id": "i",
        "status": "completed",
        "patient": {"reference": "Patient/p"},
        "vaccineCode": {"text": "Polio vaccine"},
        "occurrenceString": "as a child",
        "recorded": "2019-02-03",
    }
    answer = ask_of(tmp_path, "When did she get the polio vaccine?", patient(), vaccine)
    assert answer.text.startswith("Polio vaccine, as a child, recorded 2019-02-03")
