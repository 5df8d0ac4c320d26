"""A key or a URL in the environment sends nothing until a person asks for a model server."""

import json
from pathlib import Path

import pytest

import archqa
from archqa.errors import CallerError
from archqa.evaluation.judges import JudgePanel
from archqa.settings import Settings, load_settings
from archqa.web import WebConfig, create_app
from tests.cli.test_commands import CommandResult
from tests.cli.test_commands import archqa as command
from tests.fakes.server import FakeServer
from tests.safety.trap import Trap
from tests.web.test_pages import _client as web_client

KEY = "sk-ambient-4711"
NOTE = "He was given furosemide 40 mg daily for fluid overload. The creatinine rose to 4.1."


@pytest.fixture
def note(tmp_path: Path) -> Path:
    file = tmp_path / "note.txt"
    file.write_text(NOTE)
    return file


def with_ambient_key(
    *arguments: str, cwd: Path, url: str, **variables: str
) -> CommandResult:
    ambient = {"OPENAI_API_KEY": KEY, "OPENAI_BASE_URL": url, **variables}
    return command(*arguments, cwd=cwd, **ambient)


def test_ask_about_a_note_is_answered_on_this_machine_and_says_so(note: Path) -> None:
    question = ["ask", "Why was furosemide given?", "--note", "note.txt"]
    with Trap() as trap:
        result = with_ambient_key(*question, cwd=note.parent, url=trap.base_url)
    assert result.returncode == 0, result.stderr
    assert trap.connections == 0
    lines = [
        line for line in result.stderr.splitlines() if "embedded engine answers" in line
    ]
    assert len(lines) == 1
    assert "OPENAI_API_KEY" in lines[0]


def test_predict_is_answered_on_this_machine_and_says_so(tmp_path: Path) -> None:
    with Trap() as trap:
        result = with_ambient_key(
            "predict", "mini", "--limit", "1", "--json", cwd=tmp_path, url=trap.base_url
        )
    assert trap.connections == 0
    assert json.loads(result.stdout)["pipeline"] == "embedded"
    assert "the embedded engine answers" in result.stderr
    run = tmp_path / json.loads(result.stdout)["run"]
    assert json.loads((run / "run.json").read_text())["destinations"] == []


@pytest.mark.parametrize(
    "arguments",
    [
        ["predict", "mini", "--pipeline", "dmis"],
        ["predict", "mini", "--pipeline", "dmis", "--yes"],
        ["ablate", "mini", "--pipeline", "dmis"],
        ["batch", "submit", "mini"],
        [
            "ask",
            "Why?",
            "--note",
            "note.txt",
            "--set",
            "agents.note_answer.backend=model",
        ],
        ["predict", "mini", "--set", "agents.decision.backend=model"],
        ["predict", "mini", "--pipeline", "dmis", "--set", "api_key=sk-typed"],
    ],
)
def test_what_needs_a_model_is_refused_with_the_remedy(
    arguments: list[str], note: Path
) -> None:
    with Trap() as trap:
        result = with_ambient_key(*arguments, cwd=note.parent, url=trap.base_url)
    assert trap.connections == 0
    assert result.returncode == 2, result.stderr
    assert "--model NAME" in result.stderr
    assert "Traceback" not in result.stderr
    assert not (note.parent / "runs").exists()


def test_the_list_of_models_needs_a_server_that_is_named(tmp_path: Path) -> None:
    with Trap() as trap:
        result = with_ambient_key("list", "models", cwd=tmp_path, url=trap.base_url)
    assert (result.returncode, trap.connections) == (2, 0)
    assert "--base-url URL" in result.stderr
    with FakeServer(models=("tiny-7b",)) as server:
        listed = command("list", "models", "--base-url", server.base_url, cwd=tmp_path)
    assert listed.stdout.split()[-1] == "tiny-7b"


def test_medagentbench_says_how_to_ask_for_a_model(tmp_path: Path) -> None:
    task = {
        "id": "task1_1",
        "instruction": "What is the MRN?",
        "eval_MRN": "S1",
        "context": "",
    }
    (tmp_path / "tasks.json").write_text(json.dumps([task]))
    with Trap() as trap:
        result = with_ambient_key(
            "predict", "tasks.json", cwd=tmp_path, url=trap.base_url
        )
    assert (result.returncode, trap.connections) == (2, 0)
    assert "--model NAME" in result.stderr
    assert "--pipeline do-nothing" in result.stderr


def test_a_dry_run_of_a_model_pipeline_needs_no_server(tmp_path: Path) -> None:
    arguments = [
        "predict",
        "mini",
        "--pipeline",
        "dmis",
        "--limit",
        "1",
        "--dry-run",
        "--json",
    ]
    with Trap() as trap:
        result = with_ambient_key(*arguments, cwd=tmp_path, url=trap.base_url)
    assert trap.connections == 0
    assert json.loads(result.stdout)["calls"] > 0


def test_the_doctor_sends_no_key(tmp_path: Path) -> None:
    with Trap() as trap:
        result = with_ambient_key("doctor", "--json", cwd=tmp_path, url=trap.base_url)
    check = json.loads(result.stdout)["model server"]
    assert trap.connections == 0
    assert check["ok"] is None
    assert "sends nothing" in check["words"]


