"""Loading a record: everything is kept exactly, mistakes are told by file and line, a load is whole or not at all."""

import gzip
import hashlib
import json
import random
import sqlite3
import stat
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from archqa.errors import ArchqaError, InputError
from archqa.fhir import FhirError, LoadProgress, Store
from archqa.fhir.index import schema
from tests.fhir.invented import build_store, observation, patient, ward_resources, write_ndjson


@pytest.fixture
def empty(tmp_path: Path) -> Store:
    return Store.open(tmp_path / "empty" / "record.db", create=True)


def test_the_text_of_a_resource_comes_back_exactly(empty: Store, tmp_path: Path) -> None:
    text = '{"id": "o1",  "resourceType":"Observation", "b": 5.10, "a": 1e3, "c": 123456789012345.000, "é": "\\u00e9\\/"}'
    path = tmp_path / "one.ndjson"
    path.write_text(f"{text}\n", encoding="utf-8")
    empty.load([path])
    assert empty.text("Observation", "o1") == text


json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=4)
    ),
    max_leaves=12,
)


@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
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
    resources = [
        {"resourceType": "Observation", "id": f"o{at}", **each} for at, each in enumerate(contents)
    ]
    folder = tmp_path_factory.mktemp("any")
    with Store.open(folder / "record.db", create=True) as store:
        lines = [json.dumps(resource) for resource in resources]
        (folder / "any.ndjson").write_text("\n".join(lines), encoding="utf-8")
        report = store.load([folder / "any.ndjson"])
        assert report.added + report.bad == len(resources)
        for line, resource in zip(lines, resources, strict=True):
            kept = store.text("Observation", resource["id"])
            assert kept == line or any("surrogate" in mistake for mistake in report.mistakes)


@pytest.mark.parametrize("name", ["a.ndjson", "a.ndjson.gz", "a.jsonl", "a.json"])
def test_resources_a_line_are_read_whatever_the_file_is_called(
    empty: Store, tmp_path: Path, name: str
) -> None:
    report = empty.load([write_ndjson(tmp_path / name, ward_resources())], strict=True)
    assert report.added == len(ward_resources())
    assert [resource["id"] for resource in empty.search_all("Observation")] == [
        "o1",
        "o2",
        "o3",
        "o4",
        "o5",
        "o6",
    ]


def test_a_bundle_gives_its_resources_as_they_are_written_in_it(
    empty: Store, tmp_path: Path
) -> None:
    inner = '{"resourceType": "Patient", "id": "p1",\n   "x": 1.50}'
    path = tmp_path / "bundle.json"
    path.write_text(
        f'{{"resourceType": "Bundle", "type": "collection", "entry": [ {{"resource": {inner} }} ]}}',
        "utf-8",
    )
    assert empty.load([path], strict=True).added == 1
    assert empty.text("Patient", "p1") == inner


def test_references_inside_a_bundle_by_urn_uuid_lead_to_what_they_stand_for(
    empty: Store, tmp_path: Path
) -> None:
    one = observation("o1", "x")
    one["subject"] = {"reference": "urn:uuid:0b2f"}
    entries = [
        {"fullUrl": "urn:uuid:0b2f", "resource": patient("p1")},
        {"fullUrl": "urn:uuid:77aa", "resource": one},
    ]
    (tmp_path / "b.json").write_text(
        json.dumps({"resourceType": "Bundle", "type": "transaction", "entry": entries})
    )
    empty.load([tmp_path / "b.json"], strict=True)
    assert [resource["id"] for resource in empty.search("Observation?patient=p1").resources] == [
        "o1"
    ]
    assert empty.counts("p1") == {"Observation": 1, "Patient": 1}


def test_what_has_no_id_in_a_bundle_gets_that_of_its_full_url(empty: Store, tmp_path: Path) -> None:
    text = '{"resourceType": "Bundle", "entry": [{"fullUrl": "urn:uuid:aa-1", "resource": { "resourceType": "Patient"}}]}'
    (tmp_path / "b.json").write_text(text)
    empty.load([tmp_path / "b.json"], strict=True)
    assert empty.get("Patient", "aa-1") == {"id": "aa-1", "resourceType": "Patient"}


def test_a_record_that_another_load_holds_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = build_store(tmp_path, [patient("p1")])
    monkeypatch.setattr(schema, "LOCK_TIMEOUT", 0.001)
    with sqlite3.connect(store.path, isolation_level=None) as other:
        other.execute("BEGIN EXCLUSIVE")
        with pytest.raises(InputError, match="another load"):
            store.load([write_ndjson(tmp_path / "a.ndjson", [patient("p2")])])
        with pytest.raises(InputError, match="another load"):
            store.as_profile("archqa").search("Patient")
        store.session().connection.execute("PRAGMA busy_timeout = 1")
        with pytest.raises(FhirError, match="being loaded"):
            store.search("Patient")


