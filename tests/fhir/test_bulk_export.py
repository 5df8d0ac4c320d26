"""`$export` as the Bulk Data Access guide (2.0) describes it, without a network.

Source: hl7.org/fhir/uv/bulkdata/STU2/export.html.
"""

import gc
import json
import re
import stat
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from archqa.errors import CallerError
from archqa.fhir import Exports, FhirResponse, FhirService, Overlay, Store
from archqa.fhir.server import export_job
from archqa.fhir.server.application import FhirApplication
from tests.fhir.invented import build_store, numbered_observations, patient, ward_resources
from tests.fhir.serving import BASE, send_request
from tests.fhir.writes import VITAL_SIGN

ASYNC = {"prefer": "respond-async", "accept": "application/fhir+json"}
LENIENT = {**ASYNC, "prefer": "respond-async, handling=lenient"}


@pytest.fixture
def service(ward_store: Store) -> Iterator[FhirService]:
    service = FhirService(ward_store, BASE)
    yield service
    service.exports.close()


def start(service: FhirService, url: str = "$export", **headers: str) -> FhirResponse:
    return service.handle("GET", url, "", {**ASYNC, **headers})


def status_url(reply: FhirResponse) -> str:
    assert reply.status == 202, reply.body
    location = reply.headers["content-location"]
    assert location.startswith(f"{BASE}/")
    return location


def finished(service: FhirService, location: str) -> FhirResponse:
    """The status once the export is over."""
    until = time.monotonic() + 20
    reply = service.get(location)
    while reply.status == 202 and time.monotonic() < until:
        time.sleep(0.01)
        reply = service.get(location)
    return reply


def export(service: FhirService, url: str = "$export", **headers: str) -> dict[str, Any]:
    """The manifest of an export."""
    reply = finished(service, status_url(start(service, url, **headers)))
    assert reply.status == 200, reply.body
    manifest: dict[str, Any] = reply.json()
    return manifest


def content(service: FhirService, url: str, **headers: str) -> bytes:
    reply = service.handle("GET", url.removeprefix(f"{BASE}/"), "", headers)
    assert reply.status in {200, 206}, reply.body
    assert reply.file is not None
    return reply.file.path.read_bytes()[reply.file.start : reply.file.end]


def ids_by_type(service: FhirService, manifest: dict[str, Any]) -> dict[str, list[str]]:
    ids = {}
    for file in manifest["output"]:
        lines = content(service, file["url"]).splitlines()
        assert len(lines) == file["count"]
        ids[file["type"]] = [json.loads(line)["id"] for line in lines]
    return ids


def test_an_export_has_every_resource_as_it_was_loaded(
    service: FhirService, ward_store: Store
) -> None:
    manifest = export(service)
    assert list(manifest) == [
        "transactionTime",
        "request",
        "requiresAccessToken",
        "output",
        "deleted",
        "error",
    ]
    assert manifest["request"] == f"{BASE}/$export"
    assert manifest["requiresAccessToken"] is False
    assert manifest["deleted"] == manifest["error"] == []
    assert re.fullmatch(r"20\d\d-\d\d-\d\dT[\d:.]{12}\+00:00", manifest["transactionTime"])
    counts = {file["type"]: file["count"] for file in manifest["output"]}
    assert counts == ward_store.counts()
    for file in manifest["output"]:
        for line in content(service, file["url"]).decode().splitlines():
            assert line == ward_store.text(file["type"], json.loads(line)["id"])


def test_a_kick_off_that_is_not_asynchronous_or_asks_for_another_format_is_refused(
    service: FhirService,
) -> None:
    refused = service.handle("GET", "$export", "", {"accept": "application/fhir+json"})
    assert refused.status == 400
    assert "respond-async" in refused.body
    assert start(service, accept="application/fhir+xml").status == 406
    assert start(service, "$export?_outputFormat=text/csv").status == 400
    for name in ("application/fhir%2Bndjson", "application/fhir+ndjson", "ndjson",
                 "application/ndjson"):  # fmt: skip
        location = status_url(start(service, f"$export?_outputFormat={name}"))
        assert finished(service, location).status == 200
        assert service.handle("DELETE", location.removeprefix(f"{BASE}/")).status == 202


