"""Whatever a FHIR server or a token service replies, the result is an answer or one sentence."""

import socket
import threading
import time
from collections.abc import Callable, Iterator

import pytest
import stamina

from archqa.errors import ArchqaError, CallerError, ServerUnavailable
from archqa.fhir import ExportServer, FhirClient, FhirError
from archqa.fhir.client.exchange import TransientFailure
from archqa.fhir.client.smart import ClientCredentials, FixedToken
from archqa.tasks.medagentbench.protocol import parse_resources
from archqa.tasks.medagentbench.session import FHIR_BASE_URL, open_gateway
from tests.cli.test_commands import archqa
from tests.safety.raw_server import RawServer, Request, Response, json_response

DEEP = 100_000
HUGE = "1" + "0" * 400
PATIENT = '{"resourceType": "Patient", "id": "1"}'


@pytest.fixture(autouse=True)
def no_pauses_between_attempts() -> Iterator[None]:
    with stamina.set_testing(True, attempts=2, cap=True):
        yield


def message_of(call: Callable[[], object]) -> str:
    """The message of a call's error of archqa; empty if it returns."""
    try:
        call()
    except (ArchqaError, TransientFailure) as error:
        return str(error)
    return ""


def nested(levels: int) -> str:
    return "[" * levels + "]" * levels


POISON = {
    "deep": nested(DEEP),
    "deep, but not for the parser": nested(900),
    "deep in a resource": f'{{"resourceType": "Bundle", "entry": [{{"resource": {{"x": {nested(400)}}}}}]}}',
    "deep in an object": '{"a":' * DEEP + "1" + "}" * DEEP,
    "a number of 400 digits": f'{{"resourceType": "Bundle", "total": {HUGE}}}',
    "a number of 5,000 digits": f'{{"resourceType": "Bundle", "total": {"9" * 5000}}}',
    "a decimal without end": '{"resourceType": "Bundle", "total": 1e999}',
    "not a number": '{"resourceType": "Bundle", "total": NaN}',
    "half a pair": '"\\ud800"',
    "no Bundle": "[[]]",
    "entries of another kind": '{"resourceType": "Bundle", "entry": {"resource": {}}}',
    "entries twice": '{"resourceType": "Bundle", "entry": 7, "entry": []}',
    "entries of no kind": '{"resourceType": "Bundle", "entry": [1, null, [], {}]}',
    "links of no kind": '{"resourceType": "Bundle", "link": [1, {"relation": "next", "url": []}]}',
    "an outcome of no kind": '{"resourceType": "Bundle", "entry": [{"resource": {"resourceType":'
    ' "OperationOutcome", "issue": [1, "x", {"diagnostics": ["\\ud800"]}]}}]}',
    "not UTF-8": "{\udcff}",
    "nothing": "",
}


@pytest.mark.parametrize("body", POISON.values(), ids=POISON)
@pytest.mark.parametrize("status", [200, 400, 500])
def test_a_reply_of_a_fhir_server_is_read_or_refused(body: str, status: int) -> None:
    content = body.encode("utf-8", "surrogateescape")

    def answer(_: Request) -> Response:
        return Response(status, (content,))

    with (
        RawServer(answer) as server,
        FhirClient(server.url, tries=1) as client,
    ):
        calls: list[Callable[[], object]] = [
            lambda: client.get("Patient", "1"),
            lambda: client.search("Patient").notices,
            lambda: [entry.resource for entry in client.search("Patient").entries],
            client.capabilities,
            client.counts,
            lambda: client.codes("Observation"),
            lambda: client.create({"resourceType": "Patient"}),
        ]
        for call in calls:
            assert len(message_of(call)) < 1000


def test_a_capability_statement_of_another_shape_is_read_or_refused() -> None:
    bodies = ['{"rest": "x"}', '{"rest": [1]}', '{"rest": [{"resource": [1, {}]}]}']
    for body in bodies:
        with (
            RawServer(lambda _, body=body: json_response(body)) as server,  # type: ignore[misc]
            FhirClient(server.url, tries=1) as client,
        ):
            assert "Traceback" not in message_of(client.counts)


@pytest.mark.parametrize(
    "charset", ["idna", "undefined", "utf-7", "punycode", "unicode_escape", "a\0b"]
)
def test_json_is_utf8_whatever_the_reply_says(charset: str) -> None:
    def answer(_: Request) -> Response:
        kind = f"application/fhir+json; charset={charset}".replace("\0", "%00")
        return Response(200, (PATIENT.encode(),), (("content-type", kind),))

    with RawServer(answer) as server, FhirClient(server.url) as client:
        assert client.get("Patient", "1") == {"resourceType": "Patient", "id": "1"}


