"""`archqa fhir load`: an index that grows with its input, and counts of what is stored."""

import json
import sqlite3
from pathlib import Path
from typing import Any

from typer.testing import CliRunner

from archqa.cli.fhir import app
from archqa.fhir import Store, split_by_patient
from tests.fhir.invented import ids_of, observation, patient, write_ndjson

AGENT = {"who": {"reference": "Practitioner/d1"}}


def provenance(name: str, references: list[str], **more: Any) -> dict[str, Any]:
    target = [{"reference": reference} for reference in references]
    return {
        "resourceType": "Provenance",
        "id": name,
        "target": target,
        "agent": [AGENT],
        **more,
    }


def urns(number: int, start: int = 0) -> list[str]:
    return [
        f"urn:uuid:{n:08}-0000-0000-0000-000000000000"
        for n in range(start, start + number)
    ]


def row_count(path: Path) -> int:
    with sqlite3.connect(path) as connection:
        tables = ("reference", "token", "date", "string", "quantity")
        return sum(
            connection.execute(f"SELECT count(*) FROM {t}").fetchone()[0]
            for t in tables
        )


def load(tmp_path: Path, *resources: dict[str, Any]) -> Store:
    store = Store.open(tmp_path / "record.db", create=True)
    store.load([write_ndjson(tmp_path / "resources.ndjson", resources)])
    return store


def run(*arguments: object) -> Any:
    result = CliRunner().invoke(app, [str(argument) for argument in arguments])
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result


def test_dangling_references_make_as_many_rows_as_there_are_references(
    tmp_path: Path,
) -> None:
    resources = [provenance(f"pr{n}", urns(50, 50 * n)) for n in range(40)]
    load(tmp_path, *resources)
    assert row_count(tmp_path / "record.db") < 2500  # 40 x 50 x 50 rows otherwise.


def test_dangling_references_beyond_100_are_not_indexed_but_counted_and_said(
    tmp_path: Path,
) -> None:
    resources = [provenance("long", urns(5000)), provenance("short", urns(2))]
    path = write_ndjson(tmp_path / "a.ndjson", resources)
    result = run("load", path, "--into", tmp_path / "record.db")
    assert row_count(tmp_path / "record.db") < 110
    assert (
        "Provenance/long: 4900 references by urn:uuid: are not indexed" in result.stderr
    )
    assert "Provenance/short" not in result.output
    assert "4900 references by urn:uuid: are not indexed" in result.stdout
    assert "100 urn:uuid: that resources refer to are of no resource" in result.stdout
    report = json.loads(
        run("load", path, "--into", tmp_path / "b.db", "--quiet", "--json").stdout
    )
    assert (report["unindexed"], report["unresolved"]) == (4900, 100)
    assert len(report["remarks"]) == 1


def test_a_search_says_that_references_are_missing_from_the_index(
    tmp_path: Path,
) -> None:
    store = load(tmp_path, provenance("pr1", urns(200)), observation("o1", "p1"))
    page = store.search(f"Provenance?target={urns(1)[0]}")
    assert ids_of(page.resources) == ["pr1"]
    (notice,) = page.notices
    assert "matches may be missing" in notice
    assert store.search("Observation?patient=p1").notices == []


def test_the_same_dangling_reference_repeated_is_indexed_once_and_nothing_is_missing(
    tmp_path: Path,
) -> None:
    store = Store.open(tmp_path / "record.db", create=True)
    path = write_ndjson(tmp_path / "a.ndjson", [provenance("pr1", urns(1) * 5000)])
    report = store.load([path])
    assert (report.unindexed, report.unresolved) == (0, 1)