def test_every_mistake_of_a_kick_off_is_told_at_once(service: FhirService) -> None:
    reply = start(
        service,
        "$export?_type=Patient,Observatoin&_since=yesterday&_elements=id&_tpye=X&patient=p1",
    )
    assert reply.status == 400
    texts = " ".join(issue["diagnostics"] for issue in reply.json()["issue"])
    assert "Did you mean Observation" in texts
    assert "_since is no instant" in texts
    assert "_elements is not supported" in texts
    assert "Did you mean _type" in texts
    assert "patient is for" in texts
    assert len(reply.json()["issue"]) == 5


def test_what_a_lenient_request_asks_in_vain_is_in_the_error_files(service: FhirService) -> None:
    url = "$export?_type=Patient,Observatoin&_typeFilter=Patient%3Fgender%3Dmale"
    manifest = export(service, url, prefer=LENIENT["prefer"])
    assert ids_by_type(service, manifest) == {"Patient": ["p1", "p2"]}
    (file,) = manifest["error"]
    outcomes = [json.loads(line) for line in content(service, file["url"]).splitlines()]
    assert file["count"] == 2
    assert {outcome["resourceType"] for outcome in outcomes} == {"OperationOutcome"}
    assert [outcome["issue"][0]["severity"] for outcome in outcomes] == ["warning"] * 2
    assert "_typeFilter" in json.dumps(outcomes)


def test_types_since_and_patients_choose_resources(tmp_path: Path) -> None:
    old = patient("p1", meta={"lastUpdated": "2020-01-01T00:00:00Z"})
    new = patient("p2", meta={"lastUpdated": "2030-01-01T00:00:00.001Z"})
    group = {"resourceType": "Group", "id": "g1", "type": "person", "actual": True}
    group["member"] = [
        {"entity": {"reference": "Patient/p2"}},
        {"entity": {"reference": "Patient/p1"}, "inactive": True},
    ]
    others = [r for r in ward_resources() if r["resourceType"] != "Patient"]
    service = FhirService(build_store(tmp_path / "w", [old, new, *others, group]), BASE)

    def ids(url: str) -> dict[str, list[str]]:
        return ids_by_type(service, export(service, url))

    assert ids("$export?_type=Patient&_since=2030-01-01T00:00:00Z") == {"Patient": ["p2"]}
    assert ids("$export?_type=Patient&_since=2030-01-01T00:00:00.001Z") == {}
    assert ids("$export?_type=Condition,Specimen&_type=Location") == {
        "Condition": ["c1"],
        "Location": ["w1", "w2", "w3"],
        "Specimen": ["s1"],
    }
    of_patients = ids("Patient/$export")
    assert set(of_patients) == {
        "Condition", "Encounter", "MedicationRequest", "Observation", "Patient", "Specimen"
    }  # fmt: skip
    assert of_patients["Observation"] == ["o1", "o2", "o3", "o4", "o5", "o6"]
    assert ids("Group/g1/$export") == {
        "Encounter": ["h3"],
        "MedicationRequest": ["r3"],
        "Observation": ["o4"],
        "Patient": ["p2"],
    }
    assert start(service, "Group/absent/$export").status == 404


def test_a_post_of_parameters_names_patients(service: FhirService) -> None:
    body = {
        "resourceType": "Parameters",
        "parameter": [
            {"name": "patient", "valueReference": {"reference": "Patient/p2"}},
            {"name": "_type", "valueString": "Observation,Patient"},
        ],
    }
    reply = service.handle("POST", "Patient/$export", json.dumps(body), ASYNC)
    manifest = finished(service, status_url(reply)).json()
    assert ids_by_type(service, manifest) == {"Observation": ["o4"], "Patient": ["p2"]}
    for bad in (
        "{",
        "[]",
        '{"resourceType": "Patient"}',
        '{"resourceType": "Parameters", "parameter": [1]}',
    ):
        assert service.handle("POST", "Patient/$export", bad, ASYNC).status == 400


