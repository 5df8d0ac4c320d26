"""Before the first request one line says where record text goes, and `run.json` keeps it."""

import json
from pathlib import Path
from typing import Any

import pytest

import archqa
from archqa.evaluation.ablation import VARIANTS
from archqa.llm.model import TransientError
from archqa.llm.server import ModelServer
from archqa.runs.batch import upload
from archqa.settings import Settings
from tests.asking.test_asking import small_record
from tests.cli.test_commands import CommandResult
from tests.cli.test_commands import archqa as command
from tests.fakes.server import FakeServer

LAB = "https://lab.example:8443/v1"
NOTE = "He was given furosemide 40 mg daily for fluid overload. The creatinine rose to 4.1."


def lines_about_text(result: CommandResult) -> list[str]:
    return [
        line for line in result.stderr.splitlines() if "record text goes to" in line
    ]


def manifest(run: Path) -> dict[str, Any]:
    content: dict[str, Any] = json.loads((run / "run.json").read_text())
    return content


def host_of(server: FakeServer) -> str:
    return server.base_url.removeprefix("http://").removesuffix("/v1")


def predict(server_url: str, *more: str, cwd: Path, **variables: str) -> CommandResult:
    words = [
        "predict",
        "mini",
        "--limit",
        "1",
        "--base-url",
        server_url,
        "--model",
        "m",
    ]
    return command(*words, "--set", "tries=1", *more, cwd=cwd, **variables)