def test_references_that_their_bundle_or_a_later_load_resolves_are_all_found(
    tmp_path: Path,
) -> None:
    names = urns(150)
    entries: list[Any] = [{"resource": provenance("pr1", names)}]
    for n, name in enumerate(names):
        entries.append({"fullUrl": name, "resource": observation(f"o{n}", "p1")})
    path = tmp_path / "bundle.json"
    path.write_text(
        json.dumps({"resourceType": "Bundle", "type": "collection", "entry": entries})
    )
    store = Store.open(tmp_path / "record.db", create=True)
    report = store.load([path])
    assert (report.unindexed, report.unresolved) == (0, 0)
    assert store.search("Provenance?target=Observation/o149").total == 1
    later = names[0].removeprefix("urn:uuid:")
    store.load([write_ndjson(tmp_path / "a.ndjson", [provenance("pr2", names[:1])])])
    report = store.load(
        [write_ndjson(tmp_path / "b.ndjson", [observation(later, "p1")])]
    )
    assert ids_of(store.search(f"Provenance?target=Observation/{later}").resources) == [
        "pr2"
    ]


def test_a_resource_of_many_patients_is_found_by_each_of_them(tmp_path: Path) -> None:
    patients = [patient(f"p{n}") for n in range(30)]
    references = [f"Patient/p{n}" for n in range(30)]
    shared = provenance("shared", references, recorded="2130-01-01T00:00:00Z")
    own = provenance("own", ["Patient/p7"], recorded="2140-01-01T00:00:00Z")
    doctor = {"resourceType": "Practitioner", "id": "d1"}
    store = load(tmp_path, *patients, shared, own, doctor)
    assert row_count(tmp_path / "record.db") < 30 * 20
    for name in ("p0", "p29"):
        assert ids_of(store.search(f"Provenance?patient={name}").resources) == [
            "shared"
        ]
    assert ids_of(store.search("Provenance?patient=p7").resources) == ["shared", "own"]
    both = "Provenance?patient=p7&recorded=ge2130&agent=Practitioner/d1"
    assert ids_of(store.search(both).resources) == ["shared", "own"]
    later = "Provenance?patient=p7&recorded=ge2135"
    assert ids_of(store.search(later).resources) == ["own"]
    assert store.search("Provenance?patient=absent").total == 0
    assert ids_of(store.search("Practitioner?patient=p0").resources) == ["d1"]
    assert {"shared", "d1"} <= set(ids_of(store.everything("p0")))
    assert store.counts("p0")["Provenance"] == 1
    split_by_patient(store, 2, tmp_path / "shards")


def test_codes_of_shared_resources_are_counted_for_each_patient(tmp_path: Path) -> None:
    references = [f"Patient/p{n}" for n in range(10)]
    reason = [{"coding": [{"system": "http://x", "code": "TREAT"}]}]
    activity = {"coding": [{"system": "http://x", "code": "UPDATE"}]}
    shared = provenance("shared", references, reason=reason, activity=activity)
    own = provenance("own", ["Patient/p3"], reason=reason, activity=activity)
    store = load(tmp_path, shared, own)
    whole = {code.code: code.count for code in store.codes("Provenance")}
    assert {code.code: code.count for code in store.codes("Provenance", "p3")} == whole
    for count in store.codes("Provenance", "p4"):
        assert count.count == 1


def test_the_counts_of_a_load_say_what_is_stored(tmp_path: Path) -> None:
    early = observation("o1", "p1")
    late = observation("o1", "p2")
    lines = [early, late, late, patient("p1"), patient("p1")]
    first = write_ndjson(tmp_path / "a.ndjson", lines)
    second = write_ndjson(tmp_path / "b.ndjson", [early, patient("p1"), patient("p9")])
    record = tmp_path / "record.db"
    load = ("load", first, second, "--into", record, "--quiet", "--json")
    report = json.loads(run(*load).stdout)
    assert report["by_type"] == {"Observation": 1, "Patient": 2}
    assert report["stored"] == 3
    assert report["added"] == 3
    assert (report["replaced"], report["unchanged"]) == (2, 3)
    with Store.open(record) as store:
        assert store.counts() == report["by_type"]
    third = write_ndjson(tmp_path / "c.ndjson", [patient("p9"), patient("p10")])
    report = json.loads(
        run("load", third, "--into", record, "--quiet", "--json").stdout
    )
    assert report["by_type"] == {"Patient": 2}
    assert (report["stored"], report["added"], report["unchanged"]) == (4, 1, 1)