@pytest.fixture
def paused(monkeypatch: pytest.MonkeyPatch) -> threading.Event:
    """Exports wait at their first batch until this is set."""
    go_on = threading.Event()
    read_type = export_job.read_type

    def wait_and_read(*arguments: Any, **options: Any) -> Iterator[Any]:
        go_on.wait(20)
        yield from read_type(*arguments, **options)

    monkeypatch.setattr(export_job, "read_type", wait_and_read)
    return go_on


def test_a_running_export_says_how_far_it_is(service: FhirService, paused: threading.Event) -> None:
    location = status_url(start(service))
    until = time.monotonic() + 10
    reply = service.get(location)
    while "1 of 8" not in reply.headers["x-progress"] and time.monotonic() < until:
        reply = service.get(location)
    assert reply.status == 202
    assert reply.body == ""
    assert reply.headers["x-progress"] == "type 1 of 8: Condition"
    assert int(reply.headers["retry-after"]) >= 1
    early = service.get(f"{location}/Condition.ndjson")
    assert early.status == 404
    paused.set()
    assert finished(service, location).status == 200


def test_a_third_export_at_once_must_wait(service: FhirService, paused: threading.Event) -> None:
    first, second = status_url(start(service)), status_url(start(service))
    refused = start(service)
    assert refused.status == 429
    assert int(refused.headers["retry-after"]) > 0
    paused.set()
    assert finished(service, first).status == finished(service, second).status == 200
    status_url(start(service))