def test_a_folder_is_read_whole_and_what_is_no_fhir_in_it_is_skipped(
    empty: Store, tmp_path: Path
) -> None:
    data = tmp_path / "data"
    (data / "inner").mkdir(parents=True)
    write_ndjson(data / "a.ndjson.gz", [patient("p1")])
    (data / "inner" / "one.json").write_text(json.dumps(patient("p2"), indent=2))
    (data / "tasks.json").write_text('[{"id": "task1"}]')
    (data / "README.md").write_text("no data")
    report = empty.load([data])
    assert (report.added, report.bad) == (2, 0)
    assert report.skipped == (str(data / "tasks.json"),)


def test_loading_twice_changes_nothing_and_a_changed_resource_is_replaced_in_its_place(
    tmp_path: Path,
) -> None:
    store = build_store(tmp_path, ward_resources())
    again = store.load([tmp_path / "resources.ndjson"])
    assert (again.added, again.replaced, again.unchanged) == (0, 0, len(ward_resources()))
    changed = observation("o1", "p2", when="2140-01-01")
    assert store.load([write_ndjson(tmp_path / "more.ndjson", [changed])]).replaced == 1
    assert store.get("Observation", "o1") == changed
    assert [resource["id"] for resource in store.search("Observation?patient=p2").resources] == [
        "o1",
        "o4",
    ]
    assert "o1" not in [
        resource["id"] for resource in store.search("Observation?patient=p1").resources
    ]
    assert store.search("Observation?date=2130-01-01").total == 0


def test_bad_lines_are_told_by_file_and_number_and_the_others_are_loaded(
    empty: Store, tmp_path: Path
) -> None:
    path = tmp_path / "bad.ndjson"
    good = json.dumps(patient("p1"))
    lines = [
        good,
        '{"resourceType": "Patient"',
        "[]",
        '{"id": "x"}',
        '{"resourceType": "Pateint", "id": "x"}',
        '{"resourceType": "Patient"}',
        '{"resourceType": "Patient", "id": "a b"}',
        "",
        json.dumps(patient("p2")),
    ]
    path.write_text("\n".join(lines))
    report = empty.load([path])
    assert (report.added, report.bad) == (2, 6)
    assert [mistake.removeprefix(str(path)).split(":")[1] for mistake in report.mistakes] == [
        "2",
        "3",
        "4",
        "5",
        "6",
        "7",
    ]
    assert "Did you mean Patient" in report.mistakes[3]


def test_strict_tells_every_mistake_of_the_file_and_loads_nothing(tmp_path: Path) -> None:
    store = build_store(tmp_path, [patient("p1")])
    path = tmp_path / "bad.ndjson"
    path.write_text(f"{json.dumps(patient('p2'))}\nnot json\n\n[]\n")
    with pytest.raises(InputError) as caught:
        store.load([write_ndjson(tmp_path / "good.ndjson", [patient("p3")]), path], strict=True)
    assert len(caught.value.mistakes) == 2
    assert store.counts() == {"Patient": 1}


def test_checksums_beside_the_files_are_verified_before_anything_is_loaded(
    empty: Store, tmp_path: Path
) -> None:
    good = write_ndjson(tmp_path / "good.ndjson", [patient("p1")])
    bad = write_ndjson(tmp_path / "bad.ndjson", [patient("p2")])
    right = hashlib.sha256(good.read_bytes()).hexdigest()
    (tmp_path / "SHA256SUMS").write_text(f"{right}  good.ndjson\n{'0' * 64}  bad.ndjson\n")
    assert empty.load([good]).checksums == 1
    with pytest.raises(InputError, match=r"bad\.ndjson: differs"):
        empty.load([good, bad])
    assert empty.counts() == {"Patient": 1}


