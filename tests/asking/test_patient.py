"""A patient is found by FHIR id, identifier or name; several or none are an error, never a guess."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import archqa
from archqa.asking import patient as patient_module
from archqa.asking.patient import (
    PatientNotFound,
    SeveralPatients,
    TooManyPatients,
    find_patient,
)
from archqa.errors import CallerError
from archqa.fhir import FhirService, Record
from tests.fhir.invented import Resource, build_store
from tests.fhir.serving import BASE, client_of

MRN = "http://hospital.example/mrn"
SSN = "http://hl7.org/fhir/sid/us-ssn"


def person(
    patient_id: str, given: str, family: str, *values: tuple[str, str], **more: Any
) -> Resource:
    name = {"use": "official", "given": given.split("|"), "family": family}
    return {
        "resourceType": "Patient",
        "id": patient_id,
        "identifier": [{"system": system, "value": value} for system, value in values],
        "name": [name],
        "gender": "female",
        "birthDate": "1970-01-02",
        **more,
    }


PEOPLE = (
    person("p1", "Maria123", "Lopez456", (MRN, "1001"), (SSN, "999-62-7400")),
    person("p2", "José|Ángel", "Núñez", (MRN, "1002"), gender="male"),
    person("p3", "Ann Elizabeth", "O'Neil", (MRN, "7,7|7"), (SSN, "1001-x")),
    person("p4", "Thomas", "James", (MRN, "s99"), ("urn:other", "1002")),
    person("p5", "Eva", "Garcia-Lopez", (MRN, "p1"), name=[
        {"use": "official", "given": ["Eva"], "family": "Garcia-Lopez"},
        {"use": "maiden", "given": ["Eva"], "family": "Steuber"},
    ]),
    person("p6", "", "", name=[{"text": "Dr. Ferne Heidenreich"}]),
    person("p7", "Drew", "Quist"),
    person("p8", "Cleo", "Quist", birthDate="1999-09-09"),
    person("p9", "Noname", "x", name=[]),
)  # fmt: skip


@pytest.fixture(scope="module", params=["store", "hapi", "gcp"])
def record(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Record]:
    store = build_store(tmp_path_factory.mktemp("people"), PEOPLE)
    if request.param == "store":
        yield store
    else:
        yield client_of(FhirService(store.as_profile(request.param), BASE))


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("p1", "p1"),
        ("Patient/p4", "p4"),
        ("1001", "p1"),
        ("  1001 ", "p1"),
        (f"{MRN}|1001", "p1"),
        (f"{SSN}|999-62-7400", "p1"),
        ("urn:other|1002", "p4"),
        (f"{MRN}|1002", "p2"),
    ],
)
def test_an_id_or_an_identifier_finds_its_patient(
    record: Record, text: str, found: str
) -> None:
    assert find_patient(record, text).id == found


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("Maria Lopez", "p1"),
        ("maria LOPEZ", "p1"),
        ("Lopez, Maria", "p1"),
        ("Maria123 Lopez456", "p1"),
        ("Mrs. Maria Lopez", "p1"),
        ("Lopez, Ms Maria", "p1"),
        ("Jose Nunez", "p2"),
        ("José Ángel Núñez", "p2"),
        ("Nuñez,Jose Angel", "p2"),
        ("Mr Núñez", "p2"),
        ("Ann O’Neil", "p3"),
        ("Elizabeth O'Neil", "p3"),
        ("Thomas James", "p4"),
        ("Eva Garcia Lopez", "p5"),
        ("Garcia-Lopez, Eva", "p5"),
        ("Eva Steuber", "p5"),
        ("Ferne Heidenreich", "p6"),
        ("Heidenreich, Ferne", "p6"),
        ("Dr Heidenreich", "p6"),
        ("Drew Quist", "p7"),
    ],
)
def test_a_name_finds_its_patient(record: Record, text: str, found: str) -> None:
    assert find_patient(record, text).id == found


@pytest.mark.parametrize(
    "text",
    [
        "nobody",
        "Patient/nobody",
        "Patient/1001",
        "Patient/Maria Lopez",
        "100",
        "S99",
        "http://wrong.example|1001",
        "|1001",
        f"{MRN}|",
        "|",
        "Mari Lopez",
        "Mariah Lopez",
        "Maria124 Lopez456",
        "Lopez Maria",
        "James Thomas",
        "Maria, Lopez",
        "Maria Lopez Lopez",
        "Maria Quist",
        "Eva Heidenreich",
        "Garcia Steuber",
        "Mr Maria Lopez",
        "Mrs Jose Nunez",
        "",
        " ",
        ",",
        "*",
        "_",
        "..",
        "../metadata",
        "p1?_format=xml",
        "Maria\0Lopez",
        "\ud800",
        "Lopez " * 100,
    ],
)
def test_who_is_not_there_is_not_guessed(record: Record, text: str) -> None:
    with pytest.raises(
        PatientNotFound, match="no patient of this id, identifier or name"
    ):
        find_patient(record, text)


def test_an_id_that_exists_comes_before_the_same_identifier(record: Record) -> None:
    assert find_patient(record, "p1").id == "p1"
    assert find_patient(record, f"{MRN}|p1").id == "p5"


def test_characters_of_search_syntax_are_escaped(tmp_path: Path) -> None:
    people = (
        person("a", "Ann", "A", (MRN, "7,7")),
        person("b", "Bea", "B", (MRN, "7")),
    )
    with build_store(tmp_path, people) as store:
        assert find_patient(store, "7,7").id == "a"
        assert find_patient(store, "7").id == "b"
        with pytest.raises(PatientNotFound):
            find_patient(store, "8,7")


def test_an_apostrophe_is_the_same_in_each_shape(tmp_path: Path) -> None:
    people = [person("a", "Ann", "O’Neil"), person("b", "Bea", "O'Neil")]
    with build_store(tmp_path, people) as store:
        assert find_patient(store, "Ann O'Neil").id == "a"
        with pytest.raises(SeveralPatients):
            find_patient(store, "O'Neil")


def test_a_second_given_name_and_a_double_name_count_as_names_too(
    tmp_path: Path,
) -> None:
    people = [person("a", "Rosa", "Lopez"), person("b", "Ann Rosa", "Garcia-Lopez")]
    for profile in ("archqa", "hapi", "gcp"):
        store = build_store(tmp_path / profile, people)
        client = client_of(FhirService(store.as_profile(profile), BASE))
        for text in ("Rosa", "Lopez", "Rosa Lopez"):
            with pytest.raises(SeveralPatients):
                find_patient(client, text)


def test_a_server_without_the_modifier_is_searched_without_it(tmp_path: Path) -> None:
    store = build_store(tmp_path, PEOPLE)

    class Plain(FhirService):
        def handle(self, method: str, url: str, *more: Any, **named: Any) -> Any:
            url = url.replace("name:contains=", "name:unknown=")
            return super().handle(method, url, *more, **named)

    client = client_of(Plain(store.as_profile("hapi"), BASE))
    assert find_patient(client, "Maria Lopez").id == "p1"
    assert find_patient(client, "Elizabeth O'Neil").id == "p3"
    with pytest.raises(PatientNotFound):
        find_patient(client, "Mari Lopez")


def test_of_several_patients_none_is_chosen(record: Record) -> None:
    for text, ids in (("Quist", ["p8", "p7"]), ("1002", ["p2", "p4"])):
        with pytest.raises(SeveralPatients) as caught:
            find_patient(record, text)
        assert [match.id for match in caught.value.candidates] == ids
        assert caught.value.count == 2
        assert "Name one by FHIR id" in str(caught.value)
    with pytest.raises(SeveralPatients) as caught:
        find_patient(record, "Quist")
    assert caught.value.details.splitlines() == [
        "2 patients of the record have this name:",
        "p8  Cleo Quist, born 1999-09-09",
        "p7  Drew Quist, born 1970-01-02",
    ]
    assert "Quist" not in str(caught.value)


def test_a_longer_name_that_also_fits_makes_two(tmp_path: Path) -> None:
    people = [person("a", "Ann", "Bell"), person("b", "Ann Marie", "Bell")]
    with build_store(tmp_path, people) as store:
        with pytest.raises(SeveralPatients):
            find_patient(store, "Ann Bell")
        assert find_patient(store, "Ann Marie Bell").id == "b"


def test_a_title_is_no_beginning_of_a_name(tmp_path: Path) -> None:
    people = [person("a", "Drew", "Bell"), person("b", "Ann", "Bell")]
    with build_store(tmp_path, people) as store, pytest.raises(SeveralPatients):
        find_patient(store, "Dr Bell")


def test_ten_of_many_patients_are_named_and_the_others_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    people = [person(f"x{number:03}", "Ann", "Bell") for number in range(103)]
    with build_store(tmp_path, people) as store:
        with pytest.raises(SeveralPatients) as caught:
            find_patient(store, "Ann Bell")
        lines = caught.value.details.splitlines()
        assert len(lines) == 12
        assert lines[0].startswith("103 patients")
        assert lines[-1] == "and 93 more"
        monkeypatch.setattr(patient_module, "_MAX_READ", 50)
        with pytest.raises(SeveralPatients, match="At least 50 patients") as caught:
            find_patient(store, "Ann Bell")
        assert caught.value.details.endswith("and at least 40 more")


def test_a_patient_is_not_single_where_not_all_could_be_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(patient_module, "_MAX_READ", 3)
    people = [person(f"x{number}", "Anna", "Bell") for number in range(5)]
    people.append(person("x0a", "Ann", "Bell"))
    with build_store(tmp_path, people) as store, pytest.raises(TooManyPatients):
        find_patient(store, "Ann Bell")


def test_a_server_that_ignores_what_is_searched_for_chooses_nobody(
    tmp_path: Path,
) -> None:
    store = build_store(tmp_path, PEOPLE[:2])

    class Ignoring(FhirService):
        def handle(self, method: str, url: str, *more: Any, **named: Any) -> Any:
            return super().handle(
                method, url.replace("identifier=", "_ignored="), *more, **named
            )

    client = client_of(Ignoring(store.as_profile("gcp"), BASE))
    assert find_patient(client, "1001").id == "p1"
    with pytest.raises(PatientNotFound):
        find_patient(client, "5555")


def test_an_answer_names_the_patient_whatever_its_status(tmp_path: Path) -> None:
    store = build_store(tmp_path, [*PEOPLE[:1], *PEOPLE[3:4]])
    for question in (
        "When was her last creatinine?",
        "What of the glork?",
        "Is it safe to fly?",
    ):
        answer = archqa.ask(question, patient="Lopez, Maria", record=store.path)
        assert answer.status != "answered"
        assert answer.as_json()["patient"] == {"id": "p1", "name": "Maria123 Lopez456"}


def test_many_questions_name_their_patients_by_mrn_and_by_name(tmp_path: Path) -> None:
    store = build_store(tmp_path, PEOPLE)
    rows = [
        {"question": "When was her last creatinine?", "patient": patient}
        for patient in ("1001", "Lopez, Maria", "Quist", "nobody")
    ]
    answers = archqa.ask_many(rows, record=store.path)
    assert [row and row["id"] for row in answers["patient"]] == ["p1", "p1", None, None]
    assert "2 patients of the record" in answers["error"][2]
    assert "Drew" not in answers["error"][2]
    assert "no patient" in answers["error"][3]


def test_a_missing_patient_is_the_callers_to_correct() -> None:
    assert issubclass(PatientNotFound, CallerError)
    assert issubclass(SeveralPatients, CallerError)
    assert issubclass(TooManyPatients, CallerError)