def test_the_files_of_too_many_exports_are_not_kept(
    service: FhirService, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("archqa.fhir.server.exports.MAX_KEPT", 2)
    locations = [status_url(start(service)) for _ in range(2)]
    for location in locations:
        finished(service, location)
    assert start(service).status == 429
    assert service.handle("DELETE", locations[0].removeprefix(f"{BASE}/")).status == 202
    status_url(start(service))


def test_a_cancelled_export_is_gone_with_its_files(
    service: FhirService, paused: threading.Event
) -> None:
    running = status_url(start(service)).removeprefix(f"{BASE}/")
    threading.Timer(0.2, paused.set).start()
    assert service.handle("DELETE", running).status == 202
    assert service.get(running).status == 404
    assert service.handle("DELETE", running).status == 404
    location = status_url(start(service))
    manifest = finished(service, location).json()
    url = manifest["output"][0]["url"]
    path = service.handle("GET", url.removeprefix(f"{BASE}/")).file
    assert path is not None
    assert service.handle("DELETE", location.removeprefix(f"{BASE}/")).status == 202
    assert service.get(url).status == 404
    assert not path.path.exists()


def test_finished_exports_expire_after_a_day(
    service: FhirService, monkeypatch: pytest.MonkeyPatch
) -> None:
    location = status_url(start(service))
    expires = finished(service, location).headers["expires"]
    assert expires.endswith("GMT")
    now = export_job.dates.utc_now_microseconds
    day = 24 * 60 * export_job.dates.MINUTE
    monkeypatch.setattr(export_job.dates, "utc_now_microseconds", lambda: now() + day - 10**8)
    assert service.get(location).status == 200
    monkeypatch.setattr(export_job.dates, "utc_now_microseconds", lambda: now() + day + 10**8)
    assert service.get(location).status == 404


def test_a_download_may_go_on_anywhere(service: FhirService) -> None:
    url = next(f["url"] for f in export(service)["output"] if f["type"] == "Observation")
    whole = content(service, url)
    path = url.removeprefix(f"{BASE}/")
    first = service.handle("GET", path)
    etag = first.headers["etag"]
    ndjson = {"accept": "application/fhir+ndjson"}
    for spelling in (path, path.replace("$", "%24")):
        assert service.handle("GET", spelling, "", ndjson).status == 200
    assert first.headers["accept-ranges"] == "bytes"
    assert first.headers["content-type"] == "application/fhir+ndjson"
    size = len(whole)
    for header, expected in {
        "bytes=0-": whole,
        f"bytes=7-{size + 99}": whole[7:],
        "bytes=5-9": whole[5:10],
        "bytes=-4": whole[-4:],
        f"bytes={size - 1}-": whole[-1:],
        "bytes=9-5": whole,
        "bytes=1-2,4-5": whole,
        "lines=1-2": whole,
    }.items():
        assert content(service, url, range=header) == expected, header
    part = service.handle("GET", path, "", {"range": "bytes=5-9", "if-range": etag})
    assert part.status == 206
    assert part.headers["content-range"] == f"bytes 5-9/{size}"
    assert service.handle("GET", path, "", {"range": "bytes=5-9", "if-range": '"x"'}).status == 200
    beyond = service.handle("GET", path, "", {"range": f"bytes={size}-"})
    assert beyond.status == 416
    assert beyond.headers["content-range"] == f"bytes */{size}"


def test_nothing_but_the_files_of_an_export_is_served(service: FhirService) -> None:
    location = status_url(start(service)).removeprefix(f"{BASE}/")
    finished(service, location)
    for name in ("job.json", "../lock", "..%2F..%2Fetc%2Fpasswd", "Patient", "absent.ndjson", ""):
        assert service.get(f"{location}/{name}").status in {200, 404}
        assert service.get(f"{location}/{name}").file is None
    assert service.get("$export/0123456789abcdef0123456789abcdef").status == 404
    reply = service.handle("PUT", location)
    assert reply.status == 405
    assert reply.headers["allow"] == "GET, HEAD, DELETE"
    assert service.handle("HEAD", "$export").headers["allow"] == "GET, POST"
    assert service.handle("DELETE", "$export").status == 405


def test_a_batch_cannot_start_or_fetch_exports(service: FhirService) -> None:
    manifest = export(service)
    urls = ["$export", manifest["output"][0]["url"].removeprefix(f"{BASE}/")]
    entries = [{"request": {"method": "GET", "url": url}} for url in urls]
    batch = {"resourceType": "Bundle", "type": "batch", "entry": entries}
    reply = service.handle("POST", "", json.dumps(batch))
    statuses = [entry["response"]["status"] for entry in reply.json()["entry"]]
    assert all(status.startswith("400") for status in statuses)


def test_exports_are_private_and_a_temporary_folder_goes_with_the_server(
    ward_store: Store,
) -> None:
    service = FhirService(ward_store, BASE)
    url = export(service)["output"][0]["url"]
    file = service.get(url).file
    assert file is not None
    folder = file.path.parent
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert stat.S_IMODE(folder.parent.stat().st_mode) == 0o700
    for path in folder.iterdir():
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
    service.exports.close()
    assert not folder.parent.exists()


def test_a_temporary_folder_goes_with_a_service_that_nobody_closes(ward_store: Store) -> None:
    service = FhirService(ward_store, BASE)
    file = service.get(export(service)["output"][0]["url"]).file
    assert file is not None
    del service
    gc.collect()
    assert not file.path.parent.parent.exists()


def test_exports_in_a_named_folder_outlast_the_server(
    ward_store: Store, tmp_path: Path, paused: threading.Event
) -> None:
    folder = tmp_path / "exports"
    before = FhirService(ward_store, BASE, exports=Exports(ward_store, folder))
    paused.set()
    done = status_url(start(before))
    old_manifest = finished(before, done).json()
    paused.clear()
    interrupted = status_url(start(before))
    threading.Timer(0.2, paused.set).start()
    before.exports.close()
    after = FhirService(ward_store, BASE, exports=Exports(ward_store, folder))
    assert after.get(done).json() == old_manifest
    assert ids_by_type(after, finished(after, interrupted).json())["Patient"] == ["p1", "p2"]
    after.exports.close()


def test_a_named_folder_belongs_to_one_server_and_one_record(
    ward_store: Store, empty_store: Store, tmp_path: Path
) -> None:
    folder = tmp_path / "exports"
    first = FhirService(ward_store, BASE, exports=Exports(ward_store, folder))
    done = status_url(start(first))
    assert finished(first, done).status == 200
    with pytest.raises(CallerError, match="Another server"):
        Exports(ward_store, folder)
    first.exports.close()
    other = FhirService(empty_store, BASE, exports=Exports(empty_store, folder))
    assert other.get(done).status == 404
    other.exports.close()
    folder.chmod(0o755)
    with pytest.raises(CallerError, match="chmod 700"):
        Exports(ward_store, folder)


def test_what_was_written_on_top_is_exported_and_what_comes_later_is_not(
    ward_store: Store, paused: threading.Event
) -> None:
    with Overlay.over(ward_store) as overlay:
        stored = overlay.create(VITAL_SIGN)
        service = FhirService(overlay, BASE)
        location = status_url(start(service, "$export?_type=Observation"))
        while "Observation" not in service.get(location).headers.get("x-progress", ""):
            time.sleep(0.01)
        overlay.create(VITAL_SIGN)
        paused.set()
        ids = ids_by_type(service, finished(service, location).json())["Observation"]
        assert ids == ["o1", "o2", "o3", "o4", "o5", "o6", stored["id"]]
        service.exports.close()


def test_an_export_of_a_record_that_is_loaded_into_meanwhile_fails(
    ward_store: Store, tmp_path: Path, paused: threading.Event
) -> None:
    service = FhirService(ward_store, BASE)
    location = status_url(start(service))
    while "Condition" not in service.get(location).headers.get("x-progress", ""):
        time.sleep(0.01)
    (tmp_path / "more.ndjson").write_text(json.dumps(patient("p3")) + "\n")
    with Store.open(ward_store.path) as other:
        other.load([tmp_path / "more.ndjson"])
    paused.set()
    failed = finished(service, location)
    assert failed.status == 500
    assert "Start the export again" in failed.body
    service.exports.close()


def test_a_failure_shows_no_path_and_no_text(
    service: FhirService, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(*_: Any, **__: Any) -> Iterator[Any]:
        raise RuntimeError("Ann Stone in /private/place")

    monkeypatch.setattr(export_job, "read_type", fail)
    failed = finished(service, status_url(start(service)))
    assert failed.status == 500
    assert "Stone" not in failed.body + caplog.text
    assert "private" not in failed.body + caplog.text


def test_an_export_is_not_under_the_limits_of_the_request_that_started_it(tmp_path: Path) -> None:
    """A request may take 20,000 resources and 30 seconds: an export takes what it takes."""
    resources = [patient("p1"), *numbered_observations(1500)]
    service = FhirService(build_store(tmp_path / "many", resources), BASE)
    from archqa.fhir.request_budget import RequestBudget, RequestLimits, use_budget

    budget = RequestBudget(RequestLimits(resources=10))
    with use_budget(budget):
        location = status_url(start(service))
    budget.cancel()
    manifest = finished(service, location).json()
    assert {file["type"]: file["count"] for file in manifest["output"]}["Observation"] == 1500
    service.exports.close()


@pytest.mark.parametrize("profile", ["archqa", "gcp", "hapi"])
def test_the_capabilities_declare_exports_in_every_profile(ward_store: Store, profile: str) -> None:
    service = FhirService(ward_store.as_profile(profile), BASE)
    statement = service.get("metadata").json()
    rest = statement["rest"][0]
    operations = list(rest["operation"])
    for resource in rest["resource"]:
        operations += resource["operation"]
    definitions = {operation["definition"].rpartition("/")[2] for operation in operations}
    assert {"export", "patient-export", "group-export"} <= definitions
    assert "bulkdata" in statement["instantiates"][0]
    assert export(service)["output"]
    service.exports.close()


async def test_the_token_is_needed_for_exports_too(ward_store: Store) -> None:
    service = FhirService(ward_store, BASE, needs_token=True)
    manifest = export(service)
    assert manifest["requiresAccessToken"] is True
    application = FhirApplication(service, token="right")
    for path in ("$export", "$export/abc", manifest["output"][0]["url"].split("/fhir/")[1]):
        assert (await send_request(application, "GET", f"/fhir/{path}"))[0] == 401
    assert (await send_request(application, "DELETE", "/fhir/$export/abc"))[0] == 401
    service.exports.close()
