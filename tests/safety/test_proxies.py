"""What goes through a proxy goes through the one that is said, and an odd proxy stops nothing."""

import json
from pathlib import Path

import pytest

from archqa.fhir import FhirClient
from archqa.fhir.client.smart import ClientCredentials
from tests.cli.test_commands import CommandResult, archqa
from tests.safety.raw_server import RawServer, Request, Response, json_response

FAR_RECORD = "http://record.example/fhir"
FAR_MODEL = "http://model.example/v1"
NOTE = "He was given aspirin."
BUNDLE = json.dumps({"resourceType": "Bundle", "total": 0})
PROXY_VARIABLES = ("http_proxy", "https_proxy", "all_proxy", "no_proxy")


@pytest.fixture(autouse=True)
def no_proxies(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in PROXY_VARIABLES:
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)


def ask_about_a_patient(folder: Path, record: str, **proxies: str) -> CommandResult:
    words = [
        "ask",
        "What is the last creatinine?",
        "--patient",
        "p1",
        "--record",
        record,
    ]
    return archqa(*words, "--allow-plain-http", cwd=folder, **proxies)


def ask_about_a_note(folder: Path, **proxies: str) -> CommandResult:
    words = ["ask", "Why?", "--note", "-", "--model", "m", "--base-url", FAR_MODEL]
    words += ["--allow-plain-http", "--set", "tries=1"]
    return archqa(*words, cwd=folder, stdin=NOTE, **proxies)


def is_said(result: CommandResult, proxy: RawServer) -> bool:
    return f"through the proxy 127.0.0.1:{proxy.port}" in result.stderr


@pytest.mark.parametrize("variable", ["http_proxy", "all_proxy", "ALL_PROXY"])
@pytest.mark.parametrize("scheme", ["http://", ""])
def test_the_proxy_of_a_record_is_named(
    variable: str, scheme: str, tmp_path: Path
) -> None:
    with RawServer(lambda _: json_response(BUNDLE)) as proxy:
        address = f"{scheme}127.0.0.1:{proxy.port}"
        result = ask_about_a_patient(tmp_path, FAR_RECORD, **{variable: address})
    assert proxy.requests
    assert is_said(result, proxy), result.stderr


@pytest.mark.parametrize("variable", ["http_proxy", "all_proxy", "ALL_PROXY"])
@pytest.mark.parametrize("scheme", ["http://", ""])
def test_the_proxy_of_a_model_server_is_named(
    variable: str, scheme: str, tmp_path: Path
) -> None:
    with RawServer(lambda _: Response(401)) as proxy:
        address = f"{scheme}127.0.0.1:{proxy.port}"
        result = ask_about_a_note(tmp_path, **{variable: address})
    assert proxy.requests
    assert is_said(result, proxy), result.stderr


@pytest.mark.parametrize(
    "proxy",
    [
        "socks5://me:geheim@127.0.0.1:9",
        "foo://me:geheim@127.0.0.1:9",
        "http://[::1",
        ":::",
    ],
)
@pytest.mark.parametrize("variable", ["http_proxy", "all_proxy"])
def test_a_proxy_that_cannot_be_used_stops_no_command(
    variable: str, proxy: str, tmp_path: Path
) -> None:
    with RawServer(lambda _: json_response(BUNDLE)) as server:
        result = ask_about_a_patient(
            tmp_path, f"{server.url}/fhir", **{variable: proxy}
        )
        server.answer = lambda _: json_response('{"data": [{"id": "tiny"}]}')
        words = ["list", "models", "--base-url", f"{server.url}/v1"]
        models = archqa(*words, cwd=tmp_path, **{variable: proxy})
    assert "no Bundle" in result.stderr or result.returncode in (0, 1, 3)
    assert models.stdout.split()[-1] == "tiny", models.stderr
    assert "geheim" not in result.stderr + models.stderr


def test_the_secret_for_a_token_service_on_this_machine_reaches_no_proxy(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def issue_token(_: Request) -> Response:
        return json_response('{"access_token": "t", "expires_in": 300}')

    with (
        RawServer(lambda _: json_response(BUNDLE)) as proxy,
        RawServer(issue_token) as token_service,
    ):
        monkeypatch.setenv("http_proxy", proxy.url)
        token = ClientCredentials(
            "me", "secret", token_url=f"{token_service.url}/token"
        )
        with FhirClient(FAR_RECORD, token=token, allow_plain_http=True) as client:
            client.search("Patient")
    assert [request.target for request in token_service.requests] == ["/token"]
    assert {request.target for request in proxy.requests} == {f"{FAR_RECORD}/Patient"}
