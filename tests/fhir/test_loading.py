"""Loading a record: every resource is stored exactly, and a load is whole or not at all."""

import json
import sqlite3
import stat
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from archqa.errors import InputError
from archqa.fhir import FhirError, LoadProgress, Store
from archqa.fhir.index import schema
from tests.fhir.invented import (
    build_store,
    ids_of,
    observation,
    patient,
    ward_resources,
    write_ndjson,
)


def test_the_text_of_a_resource_comes_back_exactly(
    empty_store: Store, tmp_path: Path
) -> None:
    text = (
        '{"id": "o1",  "resourceType":"Observation", "b": 5.10, "a": 1e3, '
        '"c": 123456789012345.000, "é": "\\u00e9\\/"}'
    )
    path = tmp_path / "one.ndjson"
    path.write_text(f"{text}\n", encoding="utf-8")
    empty_store.load([path])
    assert empty_store.text("Observation", "o1") == text


json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.text(max_size=8), inner, max_size=4)
    ),
    max_leaves=12,
)


@settings(max_examples=60, suppress_health_check=list(HealthCheck))
@given(
    contents=st.lists(
        st.dictionaries(
            st.sampled_from(
                [
                    "code",
                    "subject",
                    "effectiveDateTime",
                    "note",
                    "valueQuantity",
                    "category",
                    "identifier",
                    "component",
                    "x",
                ]
            ),
            json_values,
            max_size=6,
        ),
        min_size=1,
        max_size=6,
    )
)
def test_whatever_a_resource_holds_it_is_loaded_and_comes_back(
    contents: list[dict[str, Any]], tmp_path_factory: pytest.TempPathFactory
) -> None:
    resources = []
    for index, content in enumerate(contents):
        resources.append({"resourceType": "Observation", "id": f"o{index}", **content})
    folder = tmp_path_factory.mktemp("any")
    with Store.open(folder / "record.db", create=True) as store:
        lines = [json.dumps(resource) for resource in resources]
        (folder / "any.ndjson").write_text("\n".join(lines), encoding="utf-8")
        report = store.load([folder / "any.ndjson"])
        assert report.added + report.bad == len(resources)
        for line, resource in zip(lines, resources, strict=True):
            text = store.text("Observation", resource["id"])
            if text is None:
                assert any("surrogate" in mistake for mistake in report.mistakes)
            elif isinstance(resource.get("category"), dict):
                assert report.converted  # The shape of DSTU2: its text is written anew.
            else:
                assert text == line


@pytest.mark.parametrize("name", ["a.ndjson", "a.ndjson.gz", "a.jsonl", "a.json"])
def test_resources_a_line_are_read_whatever_the_file_is_called(
    empty_store: Store, tmp_path: Path, name: str
) -> None:
    report = empty_store.load(
        [write_ndjson(tmp_path / name, ward_resources())], strict=True
    )
    assert report.added == len(ward_resources())
    assert ids_of(empty_store.search_all("Observation")) == [
        "o1",
        "o2",
        "o3",
        "o4",
        "o5",
        "o6",
    ]


def test_a_bundle_gives_its_resources_as_they_are_written_in_it(
    empty_store: Store, tmp_path: Path
) -> None:
    inner = '{"resourceType": "Patient", "id": "p1",\n   "x": 1.50}'
    path = tmp_path / "bundle.json"
    path.write_text(
        '{"resourceType": "Bundle", "type": "collection", '
        f'"entry": [ {{"resource": {inner} }} ]}}',
        "utf-8",
    )
    assert empty_store.load([path], strict=True).added == 1
    assert empty_store.text("Patient", "p1") == inner


def test_urn_uuid_references_within_a_bundle_are_resolved(
    empty_store: Store, tmp_path: Path
) -> None:
    glucose = observation("o1", "x", subject={"reference": "urn:uuid:0b2f"})
    entries = [
        {"fullUrl": "urn:uuid:0b2f", "resource": patient("p1")},
        {"fullUrl": "urn:uuid:77aa", "resource": glucose},
    ]
    (tmp_path / "b.json").write_text(
        json.dumps({"resourceType": "Bundle", "type": "transaction", "entry": entries})
    )
    empty_store.load([tmp_path / "b.json"], strict=True)
    assert ids_of(empty_store.search("Observation?patient=p1").resources) == ["o1"]
    assert empty_store.counts("p1") == {"Observation": 1, "Patient": 1}


def test_a_resource_without_an_id_in_a_bundle_gets_that_of_its_full_url(
    empty_store: Store, tmp_path: Path
) -> None:
    entry = '{"fullUrl": "urn:uuid:aa-1", "resource": { "resourceType": "Patient"}}'
    text = f'{{"resourceType": "Bundle", "entry": [{entry}]}}'
    (tmp_path / "b.json").write_text(text)
    empty_store.load([tmp_path / "b.json"], strict=True)
    assert empty_store.get("Patient", "aa-1") == {
        "id": "aa-1",
        "resourceType": "Patient",
    }


