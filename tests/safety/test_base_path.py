"""No agent, MCP client, link or resource type leads a client with its token out of its base path."""

import json
from collections.abc import Iterator

import pytest

from archqa.errors import ArchqaError
from archqa.fhir import FhirClient, FhirError, WriteMode, Writer
from archqa.mcp import CallLimits, ServedRecord
from archqa.tasks.medagentbench.session import FHIR_BASE_URL, open_gateway
from tests.cli.test_commands import archqa
from tests.safety.raw_server import RawServer, Request, Response, json_response

TOKEN = "fhir-canary"
BUNDLE = json.dumps({"resourceType": "Bundle", "total": 0})

OUTSIDE = [
    "../../admin",
    "../x",
    "..",
    "Patient/../../admin",
    "%2e%2e/admin?y",
    "%2E%2E/admin",
    ".%2e/admin",
    "Patient/..%2f../admin",
    "Patient/..%2F..%2Fadmin",
    "..%5cadmin",
    "..\\admin",
    "%252e%252e/admin",
    "Patient/..%252f..%252fadmin",
    "Patient/%25252e%25252e/admin",
    "..;/admin",
    "..;x=y/admin",
    "Patient/..%00/admin",
    "..%20/admin",
    "%c0%ae%c0%ae/admin",
    "%uff0e%uff0e/admin",
    "．．/admin",
    "/..//../admin",
    "Patient\ud800/../x",
]
"""Paths that some server, or a proxy on the way, reads as one outside of the base."""


def empty_bundle(_: Request) -> Response:
    return json_response(BUNDLE)


@pytest.fixture
def server() -> Iterator[RawServer]:
    with RawServer(empty_bundle) as running:
        yield running


@pytest.fixture
def client(server: RawServer) -> Iterator[FhirClient]:
    with FhirClient(f"{server.url}/api/fhir", token=TOKEN, tries=1) as opened:
        yield opened


@pytest.mark.parametrize("path", OUTSIDE)
def test_a_search_cannot_leave_the_base(
    server: RawServer, client: FhirClient, path: str
) -> None:
    for search in (client.search, client.fetch):
        with pytest.raises(FhirError):
            search(path)
    with pytest.raises(FhirError):
        client.search(f"{path}?name=x", {"_count": "1"})
    assert [request.target for request in server.requests] == []


@pytest.mark.parametrize("path", OUTSIDE)
def test_an_agent_of_medagentbench_cannot_leave_the_base(
    server: RawServer, client: FhirClient, path: str
) -> None:
    response = open_gateway(client).get(f"{FHIR_BASE_URL}{path}")
    assert response.error
    assert server.requests == []


@pytest.mark.parametrize("path", OUTSIDE)
def test_a_client_of_the_protocol_cannot_leave_the_base(
    server: RawServer, client: FhirClient, path: str
) -> None:
    served = ServedRecord(client.base, client, CallLimits())
    for query in (path, f"{client.base}/{path}", f"{server.url}/admin"):
        with pytest.raises(ArchqaError):
            served.search(query)
    with pytest.raises(ArchqaError):
        served.read(f"Patient/{path}")
    with pytest.raises(ArchqaError):
        served.read(f"{path}/1")
    assert server.requests == []


@pytest.mark.parametrize("path", OUTSIDE)
def test_ids_are_one_part_of_a_path(
    server: RawServer, client: FhirClient, path: str
) -> None:
    assert client.get("Patient", path) is None
    with pytest.raises(FhirError):
        list(client.everything(f"1/../{path}"))
    assert server.requests == []


def test_the_first_ampersand_of_a_search_begins_its_parameters(
    server: RawServer, client: FhirClient
) -> None:
    with pytest.raises(FhirError):
        client.fetch("x&/../../admin?y")
    assert open_gateway(client).get(f"{FHIR_BASE_URL}x&/../../admin?y").error
    assert server.requests == []
    client.search("Patient&/../../admin?y")
    ServedRecord(client.base, client, CallLimits()).search("Patient&/../../admin?y")
    for request in server.requests:
        path, _, query = request.target.partition("?")
        assert path == "/api/fhir/Patient"
        assert query


