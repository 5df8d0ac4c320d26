"""Whole sets of files are loaded: every resource is in, or the report says which is not, and why.

The official examples and bundles of Synthea are not in this repository. Two variables name folders
with them, for example after `npm pack hl7.fhir.r4.examples@4.0.1` (CC0) and `synthea -p 60`:
ARCHQA_FHIR_EXAMPLES=/path/to/package ARCHQA_SYNTHEA=/path/to/output/fhir
"""

import gzip
import json
import os
from pathlib import Path
from typing import Any

import pytest

from archqa.fhir import FhirService, LoadReport, Store
from archqa.fhir.values.resource_types import R4_RESOURCE_TYPES
from tests.fhir.every_shape import (
    LONGEST_ID,
    NPI,
    collection,
    observations_with_every_reference,
    references_of,
    resource_of_every_type,
    synthea_hospitals,
    synthea_patient,
    synthea_practitioners,
    transaction,
    walk_bundles,
    write_json,
)
from tests.fhir.invented import ids_of, observation, patient, write_ndjson
from tests.fhir.serving import BASE


def load(store: Store, path: Path) -> LoadReport:
    return store.load([path])


def test_a_resource_of_every_type_comes_back_exactly(
    empty_store: Store, tmp_path: Path
) -> None:
    resources = resource_of_every_type()
    report = load(empty_store, write_ndjson(tmp_path / "all.ndjson", resources))
    assert (report.added, report.bad, len(report.by_type)) == (
        len(R4_RESOURCE_TYPES),
        0,
        len(R4_RESOURCE_TYPES),
    )
    for resource in resources:
        assert empty_store.get(resource["resourceType"], resource["id"]) == resource


@pytest.mark.parametrize("profile", ["archqa", "gcp", "hapi"])
def test_every_type_is_read_and_searched_over_the_server(
    empty_store: Store, tmp_path: Path, profile: str
) -> None:
    load(empty_store, write_ndjson(tmp_path / "all.ndjson", resource_of_every_type()))
    service = FhirService(empty_store.as_profile(profile), BASE)
    for resource_type in sorted(R4_RESOURCE_TYPES):
        page = service.get(resource_type).json()
        (entry,) = page["entry"]
        url = f"{resource_type}/{entry['resource']['id']}"
        assert service.get(url).json() == entry["resource"]
        assert service.get(f"{resource_type}?_summary=true").status == 200


def test_references_of_every_form_are_loaded_and_found_or_counted(
    empty_store: Store, tmp_path: Path
) -> None:
    people = [patient("p1"), patient(LONGEST_ID)]
    resources = [*people, *observations_with_every_reference()]
    report = load(empty_store, write_ndjson(tmp_path / "r.ndjson", resources))
    assert (report.added, report.bad) == (len(resources), 0)
    found = ids_of(empty_store.search("Observation?patient=p1").resources)
    assert found == ["r0", "r2", "r3", "r4", "r9"]
    assert ids_of(
        empty_store.search(f"Observation?patient={LONGEST_ID}").resources
    ) == ["r1"]
    assert report.unresolved == 2
    assert report.conditional == 0


def write_synthea(folder: Path, patients: int) -> None:
    for number in range(patients):
        write_json(folder / f"Ann{number}_Stone.json", synthea_patient(number))
    write_json(folder / "hospitalInformation1.json", synthea_hospitals())
    write_json(
        folder / "practitionerInformation1.json", synthea_practitioners(patients)
    )


