"""Plain http to another machine needs leave, is refused before anything is written, and no proxy
hears what goes to this machine or inside https."""

from pathlib import Path

import pytest

import archqa as library
from archqa.errors import CallerError
from archqa.fhir import FhirClient, connect
from archqa.fhir.client.smart import ClientCredentials
from tests.cli.test_commands import archqa
from tests.fakes.server import FakeServer
from tests.safety.raw_server import RawServer, Response, json_response

FAR_MODEL = "http://models.example/v1"
FAR_RECORD = "http://record.example/fhir"
BUNDLE = '{"resourceType": "Bundle", "total": 7}'
PROXIES = (
    "http_proxy",
    "https_proxy",
    "no_proxy",
    "HTTP_PROXY",
    "HTTPS_PROXY",
    "NO_PROXY",
)


@pytest.fixture(autouse=True)
def _no_proxies(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in PROXIES:
        monkeypatch.delenv(name, raising=False)


TO_A_MODEL = [
    ["predict", "mini", "--model", "m", "--quiet"],
    ["predict", "mini", "--json"],
    ["ablate", "mini", "--model", "m", "--quiet"],
    ["batch", "submit", "mini", "--model", "m"],
    ["ask", "Why?", "--note", "note.txt", "--model", "m"],
    ["serve", "--model", "m", "--port", "0"],
]


@pytest.mark.parametrize("command", TO_A_MODEL, ids=lambda words: words[0])
def test_a_far_model_server_without_https_is_refused_before_anything_is_written(
    command: list[str], tmp_path: Path
) -> None:
    (tmp_path / "note.txt").write_text("He was given aspirin.")
    result = archqa(
        *command, "--base-url", FAR_MODEL, cwd=tmp_path, XDG_CACHE_HOME=str(tmp_path)
    )
    assert result.returncode == 2, result.stderr
    assert "Plain http to http://models.example is refused" in result.stderr
    assert "--allow-plain-http" in result.stderr
    written = {path.name for path in tmp_path.iterdir()} - {"note.txt"}
    assert written <= {"Microsoft"}, "which onnxruntime makes when it is imported"


def test_a_far_server_of_one_agent_is_refused_as_well(tmp_path: Path) -> None:
    words = [
        "predict",
        "mini",
        "--model",
        "m",
        "--base-url",
        "http://127.0.0.1:9/v1",
        "--quiet",
    ]
    far = ["--set", f"agents.specialist.base_url={FAR_MODEL}"]
    result = archqa(*words, *far, "--set", "pipeline=dmis", cwd=tmp_path)
    assert result.returncode == 2, result.stderr
    assert "Plain http to http://models.example is refused" in result.stderr
    assert not list(tmp_path.iterdir())


TO_A_RECORD = [
    ["fhir", "search", "Patient"],
    ["fhir", "get", "Patient/1"],
    ["fhir", "card"],
    ["fhir", "lookup", "pulse"],
    ["ask", "What was the last creatinine?", "--patient", "1"],
    ["serve", "--port", "0"],
]


@pytest.mark.parametrize("command", TO_A_RECORD, ids=" ".join)
def test_a_far_record_without_https_is_refused(
    command: list[str], tmp_path: Path
) -> None:
    result = archqa(*command, "--record", FAR_RECORD, cwd=tmp_path)
    assert result.returncode == 2, result.stderr
    assert "Plain http to http://record.example is refused" in result.stderr
    assert not list(tmp_path.iterdir())


def test_from_python_it_is_refused_too(tmp_path: Path) -> None:
    with pytest.raises(CallerError, match="Plain http"):
        library.predict("mini", model="m", base_url=FAR_MODEL, out=tmp_path / "run")
    for open_record in (connect, FhirClient):
        with pytest.raises(CallerError, match="Plain http"):
            open_record(FAR_RECORD)
        open_record(FAR_RECORD, allow_plain_http=True).close()
    assert not (tmp_path / "run").exists()


def test_the_secret_of_a_client_does_not_travel_in_plain_http() -> None:
    reply = '{"token_endpoint": "http://tokens.example/token"}'
    with RawServer(lambda _: json_response(reply)) as server:
        client = FhirClient(
            f"{server.url}/fhir", token=ClientCredentials("me", "secret")
        )
        with (
            client,
            pytest.raises(CallerError, match=r"Plain http to http://tokens\.example"),
        ):
            client.search("Patient")


def test_leave_is_given_by_option_variable_or_configuration(tmp_path: Path) -> None:
    """The far server is reached through a proxy on this machine."""
    configured = tmp_path / "settings.toml"
    configured.write_text("allow_plain_http = true\n")
    search = ["fhir", "search", "Patient", "--record", FAR_RECORD]
    with RawServer(lambda _: json_response(BUNDLE)) as proxy:
        environment = {"http_proxy": proxy.url, "ARCHQA_FHIR_TOKEN": "t"}
        for words, leave in (
            (["--allow-plain-http"], {}),
            ([], {"ARCHQA_ALLOW_PLAIN_HTTP": "1"}),
        ):
            result = archqa(*search, *words, **environment, **leave)
            assert result.returncode == 0, result.stderr
            assert "7 in all" in result.stderr
    assert {request.target for request in proxy.requests} == {f"{FAR_RECORD}/Patient"}
    ask = ["ask", "Why?", "--note", "-", "--model", "m", "--base-url", FAR_MODEL]
    with RawServer(lambda _: Response(401)) as proxy:
        for words in (["--allow-plain-http"], ["--config", str(configured)]):
            result = archqa(
                *ask, *words, stdin="He was given aspirin.", http_proxy=proxy.url
            )
            assert result.returncode == 4, result.stderr
    assert f"{FAR_MODEL}/chat/completions" in {
        request.target for request in proxy.requests
    }


def test_a_run_with_leave_is_resumed(tmp_path: Path) -> None:
    run = str(tmp_path / "run")
    words = ["predict", "mini", "--limit", "1", "--model", "m", "--quiet", "--out", run]
    with FakeServer() as server:
        near = [*words, "--base-url", server.base_url]
        assert archqa(*near, "--allow-plain-http").returncode == 0
        assert archqa(*near, "--resume").returncode == 0


def test_what_goes_to_this_machine_passes_no_proxy(tmp_path: Path) -> None:
    with RawServer(lambda _: Response(502)) as proxy, FakeServer() as server:
        environment = {
            "http_proxy": proxy.url,
            "HTTP_PROXY": proxy.url,
            "all_proxy": proxy.url,
        }
        words = [
            "predict",
            "mini",
            "--limit",
            "1",
            "--base-url",
            server.base_url,
            "--quiet",
        ]
        result = archqa(
            *words, "--model", "m", "--out", str(tmp_path / "run"), **environment
        )
        assert result.returncode == 0, result.stderr
        with RawServer(lambda _: json_response(BUNDLE)) as record:
            search = ["fhir", "search", "Patient", "--record", f"{record.url}/fhir"]
            assert archqa(*search, **environment).returncode == 0
    assert proxy.requests == []


def test_a_proxy_sees_of_https_no_more_than_the_host_and_its_password_is_not_shown(
    tmp_path: Path,
) -> None:
    with RawServer(lambda _: Response(407)) as proxy:
        address = proxy.url.replace("//", "//me:proxy-canary@")
        ask = ["ask", "Why?", "--note", "-", "--model", "m", "--set", "tries=1"]
        outputs = [
            archqa(
                *(*ask, "--base-url", "https://models.example/v1"),
                stdin="He was given aspirin.",
                https_proxy=address,
                OPENAI_API_KEY="sk-canary",
            ),
            archqa(
                *(
                    "fhir",
                    "search",
                    "Patient",
                    "--record",
                    "https://record.example/fhir",
                ),
                https_proxy=address,
                ARCHQA_FHIR_TOKEN="fhir-canary",
            ),
        ]
    assert {request.method for request in proxy.requests} == {"CONNECT"}
    targets = {request.target for request in proxy.requests}
    assert targets == {"models.example:443", "record.example:443"}
    assert not any(b"aspirin" in request.body for request in proxy.requests)
    sent = " ".join(" ".join(request.headers.values()) for request in proxy.requests)
    assert "Bearer" not in sent
    # Of a note, the engine inside archqa answers instead.
    assert [output.returncode for output in outputs] == [0, 4]
    for output in outputs:
        assert "canary" not in output.stdout + output.stderr
