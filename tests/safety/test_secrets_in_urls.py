"""A password or a key in a URL is refused in one sentence, and shown or written nowhere."""

import base64
import json
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

import archqa as library
from archqa.errors import CallerError
from archqa.fhir import FhirClient, connect
from archqa.settings import Settings
from tests.cli.test_commands import archqa
from tests.fakes.server import FakeServer
from tests.safety.raw_server import RawServer, Request, Response, json_response

CANARY = "geheim-canary"
SECRET_URLS = [
    f"https://me:{CANARY}@models.example/v1",
    f"https://{CANARY}@models.example/v1",
    f"https://models.example/v1?api_key={CANARY}",
    f"https://models.example/v1?{CANARY}",
    f"https://models.example/v1?api-version=1&code={CANARY}",
    f"https://models.example/v1#{CANARY}",
    f"https://me:{CANARY}@models.example:99999/v1",
    f"me:{CANARY}@models.example/v1",
    f"https://[{CANARY}/v1",
    f"https://models.example\\@{CANARY}/v1",
]


def all_text(folder: Path) -> str:
    texts = []
    for path in folder.rglob("*"):
        if path.is_file():
            texts.append(path.read_bytes().decode("utf-8", "replace"))
    return "\n".join(texts)


@pytest.mark.parametrize("url", SECRET_URLS)
@pytest.mark.parametrize(
    "setting", ["base_url", "agents.specialist.base_url", "record"]
)
def test_no_setting_takes_a_url_with_a_secret(
    setting: str, url: str, tmp_path: Path
) -> None:
    if setting == "record" and not url.startswith("https://"):
        pytest.skip("a path")
    result = archqa(
        *("predict", "mini", "--pipeline", "embedded", "--quiet", "--verbose"),
        *("--set", f"{setting}={url}", "--out", str(tmp_path / "run")),
    )
    assert result.returncode == 2, result.stderr
    assert CANARY not in result.stdout + result.stderr
    assert setting.rpartition(".")[2] in result.stderr
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    "words",
    [
        ["predict", "mini", "--model", "m"],
        ["predict", "mini", "--model", "m", "--dry-run"],
        ["config", "show"],
        ["doctor"],
        ["list", "models"],
        ["ask", "Why?", "--note", "-"],
    ],
    ids=" ".join,
)
def test_no_command_shows_the_secret_of_a_configured_url(
    words: list[str], tmp_path: Path
) -> None:
    for url in SECRET_URLS[:3]:
        result = archqa(*words, cwd=tmp_path, stdin="A note.", ARCHQA_BASE_URL=url)
        assert result.returncode == 2, result.stderr
        assert CANARY not in result.stdout + result.stderr
    assert CANARY not in all_text(tmp_path)


def test_the_refusal_says_where_a_secret_belongs() -> None:
    url = SECRET_URLS[0]
    model = archqa("predict", "mini", "--base-url", url)
    assert (
        "holds a user name or a password; put them into OPENAI_API_KEY" in model.stderr
    )
    record = archqa("fhir", "search", "Patient", "--record", url)
    assert record.returncode == 2
    assert "ARCHQA_FHIR_TOKEN, also as user:password" in record.stderr
    assert CANARY not in model.stderr + record.stderr


@pytest.mark.parametrize("url", SECRET_URLS[:6])
def test_no_record_command_takes_or_shows_a_url_with_a_secret(
    url: str, tmp_path: Path
) -> None:
    for words in (
        ["fhir", "get", "Patient/1"],
        ["fhir", "card"],
        ["ask", "Why?", "--patient", "1"],
        ["serve", "--port", "0"],
    ):
        result = archqa(*words, "--record", url, cwd=tmp_path)
        assert result.returncode == 2, result.stderr
        assert CANARY not in result.stdout + result.stderr
    assert not list(tmp_path.iterdir())


def test_exceptions_of_the_library_do_not_show_the_secret(tmp_path: Path) -> None:
    url = SECRET_URLS[0]
    values: list[dict[str, Any]] = [
        {"base_url": url},
        {"record": url},
        {"agents": {"specialist": {"base_url": url}}},
        {"servers": {"far": {"base_url": url}}},
    ]
    for fields in values:
        with pytest.raises(ValidationError) as invalid:
            Settings(**fields)
        assert CANARY not in str(invalid.value)
        with pytest.raises(CallerError) as refused:
            library.predict("mini", out=tmp_path / "run", **fields)
        assert CANARY not in str(refused.value)
    for open_record in (connect, FhirClient):
        with pytest.raises(CallerError) as refused:
            open_record(url)
        assert CANARY not in str(refused.value)


