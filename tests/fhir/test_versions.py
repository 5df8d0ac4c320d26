"""Versions: ETag, conditional reads, vread, and what the overlay adds to them."""

import datetime
import json
from collections.abc import Iterator
from email.utils import format_datetime, parsedate_to_datetime
from pathlib import Path
from typing import Any

import pytest

from archqa.fhir import FhirService, Overlay, Store, WriteMode, Writer
from archqa.fhir.server.application import FhirApplication
from tests.fhir.invented import build_store, observation, patient
from tests.fhir.serving import BASE
from tests.fhir.writes import VITAL_SIGN

STAMPED = observation(
    "v7", "p1", meta={"versionId": "7", "lastUpdated": "2130-05-06T07:08:09.500+00:00"}
)
"""A loaded resource that names its version and when it was stored."""


@pytest.fixture
def service(tmp_path: Path) -> FhirService:
    return FhirService(build_store(tmp_path / "store", [patient("p1"), STAMPED]), BASE)


@pytest.fixture
def applied(ward_store: Store) -> Iterator[FhirService]:
    with Overlay.over(ward_store) as overlay:
        yield FhirService(overlay, BASE, Writer(overlay, WriteMode.APPLY))


def test_a_read_tells_the_version_and_when_it_was_stored(service: FhirService) -> None:
    reply = service.get("Observation/v7")
    assert reply.headers["etag"] == 'W/"7"'
    assert reply.headers["last-modified"] == "Sat, 06 May 2130 07:08:09 GMT"
    head = service.handle("HEAD", "Observation/v7")
    assert (head.status, head.headers) == (200, reply.headers)


def test_a_resource_without_meta_has_version_1_and_its_text_stays(
    service: FhirService,
) -> None:
    reply = service.get("Patient/p1")
    assert reply.headers["etag"] == 'W/"1"'
    loaded = parsedate_to_datetime(reply.headers["last-modified"])
    assert abs(loaded - datetime.datetime.now(datetime.UTC)) < datetime.timedelta(
        minutes=5
    )
    assert reply.json() == patient("p1")


def test_a_resource_that_a_load_replaces_has_version_2(
    service: FhirService, tmp_path: Path
) -> None:
    new = tmp_path / "new.ndjson"
    new.write_text(json.dumps(patient("p1", "Rock")), encoding="utf-8")
    Store.open(service.record.path).load([new])
    assert service.get("Patient/p1").headers["etag"] == 'W/"2"'
    assert service.get("Patient/p1/_history/2").status == 200
    assert service.get("Patient/p1/_history/1").status == 404


@pytest.mark.parametrize("tag", ['W/"7"', '"7"', "7", '"x", W/"7"', "*"])
def test_a_version_that_the_client_has_is_not_sent_again(
    service: FhirService, tag: str
) -> None:
    for method in ("GET", "HEAD"):
        for url in ("Observation/v7", "Observation/v7/_history/7"):
            reply = service.handle(method, url, headers={"if-none-match": tag})
            assert (reply.status, reply.body, reply.headers["etag"]) == (
                304,
                "",
                'W/"7"',
            )


@pytest.mark.parametrize("tag", ['W/"1"', '"17"', "", '"7'])
def test_another_version_is_sent(service: FhirService, tag: str) -> None:
    later = format_datetime(
        datetime.datetime(2140, 1, 1, tzinfo=datetime.UTC), usegmt=True
    )
    headers = {"if-none-match": tag.replace('"7', '"8'), "if-modified-since": later}
    assert service.handle("GET", "Observation/v7", headers=headers).status == 200


@pytest.mark.parametrize(
    ("since", "status"),
    [
        ("Sat, 06 May 2130 07:08:09 GMT", 304),
        ("Sat, 06 May 2130 07:08:08 GMT", 200),
        ("Sun, 07 May 2130 00:00:00 GMT", 304),
        ("yesterday", 200),
        ("", 200),
    ],
)
def test_if_modified_since_compares_seconds(
    service: FhirService, since: str, status: int
) -> None:
    reply = service.handle(
        "GET", "Observation/v7", headers={"if-modified-since": since}
    )
    assert reply.status == status


def test_searches_and_errors_carry_no_version(service: FhirService) -> None:
    for url in ("Observation?patient=p1", "metadata", "Patient/absent"):
        reply = service.handle("GET", url, headers={"if-none-match": "*"})
        assert "etag" not in reply.headers
        assert reply.status != 304


@pytest.mark.parametrize(
    ("url", "status"),
    [
        ("Observation/v7/_history/7", 200),
        ("Observation/v7/_history/7?_format=json", 200),
        ("Observation/v7/_history/6", 404),
        ("Observation/absent/_history/1", 404),
        ("Foo/1/_history/1", 404),
        ("Patient/p1/Observation/_history", 404),
        ("Observation/v7/_history/7?colour=red", 400),
    ],
)
def test_versions_are_read_by_their_number(
    service: FhirService, url: str, status: int
) -> None:
    reply = service.get(url)
    assert reply.status == status
    expected = "Observation" if status == 200 else "OperationOutcome"
    assert reply.json()["resourceType"] == expected


def test_the_location_of_a_create_answers(applied: FhirService) -> None:
    created = applied.post("Observation", json.dumps(VITAL_SIGN))
    assert created.headers["etag"] == 'W/"1"'
    located = applied.get(created.headers["location"])
    assert located.json() == created.json()
    assert located.headers["last-modified"] == created.headers["last-modified"]


@pytest.mark.parametrize(
    "url", ["_history", "Patient/_history", "Patient/p1/_history", "_history/1"]
)
@pytest.mark.parametrize("method", ["GET", "HEAD"])
def test_a_history_is_not_supported(
    service: FhirService, url: str, method: str
) -> None:
    reply = service.handle(method, url)
    (issue,) = reply.json()["issue"]
    assert (reply.status, issue["code"]) == (404, "not-supported")
    assert "_history" in issue["diagnostics"]


@pytest.mark.parametrize("method", ["PUT", "DELETE", "PATCH"])
def test_there_is_no_update_and_no_deletion(applied: FhirService, method: str) -> None:
    assert applied.handle(method, "Patient/p1", json.dumps(patient("p1"))).status == 405


async def test_the_server_sends_304_without_body_and_length(
    service: FhirService,
) -> None:
    application = FhirApplication(service, on_loopback=True)
    for method in ("GET", "HEAD"):
        messages: list[Any] = []

        async def receive() -> dict[str, Any]:
            return {"type": "http.request", "body": b""}

        async def send(message: Any, messages: list[Any] = messages) -> None:
            messages.append(message)

        scope = {
            "type": "http",
            "method": method,
            "path": "/fhir/Observation/v7",
            "query_string": b"",
            "headers": [(b"host", b"localhost:8080"), (b"if-none-match", b'W/"7"')],
        }
        await application(scope, receive, send)
        start, body = messages
        assert (start["status"], body["body"]) == (304, b"")
        headers = dict(start["headers"])
        assert headers[b"etag"] == b'W/"7"'
        assert b"content-length" not in headers