@pytest.fixture
def no_connection(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Every request fails before it is sent; the servers asked are kept."""
    asked: list[str] = []

    async def refuse(self: ModelServer, body: dict[str, Any]) -> None:
        asked.append(self.name)
        raise TransientError("the connection failed")

    monkeypatch.setattr(ModelServer, "chat", refuse)
    return asked


def test_a_run_names_its_server_once_and_keeps_it(tmp_path: Path) -> None:
    with FakeServer() as server:
        result = predict(server.base_url, "--out", "run", cwd=tmp_path)
        host = host_of(server)
    assert lines_about_text(result) == [
        f"archqa: record text goes to {host} on this machine"
    ]
    assert manifest(tmp_path / "run")["destinations"] == [f"{host} on this machine"]


def test_a_run_that_sends_nothing_says_nothing(tmp_path: Path) -> None:
    with FakeServer() as server:
        predict(server.base_url, "--out", "run", cwd=tmp_path)
        calls = server.count
        from_cache = predict(server.base_url, "--out", "again", cwd=tmp_path)
        resumed = predict(server.base_url, "--out", "run", "--resume", cwd=tmp_path)
        assert server.count == calls
    assert lines_about_text(from_cache) == []
    assert lines_about_text(resumed) == []


@pytest.mark.parametrize("quiet", [[], ["--quiet"], ["--json"]])
def test_a_server_elsewhere_is_named_also_to_those_who_want_it_quiet(
    quiet: list[str], tmp_path: Path, no_connection: list[str]
) -> None:
    result = predict(LAB, "--out", "run", *quiet, cwd=tmp_path)
    assert no_connection
    assert lines_about_text(result) == ["archqa: record text goes to lab.example:8443"]
    assert manifest(tmp_path / "run")["destinations"] == ["lab.example:8443"]


def test_quiet_says_nothing_of_a_server_on_this_machine(tmp_path: Path) -> None:
    with FakeServer() as server:
        result = predict(server.base_url, "--quiet", "--out", "run", cwd=tmp_path)
    assert lines_about_text(result) == []
    assert len(manifest(tmp_path / "run")["destinations"]) == 1


def test_a_proxy_is_named_without_its_password(
    tmp_path: Path, no_connection: list[str]
) -> None:
    proxy = "http://user:geheim@proxy.example:3128"
    result = predict(LAB, "--out", "run", cwd=tmp_path, https_proxy=proxy)
    assert no_connection
    place = "lab.example:8443 through the proxy proxy.example:3128"
    assert lines_about_text(result) == [f"archqa: record text goes to {place}"]
    assert manifest(tmp_path / "run")["destinations"] == [place]


def test_a_server_on_this_machine_is_asked_without_the_proxy(tmp_path: Path) -> None:
    proxy = {"http_proxy": "http://127.0.0.1:9", "no_proxy": ""}
    with FakeServer() as server:
        result = predict(server.base_url, "--out", "run", cwd=tmp_path, **proxy)
        host = host_of(server)
    assert result.returncode == 0, result.stderr
    assert lines_about_text(result) == [
        f"archqa: record text goes to {host} on this machine"
    ]


def test_all_servers_of_a_run_are_named(
    tmp_path: Path, no_connection: list[str]
) -> None:
    other = "agents.specialist.base_url=https://other.example/v1"
    third = "agents.general_expert.base_url=https://third.example/v1"
    predict(LAB, "--set", other, "--set", third, "--out", "run", cwd=tmp_path)
    destinations = manifest(tmp_path / "run")["destinations"]
    assert sorted(destinations) == [
        "lab.example:8443",
        "other.example",
        "third.example",
    ]


def test_a_run_that_goes_on_elsewhere_keeps_both_servers(
    tmp_path: Path, no_connection: list[str]
) -> None:
    predict(LAB, "--out", "run", cwd=tmp_path)
    predict("https://other.example/v1", "--out", "run", "--resume", cwd=tmp_path)
    assert manifest(tmp_path / "run")["destinations"] == [
        "lab.example:8443",
        "other.example",
    ]


def test_ask_names_the_server_before_it_gets_the_note(
    tmp_path: Path, no_connection: list[str]
) -> None:
    (tmp_path / "note.txt").write_text(NOTE)
    words = ["ask", "Why?", "--note", "note.txt", "--base-url", LAB, "--model", "m"]
    result = command(*words, "--set", "tries=1", cwd=tmp_path)
    assert no_connection
    assert lines_about_text(result) == ["archqa: record text goes to lab.example:8443"]


def test_ask_about_a_patient_names_the_server_once(
    tmp_path: Path, no_connection: list[str]
) -> None:
    record = str(small_record(tmp_path))
    words = [
        "ask",
        "Which creatinine stood out?",
        "--patient",
        "p1",
        "--record",
        record,
    ]
    result = command(
        *words, "--base-url", LAB, "--model", "m", "--set", "tries=1", cwd=tmp_path
    )
    assert no_connection
    assert lines_about_text(result) == ["archqa: record text goes to lab.example:8443"]


def test_a_record_on_a_server_gets_queries_and_is_named(tmp_path: Path) -> None:
    with FakeServer() as server:
        host = host_of(server)
        words = ["ask", "Why?", "--patient", "p1", "--record", f"http://{host}/fhir"]
        result = command(*words, cwd=tmp_path)
    assert result.returncode != 0, "it has no such patient"
    assert f"archqa: queries go to {host} on this machine" in result.stderr.splitlines()


def test_many_runs_of_one_command_name_the_server_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("archqa.evaluation.ablation.VARIANTS", VARIANTS[:2])
    with FakeServer() as server:
        more = [
            "--base-url",
            server.base_url,
            "--model",
            "m",
            "--limit",
            "1",
            "--out",
            "runs",
        ]
        result = command("ablate", "mini", *more, cwd=tmp_path)
    assert result.returncode == 0, result.stderr
    assert len(lines_about_text(result)) == 1
    for run in (tmp_path / "runs").iterdir():
        assert len(manifest(run)["destinations"]) == 1


def test_python_calls_can_say_it_their_own_way(
    tmp_path: Path, no_connection: list[str], caplog: pytest.LogCaptureFixture
) -> None:
    settings = Settings(base_url=LAB, model="m", tries=1)
    announced: list[str] = []

    def announce(destinations: Any) -> None:
        assert not no_connection, "before the first request"
        announced.extend(destination.host for destination in destinations)

    with pytest.raises(archqa.errors.ServerUnavailable):
        archqa.predict(
            "mini", out=tmp_path / "run", settings=settings, announce=announce
        )
    assert announced == ["lab.example:8443"]
    answer = archqa.ask("Why?", NOTE, settings=settings)
    assert answer.remarks, "the engine answered in the model's place"
    assert "record text goes to lab.example:8443" in caplog.messages


def test_an_earlier_run_without_destinations_is_still_read(tmp_path: Path) -> None:
    run = archqa.predict("mini", out=tmp_path / "run")
    content = manifest(run.path)
    del content["destinations"]
    (run.path / "run.json").write_text(json.dumps(content))
    assert archqa.Run.open(run.path).manifest.destinations == ()


class _Server:
    """A server that takes files and batches."""

    async def __aenter__(self) -> "_Server":
        return self

    async def __aexit__(self, *_: object) -> None:
        """Nothing is open."""

    async def upload_batch_file(self, path: Path) -> str:
        return path.name

    async def create_batch(self, file_id: str) -> Any:
        return type("Batch", (), {"id": f"batch-{file_id}"})


def test_a_batch_names_the_server_that_gets_its_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(f"{upload.__module__}.open_server", lambda _: _Server())
    words = [
        "batch",
        "submit",
        "mini",
        "--model",
        "m",
        "--base-url",
        LAB,
        "--out",
        "run",
    ]
    result = command(*words, cwd=tmp_path)
    assert result.returncode == 0, result.stderr
    assert lines_about_text(result) == ["archqa: record text goes to lab.example:8443"]
    assert manifest(tmp_path / "run")["destinations"] == ["lab.example:8443"]


@pytest.mark.parametrize("step", ["submit", "status", "fetch"])
def test_a_batch_goes_on_only_at_the_server_it_began_with(
    step: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened: list[str | None] = []

    def open_server(settings: Settings) -> _Server:
        opened.append(settings.base_url)
        return _Server()

    monkeypatch.setattr(f"{upload.__module__}.open_server", open_server)
    url = "https://lab.example/v1"
    words = [
        "batch",
        "submit",
        "mini",
        "--model",
        "m",
        "--base-url",
        url,
        "--out",
        "run",
    ]
    offline = ["--offline"] if step == "submit" else []
    command(*words, *offline, cwd=tmp_path)
    opened.clear()
    result = command("batch", step, "run", cwd=tmp_path, OPENAI_API_KEY="sk-ambient")
    assert result.returncode == 2, result.stderr
    assert f"--base-url {url}" in result.stderr
    assert opened == []