@pytest.mark.parametrize("count", ["", "&_count=1000000", f"&_count={'9' * 5000}"])
def test_a_client_of_the_protocol_gets_no_larger_page_than_its_limit(
    server: RawServer, client: FhirClient, count: str
) -> None:
    served = ServedRecord(client.base, client, CallLimits(rows=20))
    served.search(f"Patient?name=x{count}")
    (request,) = server.requests
    assert request.target == "/api/fhir/Patient?name=x&_count=20"


def test_what_an_id_holds_is_quoted(server: RawServer, client: FhirClient) -> None:
    for resource_id in ("1?x=y", "1#x", "1/_history", "Ann Lee", "1&x"):
        assert client.get("Patient", resource_id) is None
    assert server.requests == []
    client.get("Patient", "a-1.b_2")
    assert [request.target for request in server.requests] == [
        "/api/fhir/Patient/a-1.b_2"
    ]


@pytest.mark.parametrize("name", ["../../admin", "Patient/../..", "", "Admin", "?x"])
def test_a_resource_type_is_one_of_fhir(
    server: RawServer, client: FhirClient, name: str
) -> None:
    resource = {"resourceType": name}
    with pytest.raises(FhirError, match="no such resource type"):
        client.create(resource)
    result = Writer(client, WriteMode.APPLY).post(name, json.dumps(resource))
    assert result.status == 422
    assert server.requests == []


def test_links_are_followed_below_the_base_alone(server: RawServer) -> None:
    outside = [
        f"{server.url}/admin",
        f"{server.url}/api/fhirx/Patient",
        f"{server.url}/api/fhir/../admin",
        f"{server.url}/api/fhir/%2e%2e/admin",
        f"{server.url}/api/fhir/x/..;/..;/admin",
        "https://evil.example/api/fhir/Patient",
        f"http://user@127.0.0.1:{server.port}/api/fhir/Patient",
        f"{server.url}/api/fhir/Patient/\ud800",
        "http://[::1/api/fhir",
        "http://\ud800.example/api/fhir",
    ]
    links = iter(outside)

    def page(_: Request) -> Response:
        link = [{"relation": "next", "url": next(links)}]
        return json_response(json.dumps({"resourceType": "Bundle", "link": link}))

    server.answer = page
    with FhirClient(f"{server.url}/api/fhir", token=TOKEN, tries=1) as client:
        for _ in outside:
            with pytest.raises(FhirError):
                list(client.search_all("Patient"))
    assert len(server.requests) == len(outside)
    assert {request.target for request in server.requests} == {"/api/fhir/Patient"}


def test_links_of_common_servers_are_followed(server: RawServer) -> None:
    links = [
        f"{server.url}/api/fhir?_getpages=1a&_getpagesoffset=20&_count=20",
        f"{server.url}/api/fhir/Patient/?_page_token=Cjj3YokQdaXfKzz%3D..%2F",
        f"{server.url}/api/fhir/Patient/1/$everything?page=2",
        f"{server.url}/api/fhir/Patient/1/%24everything?page=3",
    ]
    waiting = list(links)

    def page(_: Request) -> Response:
        link = [{"relation": "next", "url": waiting.pop(0)}] if waiting else []
        return json_response(json.dumps({"resourceType": "Bundle", "link": link}))

    server.answer = page
    with FhirClient(f"{server.url}/api/fhir", token=TOKEN) as client:
        assert list(client.search_all("Patient")) == []
    targets = [request.target for request in server.requests]
    assert targets == ["/api/fhir/Patient", *(url[len(server.url) :] for url in links)]
    assert {request.headers["authorization"] for request in server.requests} == {
        f"Bearer {TOKEN}"
    }


def test_the_command_says_in_one_sentence_that_nothing_was_sent(
    server: RawServer,
) -> None:
    result = archqa(
        "fhir", "search", "../../admin?x=y", "--record", f"{server.url}/api/fhir"
    )
    assert result.returncode == 2
    assert "Nothing was sent." in result.stderr
    assert server.requests == []
