"""`archqa fhir serve`: what it takes as a write, its token for scripts, and failing early."""

import json
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from archqa.errors import ArchqaError, CallerError
from archqa.fhir import FhirClient, connect
from tests.safety.local_servers import (
    JSON_TYPE,
    OBSERVATION,
    LocalServer,
    cookie_of,
    ended,
    refused,
    started,
    ward_record,
)

pytest.importorskip("uvicorn", reason="the extra `server` is not installed")

FORM_TYPE = "application/x-www-form-urlencoded"
BATCH = b'{"resourceType": "Bundle", "type": "batch", "entry": []}'


@pytest.fixture(scope="module")
def record(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return ward_record(tmp_path_factory.mktemp("record"))


@pytest.fixture(scope="module")
def server(record: Path) -> Iterator[LocalServer]:
    with started(
        "fhir", "serve", str(record), "--port", "0", "--writes", "apply"
    ) as server:
        yield server


def post(
    server: LocalServer, target: str, content_type: str | None, body: bytes
) -> tuple[int, str]:
    headers = dict(server.bearer)
    if content_type is not None:
        headers["content-type"] = content_type
    answer = server.ask(target, headers, method="POST", body=body)
    return answer.status, answer.text


@pytest.mark.parametrize(
    "content_type",
    ["text/plain", "text/plain; x=application/fhir+json", FORM_TYPE, "multipart/form-data", None, "",
     "application/fhir+xml"],
)  # fmt: skip
def test_a_write_that_is_not_declared_as_json_is_refused(
    server: LocalServer, content_type: str | None
) -> None:
    """A browser sends the first ones from any site without asking."""
    before = server.ask("/fhir/Observation?_summary=count", server.bearer).text
    status, text = post(server, "/fhir/Observation", content_type, OBSERVATION)
    assert status == 415
    assert json.loads(text)["resourceType"] == "OperationOutcome"
    assert post(server, "/fhir", content_type, BATCH)[0] == 415
    after = server.ask("/fhir/Observation?_summary=count", server.bearer).text
    assert json.loads(after)["total"] == json.loads(before)["total"]


@pytest.mark.parametrize(
    "content_type",
    [
        JSON_TYPE,
        "application/json",
        "Application/FHIR+JSON; charset=UTF-8; fhirVersion=4.0",
    ],
)
def test_a_write_that_is_declared_as_json_is_taken(
    server: LocalServer, content_type: str
) -> None:
    assert post(server, "/fhir/Observation", content_type, OBSERVATION)[0] == 201
    assert post(server, "/fhir/", content_type, BATCH)[0] == 200


def test_a_search_by_post_is_a_form(server: LocalServer) -> None:
    assert post(server, "/fhir/Observation/_search", FORM_TYPE, b"patient=p1")[0] == 200
    assert post(server, "/fhir/Observation/_search?patient=p1", None, b"")[0] == 200
    assert (
        post(server, "/fhir/Observation/_search", "text/plain", b"patient=p1")[0] == 415
    )
    assert post(server, "/fhir/Observation/_search", JSON_TYPE, b"patient=p1")[0] == 415


def test_a_client_that_takes_only_an_address_is_answered_and_no_link_holds_the_token(
    server: LocalServer,
) -> None:
    target = f"/fhir/Observation?patient=p1&_count=2&token={server.token}"
    answer = server.ask(target)
    assert answer.status == 200
    assert server.token not in answer.text
    links = {link["relation"]: link["url"] for link in json.loads(answer.text)["link"]}
    next_target = links["next"].removeprefix(server.address)
    assert server.ask(next_target, {"cookie": cookie_of(answer)}).status == 200


def test_even_the_capabilities_need_the_token(server: LocalServer) -> None:
    assert server.ask("/fhir/metadata").status == 401
    assert server.ask("/fhir/metadata", server.bearer).status == 200


def test_replies_are_neither_guessed_framed_nor_kept(server: LocalServer) -> None:
    for headers in (server.bearer, {}):
        answer = server.ask("/fhir/Patient/p1", headers)
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert answer.headers["x-frame-options"] == "DENY"
        assert answer.headers["cross-origin-resource-policy"] == "same-origin"
        assert answer.headers["cache-control"] == "no-store"


def test_archqa_itself_presents_the_token_from_the_environment(
    server: LocalServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    base = f"{server.address}{server.path}"
    with (
        connect(base) as without_token,
        pytest.raises(ArchqaError, match="ARCHQA_FHIR_TOKEN"),
    ):
        without_token.get("Patient", "p1")
    monkeypatch.setenv("ARCHQA_FHIR_TOKEN", server.token)
    with connect(base) as client:
        assert isinstance(client, FhirClient)
        assert len(list(client.search_all("Observation?patient=p1&_count=2"))) >= 5


def test_a_record_address_with_a_token_in_it_is_refused_without_repeating_it(
    server: LocalServer,
) -> None:
    with pytest.raises(CallerError, match="ARCHQA_FHIR_TOKEN") as refusal:
        connect(server.printed_url)
    assert server.token not in str(refusal.value)


@pytest.mark.parametrize("how", ["--token", "ARCHQA_FHIR_TOKEN"])
def test_a_token_of_a_script_is_used_and_not_printed(record: Path, how: str) -> None:
    arguments = ["fhir", "serve", str(record), "--port", "0"]
    environment = {}
    if how == "--token":
        arguments += ["--token", "script+secret/1=="]
    else:
        environment["ARCHQA_FHIR_TOKEN"] = "script+secret/1=="
    with started(*arguments, environment=environment) as server:
        assert "token" not in server.printed_url
        assert server.ask("/fhir/Patient/p1").status == 401
        bearer = {"authorization": "Bearer script+secret/1=="}
        assert server.ask("/fhir/Patient/p1", bearer).status == 200
        assert (
            server.ask("/fhir/Patient/p1?token=script%2Bsecret/1%3D%3D").status == 200
        )
        _, stdout, stderr = ended(server)
    assert "script+secret" not in stdout + stderr


@pytest.mark.parametrize("token", ["two words", "grüße", "line\nbreak"])
def test_a_token_that_no_header_can_hold_is_refused(record: Path, token: str) -> None:
    process = refused("fhir", "serve", str(record), "--port", "0", "--token", token)
    assert process.returncode == 2
    assert "token" in process.stderr
    assert token not in process.stderr


def test_a_token_and_no_token_contradict_each_other(record: Path) -> None:
    process = refused("fhir", "serve", str(record), "--token", "abc", "--no-token")
    assert process.returncode == 2
    assert "--no-token" in process.stderr


def test_links_name_the_port_that_was_free(server: LocalServer) -> None:
    bundle = json.loads(server.ask("/fhir/Observation?patient=p1", server.bearer).text)
    assert bundle["link"][0]["url"].startswith(f"{server.address}/fhir/")


def assert_never_said_to_serve(stdout: str, stderr: str) -> None:
    assert stdout == ""
    assert "serving" not in stderr
    assert "Traceback" not in stderr


def test_a_port_that_is_taken_is_said_before_anything_is_served(record: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        process = refused("fhir", "serve", str(record), "--port", port)
    assert process.returncode == 2
    assert f"Port {port} is taken" in process.stderr
    assert_never_said_to_serve(process.stdout, process.stderr)


@pytest.mark.parametrize("host", ["192.0.2.1", "a" * 70, "::zz"])
def test_an_address_of_no_interface_is_one_clear_error(record: Path, host: str) -> None:
    process = refused("fhir", "serve", str(record), "--port", "0", "--host", host)
    assert process.returncode == 2
    assert "cannot be listened on" in process.stderr
    assert_never_said_to_serve(process.stdout, process.stderr)


@pytest.mark.parametrize(
    "damage", ["absent", "cut off", "garbage", "empty", "a folder"]
)
def test_a_record_that_cannot_be_read_is_said_before_anything_is_served(
    record: Path, tmp_path: Path, damage: str
) -> None:
    path = tmp_path / "damaged.db"
    if damage == "a folder":
        path.mkdir()
    elif damage != "absent":
        content = record.read_bytes()[:8192]
        path.write_bytes(
            {"cut off": content, "garbage": b"no database" * 999, "empty": b""}[damage]
        )
    process = refused("fhir", "serve", str(path), "--port", "0")
    assert process.returncode == 3
    assert path.name in process.stderr
    assert_never_said_to_serve(process.stdout, process.stderr)


def test_an_audit_log_that_cannot_be_written_is_said_before_anything_is_served(
    record: Path, tmp_path: Path
) -> None:
    process = refused(
        "fhir", "serve", str(record), "--port", "0", "--audit", str(tmp_path)
    )
    assert process.returncode == 3
    assert "cannot be written" in process.stderr
    assert_never_said_to_serve(process.stdout, process.stderr)


def test_a_missing_extra_is_said_before_anything_is_served(
    record: Path, tmp_path: Path
) -> None:
    (tmp_path / "uvicorn.py").write_text("raise ImportError\n")
    environment = {"PYTHONPATH": str(tmp_path)}
    process = refused(
        "fhir", "serve", str(record), "--port", "0", environment=environment
    )
    assert process.returncode == 3
    assert "archqa[server]" in process.stderr
    assert_never_said_to_serve(process.stdout, process.stderr)