def test_bundles_of_synthea_are_loaded_whole_with_their_references(
    empty_store: Store, tmp_path: Path
) -> None:
    write_synthea(tmp_path / "fhir", 5)
    report = load(empty_store, tmp_path / "fhir")
    assert (report.added, report.bad, report.bundles) == (21, 0, 7)
    assert (report.unresolved, report.conditional, report.remarks) == (0, 0, ())
    (visit,) = empty_store.search("Encounter?participant=doctor3").resources
    assert (
        visit["subject"]["reference"] == "Patient/00000003-aaaa-4bbb-8ccc-000000000001"
    )
    assert empty_store.search("Encounter?service-provider=Organization/h1").total == 5
    person = visit["subject"]["reference"]
    assert empty_store.search(f"Observation?patient={person}").total == 1
    page = empty_store.search(
        f"Encounter?_id={visit['id']}&_include=Encounter:participant"
    )
    assert ids_of(page.included) == ["doctor3"]


def test_what_is_named_by_condition_may_be_loaded_later(
    empty_store: Store, tmp_path: Path
) -> None:
    path = write_json(tmp_path / "patient.json", synthea_patient(0))
    report = load(empty_store, path)
    assert report.conditional == 2
    assert (
        "1 conditional references to Practitioner: no resource of the record fits"
        in (report.remarks)
    )
    assert empty_store.search("Encounter?participant=doctor0").total == 0
    load(empty_store, write_json(tmp_path / "doctors.json", synthea_practitioners(1)))
    assert empty_store.search("Encounter?participant=doctor0").total == 1
    report = load(
        empty_store, write_json(tmp_path / "hospitals.json", synthea_hospitals())
    )
    assert report.conditional == 0


def test_a_patient_named_by_condition_has_the_record(
    empty_store: Store, tmp_path: Path
) -> None:
    subject = {"reference": "Patient?identifier=http://example.org/mrn|MRN-p1"}
    resources = [
        observation("o1", "x", when="2130-01-01", subject=subject),
        patient("p1"),
    ]
    load(empty_store, write_ndjson(tmp_path / "a.ndjson", resources))
    assert empty_store.search("Observation?patient=p1&code=GLU&date=2130").total == 1
    assert empty_store.counts("p1") == {"Observation": 1, "Patient": 1}
    assert len(list(empty_store.everything("p1"))) == 2


@pytest.mark.parametrize(
    ("condition", "reason"),
    [
        (f"identifier={NPI}|1", "several resources fit"),
        (f"identifier={NPI}|2", "no resource of the record fits"),
        ("identifier=other|1", "no resource of the record fits"),
        ("name=stone", "they name no identifier to look for"),
        ("identifier=%ff", "they name no identifier to look for"),
        ("identifier=1,2", "they name no identifier to look for"),
        (f"identifier={NPI}|1&active=true", "they name no identifier to look for"),
    ],
)
def test_a_condition_that_does_not_fit_one_resource_is_reported_without_its_text(
    empty_store: Store, tmp_path: Path, condition: str, reason: str
) -> None:
    identifier = [{"system": NPI, "value": "1"}]
    resources: list[dict[str, Any]] = [
        {"resourceType": "Practitioner", "id": name, "identifier": identifier}
        for name in ("a", "b")
    ]
    performer = [{"reference": f"Practitioner?{condition}"}]
    resources.append(observation("o1", "p1", performer=performer))
    report = load(empty_store, write_ndjson(tmp_path / "a.ndjson", resources))
    assert report.conditional == 1
    assert report.remarks == (f"1 conditional references to Practitioner: {reason}",)


def test_a_changed_resource_leaves_no_condition_behind(
    empty_store: Store, tmp_path: Path
) -> None:
    performer = [{"reference": f"Practitioner?identifier={NPI}|1"}]
    load(
        empty_store,
        write_ndjson(
            tmp_path / "a.ndjson", [observation("o1", "p", performer=performer)]
        ),
    )
    changed = write_ndjson(tmp_path / "b.ndjson", [observation("o1", "p")])
    assert load(empty_store, changed).conditional == 0