TOKENS = {
    "a lifetime of 400 digits": f'{{"access_token": "t", "expires_in": {HUGE}}}',
    "a lifetime of 400 digits as text": f'{{"access_token": "t", "expires_in": "{HUGE}"}}',
    "a lifetime of no number": '{"access_token": "t", "expires_in": "nan"}',
    "a lifetime without end": '{"access_token": "t", "expires_in": "inf"}',
    "a lifetime below nothing": '{"access_token": "t", "expires_in": -1e300}',
    "a lifetime of another kind": '{"access_token": "t", "expires_in": [1]}',
    "half a pair": '{"access_token": "\\ud800", "expires_in": 60}',
    "two lines": '{"access_token": "a\\r\\nx-evil: 1", "expires_in": 60}',
    "a blank": '{"access_token": "a b", "expires_in": 60}',
    "no text": '{"access_token": {"a": 1}, "expires_in": 60}',
    "an empty token": '{"access_token": "", "expires_in": 60}',
    "a very long token": '{"access_token": "%s"}' % ("t" * 900_000),
    "deep": nested(DEEP),
    "a list": "[]",
}


@pytest.mark.parametrize("body", TOKENS.values(), ids=TOKENS)
def test_a_reply_of_a_token_service_is_a_token_or_one_sentence(body: str) -> None:
    def answer(request: Request) -> Response:
        if request.target.endswith("/token"):
            return json_response(body)
        return json_response('{"resourceType": "Bundle"}')

    with RawServer(answer) as server:
        access = ClientCredentials("me", "secret", token_url=f"{server.url}/token")
        with (
            FhirClient(f"{server.url}/fhir", token=access, tries=1) as client,
            pytest.raises(ServerUnavailable, match="No token could be fetched"),
        ):
            client.search("Patient")
    assert {request.target for request in server.requests} == {"/token"}


@pytest.mark.parametrize(
    "endpoint",
    ["\\ud800", "https://\\ud800.example/token", "ftp://x/token", "", "https://[::1/"],
)
def test_a_token_service_at_no_address_is_one_sentence(endpoint: str) -> None:
    def answer(_: Request) -> Response:
        return json_response(f'{{"token_endpoint": "{endpoint}"}}')

    with RawServer(answer) as server:
        access = ClientCredentials("me", "secret")
        with (
            FhirClient(server.url, token=access, tries=1) as client,
            pytest.raises(ServerUnavailable, match="No token could be fetched"),
        ):
            client.search("Patient")


@pytest.mark.parametrize("text", ["\udcff", "a\nb", "t\u00e9", "a b", "me:\ud800"])
def test_a_token_that_no_header_can_hold_is_one_sentence(text: str) -> None:
    with (
        RawServer(lambda _: json_response("{}")) as server,
        FhirClient(server.url, token=FixedToken(text), tries=1) as client,
        pytest.raises(CallerError, match="characters that no token has"),
    ):
        client.search("Patient")
    assert server.requests == []


def test_a_search_with_half_a_pair_is_one_sentence() -> None:
    with (
        RawServer(lambda _: json_response("{}")) as server,
        FhirClient(server.url, tries=1) as client,
    ):
        for query in ("Patient?name=\ud800", "Patient?\ud800=1"):
            with pytest.raises(FhirError, match="half a surrogate pair"):
                client.search(query)
        with pytest.raises(FhirError, match="half a surrogate pair"):
            client.search("Patient", {"name": "\ud800"})
    assert server.requests == []


@pytest.mark.parametrize(
    "headers",
    [
        (("content-location", "http://[/"),),
        (("content-location", "http://x\u00ff.example/"),),
        (("retry-after", "9" * 400), ("content-location", "/status")),
        (("retry-after", "Mon, 01 Jan 99999999999999999999 00:00:00 GMT"),),
    ],
)
@pytest.mark.parametrize("body", [nested(DEEP), f'{{"issue": {HUGE}}}', "\\ud800"])
@pytest.mark.parametrize("status", [202, 400, 503])
def test_a_reply_to_a_bulk_export_is_read_or_refused(
    headers: tuple[tuple[str, str], ...], body: str, status: int
) -> None:
    with RawServer(lambda _: Response(status, (body.encode(),), headers)) as server:
        export = ExportServer(server.url)
        for call in (
            lambda: export.start("$export", {}),
            lambda: export.look(f"{server.url}/status"),
        ):
            assert len(message_of(call)) < 1000
        export.close()