def test_config_show_says_that_the_key_is_not_used(tmp_path: Path) -> None:
    result = with_ambient_key(
        "config", "show", cwd=tmp_path, url="http://127.0.0.1:9/v1"
    )
    assert "127.0.0.1:9" not in result.stdout
    assert "no model server was asked for" in result.stderr
    assert KEY not in result.stdout + result.stderr


def test_python_calls_send_nothing_either(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Trap() as trap:
        monkeypatch.setenv("OPENAI_API_KEY", KEY)
        monkeypatch.setenv("OPENAI_BASE_URL", trap.base_url)
        run = archqa.predict("mini", out=tmp_path / "run")
        answer = archqa.ask("Why was furosemide given?", NOTE)
        with pytest.raises(CallerError, match="--model NAME"):
            archqa.predict("mini", out=tmp_path / "model", pipeline="dmis")
        with pytest.raises(CallerError, match="--model NAME"):
            archqa.predict(
                "mini", out=tmp_path / "key", pipeline="dmis", api_key="sk-typed"
            )
    assert trap.connections == 0
    assert run.manifest.pipeline == "embedded"
    assert answer.answered_by.reader == "engine"
    assert Settings().base_url is None
    assert Settings().api_key is None


async def test_the_form_of_serve_answers_on_this_machine_and_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    async with web_client(create_app(WebConfig([tmp_path]))) as client:
        page = (await client.get("/")).text
    assert "Answered on this machine by the embedded engine" in page


async def test_the_form_of_serve_names_the_server_that_gets_the_note(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("https_proxy", "http://user:geheim@proxy.example:3128")
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    settings = Settings(model="gpt-4.1")
    async with web_client(
        create_app(WebConfig([tmp_path]), settings=settings)
    ) as client:
        page = (await client.get("/")).text
    assert "sent to api.openai.com through the proxy proxy.example:3128" in page
    assert "Answered on this machine" not in page
    assert "geheim" not in page


@pytest.mark.parametrize(
    "asking",
    [
        ["--model", "m"],
        ["--set", "model=m"],
        ["--set", "agents.context.model=m"],
        ["--set", "agents.specialist.model=m"],
        ["--config", "mine.toml"],
    ],
)
def test_a_typed_model_or_a_named_file_asks_for_the_server(
    asking: list[str], tmp_path: Path
) -> None:
    (tmp_path / "mine.toml").write_text('model = "m"\n')
    assert with_key_and_server(tmp_path, *asking) > 0


@pytest.mark.parametrize("variable", ["ARCHQA_MODEL", "ARCHQA_AGENTS__CONTEXT__MODEL"])
def test_a_variable_of_archqa_asks_for_the_server(
    variable: str, tmp_path: Path
) -> None:
    assert with_key_and_server(tmp_path, **{variable: "m"}) > 0


def test_the_users_own_configuration_asks_for_the_server(tmp_path: Path) -> None:
    (tmp_path / "home" / "archqa").mkdir(parents=True)
    (tmp_path / "home" / "archqa" / "config.toml").write_text('model = "m"\n')
    assert with_key_and_server(tmp_path, XDG_CONFIG_HOME=str(tmp_path / "home")) > 0


def with_key_and_server(folder: Path, *arguments: str, **variables: str) -> int:
    """Return how often the server in OPENAI_BASE_URL was asked."""
    with FakeServer() as server:
        asked = ["predict", "mini", "--limit", "1", "--json", *arguments]
        result = with_ambient_key(*asked, cwd=folder, url=server.base_url, **variables)
        assert result.returncode == 0, result.stderr
        return server.count


def test_an_empty_variable_asks_for_nothing(tmp_path: Path) -> None:
    with Trap() as trap:
        result = with_ambient_key(
            "predict", "mini", "--limit", "1", "--json",
            cwd=tmp_path, url=trap.base_url, ARCHQA_MODEL="", ARCHQA_BASE_URL="",
        )  # fmt: skip
    assert (result.returncode, trap.connections) == (0, 0), result.stderr


def test_a_key_goes_along_as_soon_as_a_server_is_asked_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    monkeypatch.setenv("OPENAI_BASE_URL", "https://lab.example/v1")
    for settings in (Settings(model="m"), load_settings(typed={"model": "m"})):
        assert settings.base_url == "https://lab.example/v1"
        assert settings.api_key is not None
    assert Settings(model="m", base_url=None).base_url is None, "typed: no URL"
    assert Settings().replace(model="m").base_url == "https://lab.example/v1"


def test_a_url_of_archqa_wins_over_that_of_the_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_BASE_URL", "https://other.example/v1")
    file = tmp_path / "mine.toml"
    file.write_text('base_url = "https://hospital.example/v1"\n')
    assert load_settings(file).base_url == "https://hospital.example/v1"


def test_an_agents_own_server_does_not_send_the_others_to_openai(
    tmp_path: Path, note: Path
) -> None:
    own = [
        "--pipeline",
        "dmis",
        "--set",
        "agents.specialist.base_url=http://127.0.0.1:9/v1",
    ]
    with Trap() as trap:
        result = with_ambient_key(
            "predict", "mini", *own, cwd=tmp_path, url=trap.base_url
        )
    assert (result.returncode, trap.connections) == (2, 0)
    assert "--model NAME" in result.stderr


def test_a_judge_that_is_named_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    settings = JudgePanel("o4-mini").judge_settings
    assert settings.model == "o4-mini"
    assert settings.api_key is not None