def test_references_within_a_bundle_are_stored_as_a_server_does_and_nothing_else_changes(
    empty_store: Store, tmp_path: Path
) -> None:
    inner = (
        '{"resourceType": "Observation", "id": "o1", "valueQuantity": {"value": 5.10},\n'
        ' "subject": {"reference" :  "urn:uuid:aa"}, "derivedFrom": [{"reference": "urn:uuid:no"}],\n'
        ' "note": [{"text": "\\"reference\\": \\"urn:uuid:aa\\""}]}'
    )
    people = '{"fullUrl": "urn:uuid:aa", "resource": {"resourceType": "Patient", "id": "p1"}}'
    text = f'{{"resourceType": "Bundle", "entry": [{people}, {{"resource": {inner}}}]}}'
    (tmp_path / "b.json").write_text(text)
    report = load(empty_store, tmp_path / "b.json")
    expected = inner.replace('"urn:uuid:aa"}', '"Patient/p1"}')
    assert empty_store.text("Observation", "o1") == expected
    assert report.unresolved == 1


def test_entries_without_a_resource_are_counted_by_what_they_ask(
    empty_store: Store, tmp_path: Path
) -> None:
    entries = [
        {"resource": patient("p1")},
        {"request": {"method": "DELETE", "url": "Patient/p1"}},
        {"request": {"method": "GET", "url": "Patient/p1"}},
        {"request": {"method": "GET", "url": "Patient"}},
        {"response": {"status": "200"}},
        {},
        {"fullUrl": "http://example.org/Patient/p9"},
    ]
    path = write_json(
        tmp_path / "b.json",
        {"resourceType": "Bundle", "type": "batch", "entry": entries},
    )
    report = load(empty_store, path)
    assert (report.added, report.without_resource, report.bad) == (1, 5, 1)
    kinds = "1 DELETE, 2 GET, 1 response, 1 without a request"
    assert report.remarks == (f"{path}: 5 entries hold no resource to load ({kinds}).",)
    assert report.mistakes == (f"{path}: entry 6: is no object with a resource.",)


def test_what_is_to_be_created_without_an_id_gets_the_same_at_each_load(
    empty_store: Store, tmp_path: Path
) -> None:
    resource = {"resourceType": "Patient", "name": [{"family": "Stone"}]}
    request = {"method": "POST", "url": "Patient"}
    entries = [{"resource": resource, "request": request}, {"resource": resource}]
    path = write_json(tmp_path / "b.json", {"resourceType": "Bundle", "entry": entries})
    report = load(empty_store, path)
    assert (report.added, report.bad) == (1, 1)
    assert "entry 2: the Patient has no id" in report.mistakes[0]
    assert load(empty_store, path).unchanged == 1


def test_a_bundle_in_a_bundle_is_one_resource(
    empty_store: Store, tmp_path: Path
) -> None:
    inner = {**collection([patient("hidden")]), "id": "inner"}
    path = write_json(tmp_path / "b.json", collection([inner, patient("p1")]))
    assert load(empty_store, path).added == 2
    assert empty_store.get("Bundle", "inner") == inner
    assert empty_store.get("Patient", "hidden") is None


def test_versions_of_a_resource_in_several_files_are_named(
    empty_store: Store, tmp_path: Path
) -> None:
    folder = tmp_path / "data"
    write_json(
        folder / "a.json",
        collection([patient("p1", "Old"), patient("p2"), patient("p3")]),
    )
    write_json(folder / "b.json", patient("p1", "New"))
    write_json(folder / "c.json", patient("p2"))
    report = load(empty_store, folder)
    assert (report.added, report.replaced, report.unchanged, report.conflicting) == (
        3,
        1,
        1,
        1,
    )
    several = (
        "1 resources are in the files in several versions; the last of each is stored"
    )
    assert report.remarks == (f"{several}: Patient/p1",)
    stored = empty_store.get("Patient", "p1")
    assert stored is not None
    assert stored["name"][0]["family"] == "New"
    again = load(empty_store, folder / "b.json")
    assert (again.unchanged, again.conflicting) == (1, 0)