def test_a_record_that_another_load_writes_is_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = build_store(tmp_path, [patient("p1")])
    monkeypatch.setattr(schema, "LOCK_TIMEOUT", 0.001)
    with sqlite3.connect(store.path, isolation_level=None) as writer:
        writer.execute("BEGIN EXCLUSIVE")
        with pytest.raises(InputError, match="another load"):
            store.load([write_ndjson(tmp_path / "a.ndjson", [patient("p2")])])
        with pytest.raises(InputError, match="another load"):
            store.as_profile("archqa").search("Patient")
        store.session().connection.execute("PRAGMA busy_timeout = 1")
        with pytest.raises(FhirError, match="being loaded"):
            store.search("Patient")


def test_a_folder_is_read_with_its_subfolders_and_other_files_are_skipped(
    empty_store: Store, tmp_path: Path
) -> None:
    data = tmp_path / "data"
    (data / "inner").mkdir(parents=True)
    write_ndjson(data / "a.ndjson.gz", [patient("p1")])
    (data / "inner" / "one.json").write_text(json.dumps(patient("p2"), indent=2))
    (data / "tasks.json").write_text('[{"id": "task1"}]')
    (data / "README.md").write_text("no data")
    report = empty_store.load([data])
    assert (report.added, report.bad) == (2, 0)
    assert report.skipped == (str(data / "tasks.json"),)


def test_loading_twice_changes_nothing_and_a_changed_resource_is_replaced_in_its_place(
    tmp_path: Path,
) -> None:
    store = build_store(tmp_path, ward_resources())
    again = store.load([tmp_path / "resources.ndjson"])
    assert (again.added, again.replaced, again.unchanged) == (
        0,
        0,
        len(ward_resources()),
    )
    changed = observation("o1", "p2", when="2140-01-01")
    assert store.load([write_ndjson(tmp_path / "more.ndjson", [changed])]).replaced == 1
    assert store.get("Observation", "o1") == changed
    assert ids_of(store.search("Observation?patient=p2").resources) == [
        "o1",
        "o4",
    ]
    assert "o1" not in ids_of(store.search("Observation?patient=p1").resources)
    assert store.search("Observation?date=2130-01-01").total == 0


def test_only_its_owner_may_read_a_record(tmp_path: Path) -> None:
    build_store(tmp_path, [patient("p1")])
    assert stat.S_IMODE((tmp_path / "record.db").stat().st_mode) == 0o600


def test_progress_is_reported_up_to_the_last_byte(
    empty_store: Store, tmp_path: Path
) -> None:
    told: list[LoadProgress] = []
    path = write_ndjson(
        tmp_path / "a.ndjson.gz", [patient(f"p{at}") for at in range(12_000)]
    )
    empty_store.load([path], progress=told.append)
    assert [progress.resources for progress in told] == [
        2000,
        4000,
        6000,
        8000,
        10_000,
        12_000,
        12_000,
    ]
    assert [progress.bytes_read for progress in told] == sorted(
        progress.bytes_read for progress in told
    )
    assert told[-1].bytes_read == told[-1].bytes_total == path.stat().st_size


def contents(store: Store) -> list[tuple[str, str]]:
    """Every resource of a record, in order, and the results of a few searches."""
    resources = []
    for resource_type in store.counts():
        page = store.search(f"{resource_type}?_count=5000")
        for entry in page.entries:
            resources.append((entry.id, entry.text))
    results = []
    for query in (
        "Observation?patient=p1&code=GLU&_sort=-date",
        "Patient?name=stone",
        "Observation?encounter=h1",
    ):
        for entry in store.search(query).entries:
            results.append((query, entry.id))
    return resources + results


def test_several_processes_load_the_same_as_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ward = ward_resources()
    resources = list(ward)
    for number in range(4990):
        resources.append(observation(f"x{number}", f"p{number % 3}", when="2130-01-01"))
    path = write_ndjson(tmp_path / "large.ndjson", [*resources, *ward])
    with path.open("a") as file:
        file.write("no json\n")
    loaded_alone = Store.open(tmp_path / "alone.db", create=True)
    report = loaded_alone.load([path])
    monkeypatch.setattr("archqa.fhir.index.loading.worker_count_for", lambda _: 2)
    loaded_by_two = Store.open(tmp_path / "two.db", create=True)
    assert loaded_by_two.load([path]) == report
    assert (report.added, report.bad) == (len(resources), 1)
    assert contents(loaded_by_two) == contents(loaded_alone)


def test_a_load_succeeds_although_its_processes_die(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from archqa.fhir.index import batch

    monkeypatch.setattr("archqa.fhir.index.loading.worker_count_for", lambda _: 2)
    monkeypatch.setattr(batch, "_PROGRAM", "raise SystemExit")
    store = Store.open(tmp_path / "record.db", create=True)
    assert store.load(
        [write_ndjson(tmp_path / "a.ndjson", ward_resources())], strict=True
    ).added == len(ward_resources())


def test_the_later_of_two_versions_in_a_file_is_stored(
    empty_store: Store, tmp_path: Path
) -> None:
    early, late = observation("o1", "p1"), observation("o1", "p2")
    report = empty_store.load(
        [write_ndjson(tmp_path / "a.ndjson", [early, patient("p1"), late])]
    )
    assert (report.added, report.replaced) == (2, 1)
    assert empty_store.get("Observation", "o1") == late
    assert empty_store.search("Observation?patient=p1").total == 0
