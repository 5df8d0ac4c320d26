"""A server that points elsewhere is an error: nothing is sent to where it points."""

import json
from pathlib import Path

import pytest

from archqa.errors import ModelError
from archqa.fhir import FhirClient
from archqa.fhir.client.smart import ClientCredentials
from archqa.tasks.medagentbench.session import FHIR_BASE_URL, open_gateway
from tests.cli.test_commands import archqa
from tests.safety.raw_server import (
    RawServer,
    Request,
    Response,
    json_response,
    redirect_to,
)

TOKEN = "fhir-canary"
BUNDLE = {"resourceType": "Bundle", "total": 0}


def chat_reply(_: Request) -> Response:
    return json_response(
        '{"choices": [{"message": {"content": "{}"}, "finish_reason": "stop"}]}'
    )


def predict_words(url: str, folder: Path) -> list[str]:
    words = [
        "predict",
        "mini",
        "--base-url",
        f"{url}/v1",
        "--model",
        "m",
        "--limit",
        "1",
    ]
    return [*words, "--quiet", "--jobs", "1", "--out", str(folder / "run")]


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_a_model_servers_redirect_is_an_error_that_names_both_hosts(
    status: int, tmp_path: Path
) -> None:
    with RawServer(chat_reply) as target:
        elsewhere = f"http://me:secret@localhost:{target.port}/private?key=secret"
        with RawServer(redirect_to(elsewhere, status)) as server:
            result = archqa(*predict_words(server.url, tmp_path))
    assert result.returncode == 4
    assert f"127.0.0.1:{server.port}" in result.stderr
    assert f"localhost:{target.port}" in result.stderr
    assert "redirect" in result.stderr
    assert "secret" not in result.stderr
    assert "private" not in result.stderr
    assert target.requests == []
    assert len(server.requests) == 1, "a redirect is not tried again"


def test_the_list_of_models_is_not_taken_from_where_a_redirect_points(
    tmp_path: Path,
) -> None:
    with (
        RawServer(lambda _: json_response('{"data": [{"id": "m"}]}')) as target,
        RawServer(redirect_to(target.url)) as server,
    ):
        result = archqa(
            "predict",
            "mini",
            "--base-url",
            f"{server.url}/v1",
            "--out",
            str(tmp_path / "run"),
        )
    assert result.returncode == 4
    assert f"127.0.0.1:{target.port}" in result.stderr
    assert target.requests == []
    assert not (tmp_path / "run").exists()


def test_a_batch_is_not_uploaded_to_where_a_redirect_points(tmp_path: Path) -> None:
    with RawServer(chat_reply) as target, RawServer(redirect_to(target.url)) as server:
        result = archqa(
            *(
                "batch",
                "submit",
                "mini",
                "--model",
                "m",
                "--base-url",
                f"{server.url}/v1",
            ),
            *("--limit", "1", "--out", str(tmp_path / "run")),
        )
    assert result.returncode == 4
    assert f"127.0.0.1:{target.port}" in result.stderr
    assert target.requests == []


def test_a_fhir_servers_redirect_is_an_error_that_names_both_hosts() -> None:
    with (
        RawServer(lambda _: json_response(json.dumps(BUNDLE))) as target,
        RawServer(redirect_to(f"{target.url}/private")) as server,
    ):
        result = archqa(
            *("fhir", "search", "Patient", "--record", f"{server.url}/fhir"),
            ARCHQA_FHIR_TOKEN=TOKEN,
        )
    assert result.returncode == 4
    assert f"127.0.0.1:{server.port}" in result.stderr
    assert f"127.0.0.1:{target.port}" in result.stderr
    assert "private" not in result.stderr
    assert target.requests == []
    assert len(server.requests) == 1


def test_the_secret_of_a_client_is_not_sent_to_where_a_token_service_points() -> None:
    with RawServer(chat_reply) as target, RawServer(redirect_to(target.url)) as server:
        for token_url in (None, f"{server.url}/token"):
            token = ClientCredentials("me", "secret", token_url=token_url)
            with (
                FhirClient(f"{server.url}/fhir", token=token) as client,
                pytest.raises(ModelError, match="redirect"),
            ):
                client.search("Patient")
    assert target.requests == []


def test_a_next_page_on_another_host_is_not_fetched() -> None:
    with RawServer(lambda _: json_response(json.dumps(BUNDLE))) as target:
        link = {
            "relation": "next",
            "url": f"HTTP://127.0.0.1:{target.port}/fhir?page=2",
        }
        page = json.dumps({**BUNDLE, "link": [link]})
        with RawServer(lambda _: json_response(page)) as server:
            result = archqa(
                *(
                    "fhir",
                    "search",
                    "Patient",
                    "--all",
                    "--record",
                    f"{server.url}/fhir",
                ),
                ARCHQA_FHIR_TOKEN=TOKEN,
            )
    assert result.returncode != 0
    assert "another address" in result.stderr
    assert target.requests == []
    assert len(server.requests) == 1


def test_pages_in_a_circle_end() -> None:
    with RawServer(lambda _: json_response("")) as server:
        link = {"relation": "next", "url": f"{server.url}/fhir?page=2"}
        page = json.dumps({**BUNDLE, "link": [link]})
        server.answer = lambda _: json_response(page)
        result = archqa(
            "fhir", "search", "Patient", "--all", "--record", f"{server.url}/fhir"
        )
    assert result.returncode != 0
    assert "never end" in result.stderr


def test_an_agent_cannot_make_the_record_client_fetch_another_server() -> None:
    with (
        RawServer(chat_reply) as target,
        RawServer(chat_reply) as server,
        FhirClient(f"{server.url}/fhir", token=TOKEN) as client,
    ):
        gateway = open_gateway(client)
        for beginning in ("http:", "HTTP:", ""):
            gateway.get(f"{FHIR_BASE_URL}{beginning}//127.0.0.1:{target.port}/x")
    assert target.requests == []


@pytest.mark.parametrize(
    "path", ["../x", "Patient/../../x", "%2e%2e/x", "..%5Cx", "..?a=b"]
)
def test_an_agent_cannot_leave_the_record_for_other_paths_of_its_server(
    path: str,
) -> None:
    with RawServer(chat_reply) as server, FhirClient(f"{server.url}/fhir") as client:
        response = open_gateway(client).get(f"{FHIR_BASE_URL}{path}")
    assert response.error
    assert server.requests == []


def test_an_agent_is_not_asked_on_when_the_record_redirects() -> None:
    with (
        RawServer(redirect_to("http://127.0.0.1:9/")) as server,
        FhirClient(f"{server.url}/fhir") as client,
        pytest.raises(ModelError),
    ):
        open_gateway(client).get(f"{FHIR_BASE_URL}Patient")


def test_cookies_are_not_kept(tmp_path: Path) -> None:
    cookie = ("set-cookie", "id=canary; Path=/")
    with (
        RawServer(lambda _: json_response(json.dumps(BUNDLE), cookie)) as server,
        FhirClient(f"{server.url}/fhir") as client,
    ):
        client.search("Patient")
        client.search("Patient")
    assert len(server.requests) == 2
    assert not any("cookie" in request.headers for request in server.requests)
    with RawServer(lambda _: chat_reply(_)._replace(headers=(cookie,))) as model_server:
        archqa(*predict_words(model_server.url, tmp_path))
    assert len(model_server.requests) > 1
    assert not any("cookie" in request.headers for request in model_server.requests)