def test_a_damaged_gzip_file_gives_what_is_good_and_tells_the_rest(
    empty: Store, tmp_path: Path
) -> None:
    whole = gzip.compress(
        "".join(json.dumps(patient(f"p{at}")) + "\n" for at in range(3000)).encode()
    )
    (tmp_path / "cut.ndjson.gz").write_bytes(whole[: len(whole) // 2])
    report = empty.load([tmp_path / "cut.ndjson.gz"])
    assert report.bad == 1
    assert "gzip" in report.mistakes[0]


def test_absent_files_and_other_files_are_refused_in_words(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("no database")
    (tmp_path / "void").mkdir()
    with pytest.raises(InputError, match="no such record"):
        Store.open(tmp_path / "absent.db")
    with pytest.raises(InputError, match="is no record"):
        Store.open(tmp_path / "notes.txt")
    store = Store.open(tmp_path / "record.db", create=True)
    for path, words in (
        (tmp_path / "absent.ndjson", "no such file"),
        (tmp_path / "void", "holds no FHIR"),
    ):
        with pytest.raises(InputError, match=words):
            store.load([path])


def test_a_record_made_with_other_parameters_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    build_store(tmp_path, [patient("p1")]).close()
    monkeypatch.setattr("archqa.fhir.index.schema.fingerprint", lambda: "another")
    with pytest.raises(InputError, match="another version"):
        Store.open(tmp_path / "record.db")


def test_only_its_owner_may_read_a_record(tmp_path: Path) -> None:
    build_store(tmp_path, [patient("p1")])
    assert stat.S_IMODE((tmp_path / "record.db").stat().st_mode) == 0o600


def test_progress_is_told_and_ends_at_the_last_byte(empty: Store, tmp_path: Path) -> None:
    told: list[LoadProgress] = []
    path = write_ndjson(tmp_path / "a.ndjson.gz", [patient(f"p{at}") for at in range(12_000)])
    empty.load([path], progress=told.append)
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
    """Every resource of a record, in order, and what a few searches find."""
    found = [
        (entry.id, entry.text)
        for kind in store.counts()
        for entry in store.search(f"{kind}?_count=5000").entries
    ]
    for query in (
        "Observation?patient=p1&code=GLU&_sort=-date",
        "Patient?name=stone",
        "Observation?encounter=h1",
    ):
        found += [(query, resource.id) for resource in store.search(query).entries]
    return found


def test_several_processes_load_what_one_does(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    many = [
        *ward_resources(),
        *(observation(f"x{at}", f"p{at % 3}", when="2130-01-01") for at in range(4990)),
        *ward_resources(),
    ]
    path = write_ndjson(tmp_path / "many.ndjson", many)
    path.write_text(path.read_text() + "no json\n")
    one = Store.open(tmp_path / "one.db", create=True)
    alone = one.load([path])
    monkeypatch.setattr("archqa.fhir.index.loading.worker_count_for", lambda _: 2)
    two = Store.open(tmp_path / "two.db", create=True)
    assert two.load([path]) == alone
    assert (alone.added, alone.bad) == (len(many) - len(ward_resources()), 1)
    assert contents(two) == contents(one)


def test_a_process_that_is_killed_costs_nothing_but_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from archqa.fhir.index import workers

    monkeypatch.setattr("archqa.fhir.index.loading.worker_count_for", lambda _: 2)
    monkeypatch.setattr(workers, "_PROGRAM", "raise SystemExit")
    store = Store.open(tmp_path / "record.db", create=True)
    assert store.load(
        [write_ndjson(tmp_path / "a.ndjson", ward_resources())], strict=True
    ).added == len(ward_resources())


def test_a_resource_that_comes_twice_is_the_later_one(empty: Store, tmp_path: Path) -> None:
    early, late = observation("o1", "p1"), observation("o1", "p2")
    report = empty.load([write_ndjson(tmp_path / "a.ndjson", [early, patient("p1"), late])])
    assert (report.added, report.replaced) == (2, 1)
    assert empty.get("Observation", "o1") == late
    assert empty.search("Observation?patient=p1").total == 0


def spoil(text: bytes, chance: random.Random) -> bytes:
    """A text with something wrong in it."""
    at = chance.randrange(len(text))
    ways = [
        text[:at],
        text[:at] + bytes([chance.randrange(256)]) + text[at + 1 :],
        text[:at] + b"\xff\xfe" + text[at:],
        text.replace(b'"id"', b'"ID"'),
        text.replace(b'"Patient"', b"17", 1),
        text.replace(b'"id": "p1"', b'"id": {"a": [1]}'),
        b"[" * 5000 + text,
        text.replace(b"1932-12-29", b"NaN").replace(b'"NaN"', b"NaN"),
        text.replace(b'"p1"', b'"\\ud800"'),
        b'{"resourceType": "Bundle", "entry": [' + text[: at + 1],
        b'{"resourceType": "Bundle", "entry": {"resource": 1}}',
        b'{"resourceType": "Bundle", "entry": [1, [], {}, {"resource": [1]}, {"resource": '
        + text
        + b"}]}",
        b"9" * 5000,
        b"\x1f\x8b" + text,
    ]
    return chance.choice(ways)


@pytest.mark.parametrize("seed", range(200))
def test_no_malformed_file_does_more_than_give_clear_mistakes(
    empty: Store, tmp_path: Path, seed: int
) -> None:
    chance = random.Random(seed)
    path = tmp_path / chance.choice(["a.ndjson", "a.json", "a.ndjson.gz"])
    content = spoil(json.dumps(patient("p1")).encode(), chance)
    path.write_bytes(gzip.compress(content) if path.name.endswith(".gz") else content)
    report = empty.load([path])
    assert report.added + report.bad >= 1
    for mistake in report.mistakes:
        assert mistake.startswith(str(path))
        assert "Stone" not in mistake
        assert len(mistake) < 300
    if report.bad:
        with pytest.raises(ArchqaError):
            Store.open(tmp_path / "strict.db", create=True).load([path], strict=True)
