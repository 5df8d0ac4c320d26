"""`archqa predict` with a model server, as a user types it."""

import json
from pathlib import Path

import pytest

from tests.cli.test_commands import archqa
from tests.fakes.model import FakeModel
from tests.fakes.server import FakeServer
from tests.fakes.wire import HttpRequest, HttpResponse


def test_predict_with_a_server_shows_an_estimate_and_the_cost(tmp_path: Path) -> None:
    with FakeServer() as server:
        result = archqa(
            "predict",
            "mini",
            "--base-url",
            server.base_url,
            "--model",
            "m",
            "--out",
            str(tmp_path / "run"),
        )
        assert result.returncode == 0, result.stderr
        manifest = json.loads((tmp_path / "run" / "run.json").read_text())
        again = archqa(
            "predict",
            "mini",
            "--base-url",
            server.base_url,
            "--model",
            "m",
            "--json",
            cwd=tmp_path,
        )
        calls = server.count
    assert "Estimate for 3 cases" in result.stderr
    assert "general_expert" in result.stdout
    assert manifest["pipeline"] == "dmis"
    summary = json.loads(again.stdout)
    assert summary["answered"] == 3
    assert summary["calls"] == 0, "everything is in the cache"
    assert summary["cached_calls"] == calls


def test_the_openai_variables_are_honoured_once_a_model_is_named(
    tmp_path: Path,
) -> None:
    words = ["predict", "mini", "--json", "--limit", "1", "--model", "m"]
    with FakeServer() as server:
        variables = {"OPENAI_BASE_URL": server.base_url, "OPENAI_API_KEY": "sk-canary"}
        result = archqa(*words, cwd=tmp_path, **variables)
    assert json.loads(result.stdout)["pipeline"] == "dmis"
    assert "sk-canary" not in result.stdout + result.stderr


def test_a_server_with_one_model_needs_no_name_for_it(tmp_path: Path) -> None:
    with FakeServer(models=("tiny-7b",)) as server:
        result = archqa(
            "predict",
            "mini",
            "--base-url",
            server.base_url,
            "--out",
            "run",
            "--json",
            cwd=tmp_path,
        )
    assert result.returncode == 0, result.stderr
    manifest = json.loads((tmp_path / "run" / "run.json").read_text())
    assert {backend["name"] for backend in manifest["backends"].values()} == {"tiny-7b"}
    assert {backend["server"] for backend in manifest["backends"].values()} == {
        server.base_url
    }


def test_a_server_with_several_models_asks_which(tmp_path: Path) -> None:
    with FakeServer(models=("tiny-7b", "big-70b")) as server:
        result = archqa("predict", "mini", "--base-url", server.base_url, cwd=tmp_path)
    assert result.returncode == 2
    assert "tiny-7b, big-70b" in result.stderr


@pytest.mark.parametrize(
    ("fault", "message"),
    [("401", "refuses the key"), ("404-model", "does not know the model")],
)
def test_an_error_of_every_case_ends_the_run_at_once_with_exit_4(
    fault: str, message: str, tmp_path: Path
) -> None:
    with FakeServer(f"{fault},always") as server:
        result = archqa(
            "predict",
            "mini",
            "--base-url",
            server.base_url,
            "--model",
            "m",
            "--jobs",
            "2",
            cwd=tmp_path,
        )
        assert server.count <= 4
    assert result.returncode == 4
    assert message in result.stderr


def test_an_unreachable_server_is_one_clear_error(tmp_path: Path) -> None:
    words = [
        "predict",
        "mini",
        "--base-url",
        "http://127.0.0.1:9/v1",
        "--model",
        "m",
        "--set",
        "tries=1",
    ]
    result = archqa(*words, cwd=tmp_path)
    assert result.returncode == 4
    assert "--resume goes on" in result.stderr


def test_with_mixed_backends_the_model_is_called_for_its_agents_only(
    tmp_path: Path,
) -> None:
    embedded = [
        word
        for agent in ("context", "general_expert", "recruiting", "specialist")
        for word in ("--set", f"agents.{agent}.backend=embedded")
    ]
    with FakeServer() as server:
        result = archqa(
            "predict",
            "mini",
            "--base-url",
            server.base_url,
            "--model",
            "m",
            "--json",
            *embedded,
            cwd=tmp_path,
        )
        assert server.requests.agents == {"decision": 3}
    assert json.loads(result.stdout)["answered"] == 3


def test_a_dry_run_counts_every_prompt_and_calls_no_model(tmp_path: Path) -> None:
    with FakeServer() as server:
        words = ["predict", "mini", "--base-url", server.base_url, "--model", "gpt-4.1"]
        estimate = json.loads(
            archqa(*words, "--dry-run", "--json", cwd=tmp_path).stdout
        )
        assert server.count == 0
        archqa(*words, "--quiet", cwd=tmp_path)
        rerun = json.loads(archqa(*words, "--dry-run", "--json", cwd=tmp_path).stdout)
    assert estimate["calls"] > 3 * 10
    assert estimate["cost_usd"] > 0
    assert estimate["shared_prompt_tokens"] > 0.5 * estimate["prompt_tokens"]
    assert (rerun["calls"], rerun["cost_usd"]) == (0, 0)
    assert not list(tmp_path.glob("runs/*"))[1:], "a dry run leaves no folder"


def test_a_key_goes_to_the_server_it_belongs_to_and_to_no_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    authorizations: dict[str, list[str]] = {}
    original_answer = FakeModel.answer

    def recording_answer(
        self: FakeModel, request: HttpRequest
    ) -> tuple[HttpResponse, float]:
        server = f"http://{request.headers['host']}/v1"
        authorizations.setdefault(server, []).append(request.headers["authorization"])
        return original_answer(self, request)

    monkeypatch.setattr(FakeModel, "answer", recording_answer)
    with FakeServer() as own_server, FakeServer() as other_server:
        servers = [
            "--base-url",
            own_server.base_url,
            "--set",
            f"agents.specialist.base_url={other_server.base_url}",
        ]
        words = ["predict", "mini", "--limit", "1", "--model", "m", "--json", *servers]
        archqa(
            *words,
            "--out",
            "one",
            "--set",
            "cache=off",
            cwd=tmp_path,
            OPENAI_API_KEY="sk-own",
        )
        variable = [
            "--set",
            "agents.specialist.key_variable=OTHER_KEY",
            "--set",
            "cache=off",
            "--out",
            "two",
        ]
        archqa(
            *words,
            *variable,
            cwd=tmp_path,
            OPENAI_API_KEY="sk-own",
            OTHER_KEY="sk-other",
        )
    assert set(authorizations[own_server.base_url]) == {"Bearer sk-own"}
    assert set(authorizations[other_server.base_url]) == {
        "Bearer none",
        "Bearer sk-other",
    }