@pytest.mark.parametrize("next_url", ["http://\\ud800.example/", "\\ud800", "?\\udfff"])
def test_the_command_reports_a_link_that_is_none(next_url: str) -> None:
    link = f'[{{"relation": "next", "url": "{next_url}"}}]'

    def answer(_: Request) -> Response:
        return json_response(f'{{"resourceType": "Bundle", "link": {link}}}')

    with RawServer(answer) as server:
        result = archqa(
            "fhir", "search", "Patient?x=1", "--all", "--record", server.url, "--json"
        )
    assert result.returncode in {0, 2, 4}
    assert "Traceback" not in result.stderr


def drops(seconds: float) -> Iterator[bytes]:
    """A byte at a time, for ever."""
    while True:
        yield b" "
        time.sleep(seconds)


def test_a_body_of_a_byte_at_a_time_ends_with_the_timeout() -> None:
    with (
        RawServer(lambda _: Response(parts=drops(0.1))) as server,
        FhirClient(server.url, timeout=1.0, tries=1) as client,
    ):
        begin = time.monotonic()
        with pytest.raises(ServerUnavailable, match="ReadTimeout"):
            client.search("Patient")
        assert time.monotonic() - begin < 10


def test_a_token_service_of_a_byte_at_a_time_ends_with_the_timeout() -> None:
    with RawServer(lambda _: Response(parts=drops(0.1))) as server:
        access = ClientCredentials("me", "secret", token_url=f"{server.url}/token")
        with FhirClient(server.url, token=access, timeout=1.0, tries=1) as client:
            begin = time.monotonic()
            with pytest.raises(ServerUnavailable, match="ReadTimeout"):
                client.search("Patient")
            assert time.monotonic() - begin < 10


@pytest.mark.parametrize(
    "beginning", [b"HTTP/1.1 200 OK\r\nx: ", b"", b"HTTP/1.1 103 Early Hints\r\nx: "]
)
@pytest.mark.parametrize("is_export", [False, True])
def test_headers_of_a_byte_at_a_time_end_with_the_timeout(
    beginning: bytes, is_export: bool
) -> None:
    listening = socket.create_server(("127.0.0.1", 0))

    def serve() -> None:
        connection, _ = listening.accept()
        with connection:
            try:
                connection.sendall(beginning)
                while True:
                    connection.sendall(b"H")
                    time.sleep(0.1)
            except OSError:
                pass

    threading.Thread(target=serve, daemon=True).start()
    url = f"http://127.0.0.1:{listening.getsockname()[1]}"
    begin = time.monotonic()
    with listening:
        if is_export:
            export = ExportServer(url, timeout=1.0)
            with (
                pytest.raises(TransientFailure),
                export.open_file(f"{url}/1", {}, with_token=False),
            ):
                pass
            export.close()
        else:
            with (
                FhirClient(url, timeout=1.0, tries=1) as client,
                pytest.raises(ServerUnavailable),
            ):
                client.search("Patient")
    assert time.monotonic() - begin < 10


def test_a_write_that_is_stored_is_not_lost_for_a_reply_that_cannot_be_read() -> None:
    for body in (nested(DEEP), '{"id": ', f'{{"id": {HUGE}}}', "[]", '"\\ud800"'):
        with (
            RawServer(
                lambda _, body=body: Response(  # type: ignore[misc]
                    201, (body.encode(),), (("location", "Patient/7/_history/1"),)
                )
            ) as server,
            FhirClient(server.url) as client,
        ):
            stored = client.create({"resourceType": "Patient", "note": "\ud800"})
            assert stored["id"] == "7"


@pytest.mark.parametrize("body", POISON.values(), ids=POISON)
def test_a_page_that_an_agent_fetches_is_read_within_the_same_bounds(body: str) -> None:
    content = body.encode("utf-8", "surrogateescape")
    with (
        RawServer(lambda _: Response(200, (content,))) as server,
        FhirClient(server.url, tries=1) as client,
    ):
        page = open_gateway(client).get(f"{FHIR_BASE_URL}Patient").text
        resources = parse_resources(page)
    assert len(repr(resources)) < 1000