def test_azures_version_is_sent_with_each_request_and_written(tmp_path: Path) -> None:
    reply = '{"choices": [{"message": {"content": "{}"}, "finish_reason": "stop"}]}'
    with RawServer(lambda _: json_response(reply)) as server:
        url = f"{server.url}/openai/deployments/one?api-version=2026-01-01"
        words = ["predict", "mini", "--limit", "1", "--model", "m", "--quiet"]
        archqa(*words, "--base-url", url, "--out", str(tmp_path / "run"))
    targets = {request.target for request in server.requests}
    assert targets == {
        "/openai/deployments/one/chat/completions?api-version=2026-01-01"
    }
    settings = json.loads((tmp_path / "run" / "run.json").read_text())["settings"]
    assert settings["base_url"] == url


def test_a_users_password_for_a_fhir_server_is_sent_as_basic() -> None:
    with RawServer(
        lambda _: json_response('{"resourceType": "Bundle", "total": 0}')
    ) as server:
        search = ["fhir", "search", "Patient", "--record", f"{server.url}/fhir"]
        archqa(*search, ARCHQA_FHIR_TOKEN=f"me:{CANARY}")
        archqa(*search, ARCHQA_FHIR_TOKEN=CANARY)
    sent = [request.headers["authorization"] for request in server.requests]
    basic = base64.b64encode(f"me:{CANARY}".encode()).decode()
    assert sent == [f"Basic {basic}", f"Bearer {CANARY}"]


def test_a_run_folder_holds_no_key_and_is_resumed(tmp_path: Path) -> None:
    run = tmp_path / "run"
    with FakeServer() as server:
        words = [
            "predict",
            "mini",
            "--limit",
            "1",
            "--model",
            "m",
            "--quiet",
            "--out",
            str(run),
        ]
        for resume in ([], ["--resume"]):
            result = archqa(
                *words, *resume, "--base-url", server.base_url, OPENAI_API_KEY=CANARY
            )
            assert result.returncode == 0, result.stderr
    assert CANARY not in all_text(run)


def test_a_run_of_an_earlier_version_with_a_secret_in_its_url_does_not_show_it(
    tmp_path: Path,
) -> None:
    run = tmp_path / "run"
    assert archqa("predict", "mini", "--limit", "1", "--out", str(run)).returncode == 0
    manifest = json.loads((run / "run.json").read_text())
    manifest["settings"]["base_url"] = SECRET_URLS[2]
    manifest["settings"]["record"] = SECRET_URLS[0]
    backend = {
        "kind": "model",
        "name": "m",
        "server": f"{SECRET_URLS[0]} and {SECRET_URLS[2]}",
    }
    manifest["backends"] = {"decision": backend}
    (run / "run.json").write_text(json.dumps(manifest))
    page = tmp_path / "report.html"
    for words in (["show", str(run)], ["report", str(run), "--out", str(page)]):
        result = archqa(*words)
        assert result.returncode == 0, result.stderr
        assert CANARY not in result.stdout + result.stderr
    assert CANARY not in page.read_text()
    assert "models.example" in page.read_text()


def test_a_batch_run_with_a_url_that_is_none_is_a_mistake_of_its_file(
    tmp_path: Path,
) -> None:
    run = tmp_path / "run"
    submit = ["batch", "submit", "mini", "--limit", "1", "--model", "m", "--offline"]
    assert archqa(*submit, "--out", str(run)).returncode == 0
    manifest = json.loads((run / "run.json").read_text())
    manifest["settings"]["base_url"] = f"nonsense {CANARY}"
    (run / "run.json").write_text(json.dumps(manifest))
    result = archqa("batch", "status", str(run))
    assert result.returncode == 3, result.stderr
    assert "settings.base_url is not a URL" in result.stderr
    assert CANARY not in result.stdout + result.stderr


def test_a_run_cannot_choose_the_server_that_gets_the_records_token(
    tmp_path: Path,
) -> None:
    def answer(_: Request) -> Response:
        return json_response('{"resourceType": "Bundle", "total": 0}')

    with RawServer(answer) as server:
        tasks = tmp_path / "tasks.json"
        task = {"id": "task1_1", "instruction": "What is the MRN?", "context": ""}
        tasks.write_text(json.dumps([{**task, "sol": ["S1"], "eval_MRN": "S1"}]))
        run = tmp_path / "run"
        words = ["predict", str(tasks), "--pipeline", "do-nothing", "--out", str(run)]
        made = archqa(*words, "--record", f"{server.url}/fhir")
        assert made.returncode == 0, made.stderr
        asked = len(server.requests)
        result = archqa(
            "score", str(run), "--key", str(tasks), ARCHQA_FHIR_TOKEN=CANARY
        )
        assert result.returncode == 2, result.stderr
        assert f"--record {server.url}/fhir" in result.stderr
        assert len(server.requests) == asked