@pytest.mark.parametrize(
    "name", ["a.ndjson", "a.ndjson.gz", "a.jsonl", "a.json", "a.json.gz"]
)
@pytest.mark.parametrize("mark", [b"", b"\xef\xbb\xbf"])
@pytest.mark.parametrize("line_end", [b"\n", b"\r\n"])
def test_marks_line_ends_and_gzip_change_nothing(
    empty_store: Store, tmp_path: Path, name: str, mark: bytes, line_end: bytes
) -> None:
    lines = [json.dumps(resource, ensure_ascii=False).encode() for resource in people()]
    content = mark + line_end.join(lines) + line_end
    path = tmp_path / name
    path.write_bytes(gzip.compress(content) if name.endswith(".gz") else content)
    report = load(empty_store, path)
    assert (report.added, report.bad) == (3, 0)
    assert empty_store.text("Patient", "p1") == lines[0].decode()


def people() -> list[dict[str, Any]]:
    return [patient("p1", "Müller"), patient("p2"), observation("o1", "p1")]


def test_lines_of_bundles_are_taken_apart_line_by_line(
    empty_store: Store, tmp_path: Path
) -> None:
    lines = [
        collection([patient("p1")]),
        transaction([observation("o1", "p1"), patient("p2")]),
    ]
    report = load(empty_store, write_ndjson(tmp_path / "a.ndjson", lines))
    assert (report.added, report.bundles, report.bad) == (3, 2, 0)


def test_files_that_are_no_fhir_are_skipped_by_name(
    empty_store: Store, tmp_path: Path
) -> None:
    write_json(
        tmp_path / "package.json", {"name": "hl7.fhir.r4.examples", "version": "4.0.1"}
    )
    write_json(tmp_path / "list.json", [1, 2])
    write_json(tmp_path / "Patient-p1.json", patient("p1"))
    report = load(empty_store, tmp_path)
    assert (report.added, report.bad) == (1, 0)
    names = [Path(path).name for path in report.skipped]
    assert names == ["list.json", "package.json"]


# Whole sets, from folders that the environment names.


def folder_of(variable: str) -> Path:
    folder = os.environ.get(variable)
    if not folder:
        pytest.skip(
            f"{variable} names no folder: {__name__} says where to get the files"
        )
    return Path(folder)


@pytest.mark.long
def test_the_official_examples_are_loaded_whole(empty_store: Store) -> None:
    folder = folder_of("ARCHQA_FHIR_EXAMPLES")
    report = load(empty_store, folder)
    assert_whole(empty_store, folder, report)
    if (
        folder / "Bundle-resources.json"
    ).exists():  # The package of npm: its one mistake is R4's.
        assert report.stored == 13_496
        (mistake,) = report.mistakes
        assert "the SearchParameter's id is not 1 to 64 letters" in mistake


@pytest.mark.long
def test_bundles_made_by_synthea_are_loaded_whole(empty_store: Store) -> None:
    folder = folder_of("ARCHQA_SYNTHEA")
    report = load(empty_store, folder)
    assert_whole(empty_store, folder, report)
    assert (report.bad, report.unresolved) == (0, 0)
    for entry in empty_store.search("Observation?_count=1000").entries:
        for reference in references_of(entry.resource):
            assert not reference.startswith("urn:uuid:")


def assert_whole(store: Store, folder: Path, report: LoadReport) -> None:
    """Every resource of the files is in the record, or among the mistakes."""
    expected: set[tuple[str, str]] = set()
    left_out = 0

    def visit(resource: dict[str, Any]) -> None:
        nonlocal left_out
        resource_id = resource.get("id", "")
        if len(resource_id) > 64:
            left_out += 1
        elif resource_id:
            expected.add((resource["resourceType"], resource_id))

    walk_bundles(folder, visit)
    assert report.bad == left_out
    assert report.stored >= len(expected)
    for resource_type, resource_id in expected:
        assert store.text(resource_type, resource_id) is not None
