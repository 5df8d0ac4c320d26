"""`archqa doctor` and `archqa list models`: from nothing to a model server of one's own."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.cli.test_commands import CommandResult, archqa
from tests.fakes.server import FakeServer
from tests.safety.raw_server import RawServer, Request, Response, json_response

TWO_MODELS = {
    "data": [
        {"id": "qwen3:latest", "owned_by": "library"},
        {"id": "big-70b", "owned_by": "vllm", "max_model_len": 16384},
    ]
}


def completion(text: str, finish: str = "stop") -> Response:
    choice = {
        "finish_reason": finish,
        "message": {"role": "assistant", "content": text},
    }
    return json_response(json.dumps({"model": "m", "choices": [choice]}))


class OwnServer:
    """Answers the list of models with `models`, and each chat request with `reply`."""

    def __init__(self, models: Any = None, reply: Response | None = None) -> None:
        self.models = TWO_MODELS if models is None else models
        self.reply = reply or completion('{"stone": "basalt"}')
        self.chats: list[dict[str, Any]] = []

    def __call__(self, request: Request) -> Response:
        if request.target.endswith("/models"):
            return json_response(json.dumps(self.models))
        self.chats.append(json.loads(request.body))
        return self.reply


def doctor(
    own: OwnServer, *words: str, **environment: str
) -> tuple[CommandResult, dict[str, Any]]:
    with RawServer(own) as server:
        words = ("--base-url", f"{server.url}/v1", *words)
        result = archqa("doctor", "--json", *words, **environment)
    return result, json.loads(result.stdout)


def test_without_a_model_the_doctor_says_how_to_get_one(tmp_path: Path) -> None:
    result = archqa("doctor", cwd=tmp_path)
    assert result.returncode == 0
    for name in ("Ollama", "llama.cpp", "vLLM"):
        assert f"  {name}" in result.stdout
    assert "archqa doctor --base-url URL --model NAME" in result.stdout


def test_a_configured_server_is_asked_for_its_list_and_for_no_reply() -> None:
    own = OwnServer()
    with RawServer(own) as server:
        variables = {"ARCHQA_BASE_URL": f"{server.url}/v1", "ARCHQA_MODEL": "big-70b"}
        result = archqa("doctor", **variables)
    assert result.returncode == 0
    assert "offers qwen3:latest, big-70b" in result.stdout
    assert "model: big-70b is among the models offered" in result.stdout
    assert "context length: 16,384 tokens" in result.stdout
    assert "structured output" not in result.stdout
    assert "Ollama" not in result.stdout
    assert own.chats == []


def test_a_model_that_is_typed_gets_one_request_with_invented_text() -> None:
    own = OwnServer()
    result, checks = doctor(own, "--model", "qwen3")
    [chat] = own.chats
    assert result.returncode == 0
    assert checks["structured output"]["ok"] is True
    assert checks["model"]["ok"] is True, "Ollama's requests may leave out :latest"
    assert checks["context length"]["ok"] is None, "Ollama does not tell it"
    assert chat["response_format"]["type"] == "json_schema"
    assert "sky" in chat["messages"][0]["content"]
    assert chat["max_tokens"] == 512


@pytest.mark.parametrize(
    ("reply", "ok", "words", "code"),
    [
        (completion("Blue."), False, "taken and ignored", 4),
        (completion('{"stone": "blue"}'), False, "taken and ignored", 4),
        (completion('{"stone": ', "length"), None, "cut off at 512 tokens", 0),
        (completion(""), None, "gave no reply (empty)", 0),
        (
            Response(400, (b"""{"error": {"code": "odd"}}""",)),
            False,
            "HTTP 400 (odd)",
            4,
        ),
    ],
)
def test_what_the_server_does_with_a_schema_is_told(
    reply: Response, ok: bool | None, words: str, code: int
) -> None:
    result, checks = doctor(OwnServer(reply=reply), "--model", "big-70b")
    assert checks["structured output"]["ok"] is ok
    assert words in checks["structured output"]["words"]
    assert result.returncode == code


@pytest.mark.parametrize("gap", ["no-json-schema", "no-json-schema-500"])
def test_a_server_without_json_schema_is_no_fault_but_is_told(gap: str) -> None:
    with FakeServer(gap) as server:
        words = ["--base-url", server.base_url, "--model", "fake"]
        result = archqa("doctor", "--json", *words, ARCHQA_FIRST_WAIT="0")
    check = json.loads(result.stdout)["structured output"]
    assert result.returncode == 0
    assert check["ok"] is None
    assert "json_schema is refused" in check["words"]


def test_a_model_that_is_not_offered_is_a_fault_unless_it_answers() -> None:
    with RawServer(OwnServer()) as server:
        variables = {"ARCHQA_BASE_URL": f"{server.url}/v1", "ARCHQA_MODEL": "tiny"}
        configured = archqa("doctor", **variables)
    assert configured.returncode == 4
    assert "tiny is not among the models offered" in configured.stdout
    tried, checks = doctor(OwnServer(), "--model", "tiny")
    assert tried.returncode == 0
    assert checks["model"]["ok"] is None
    assert checks["model"]["words"].endswith("it answers to the name all the same")


def test_a_server_without_a_list_is_no_fault_if_the_model_answers() -> None:
    result, checks = doctor(OwnServer(models={}), "--model", "tiny")
    assert result.returncode == 0
    assert checks["model server"]["ok"] is None


def test_a_context_too_short_for_the_prompts_is_a_fault() -> None:
    models = {"data": [{"id": "tiny", "meta": {"n_ctx": 4096, "n_ctx_train": 40960}}]}
    result, checks = doctor(OwnServer(models), "--model", "tiny")
    assert result.returncode == 4
    assert checks["context length"]["words"].startswith(
        "4,096 tokens, and 8,192 are needed"
    )
    models["data"][0]["meta"] = {"n_ctx": 8192}
    assert doctor(OwnServer(models), "--model", "tiny")[0].returncode == 0


@pytest.mark.parametrize(
    ("ids", "ok", "words"),
    [
        (["tiny"], True, "tiny is taken, the only one"),
        (["tiny", "gpt-4.1"], True, "gpt-4.1 is taken"),
        (["tiny", "big"], None, "choose one"),
        ([], None, "choose one"),
    ],
)
def test_without_a_name_the_doctor_says_which_model_is_taken(
    ids: list[str], ok: bool | None, words: str
) -> None:
    own = OwnServer({"data": [{"id": name, "max_model_len": 9000} for name in ids]})
    result, checks = doctor(own)
    assert result.returncode == 0
    assert checks["model"]["ok"] is ok
    assert words in checks["model"]["words"]
    assert ("context length" in checks) == (len(ids) == 1)
    assert own.chats == []


def test_a_server_that_cannot_be_reached_is_exit_4_and_soon() -> None:
    words = ["--base-url", "http://127.0.0.1:9/v1", "--model", "m"]
    result = archqa("doctor", "--json", *words)
    checks = json.loads(result.stdout)
    assert result.returncode == 4
    assert "cannot be reached" in checks["model server"]["words"]
    assert checks["structured output"]["ok"] is False


def test_models_are_listed_with_owner_and_context() -> None:
    with RawServer(OwnServer()) as server:
        url = f"{server.url}/v1"
        table = archqa("list", "models", "--base-url", url).stdout.splitlines()
        as_json = archqa("list", "models", "--json", ARCHQA_BASE_URL=url).stdout
    assert table == [
        "context        owner    model",
        "not told       library  qwen3:latest",
        "16,384 tokens  vllm     big-70b",
    ]
    assert json.loads(as_json)["models"][1] == {
        "id": "big-70b",
        "owned_by": "vllm",
        "context": 16384,
        "trained_context": None,
    }


def test_a_name_of_a_model_is_shown_without_control_characters() -> None:
    models = {"data": [{"id": "a\x1b[2Jb", "meta": {"n_ctx_train": 2048}}]}
    with RawServer(OwnServer(models)) as server:
        result = archqa("list", "models", "--base-url", f"{server.url}/v1")
    assert result.stdout.splitlines()[1] == r"at most 2,048 tokens  not told  a\x1b[2Jb"


def test_a_server_without_models_says_so() -> None:
    with RawServer(OwnServer({"data": []})) as server:
        result = archqa("list", "models", "--base-url", f"{server.url}/v1")
    assert result.stdout == "The server offers no model.\n"


def test_without_a_server_the_list_says_what_to_type(tmp_path: Path) -> None:
    result = archqa("list", "models", cwd=tmp_path, OPENAI_API_KEY="sk-canary")
    assert result.returncode == 2
    assert "--base-url URL" in result.stderr
    assert "http://127.0.0.1:11434/v1" in result.stderr
    assert "sk-canary" not in result.stderr


def test_a_list_from_nowhere_is_one_sentence_and_exit_4() -> None:
    result = archqa("list", "models", "--base-url", "http://127.0.0.1:9/v1")
    assert result.returncode == 4
    assert result.stderr.startswith("archqa: http://127.0.0.1:9/v1 cannot be reached")


def test_the_key_goes_along_once_a_server_is_named() -> None:
    keys = []

    def answer(request: Request) -> Response:
        keys.append(request.headers["authorization"])
        return json_response(json.dumps(TWO_MODELS))

    with RawServer(answer) as server:
        words = ["list", "models", "--base-url", f"{server.url}/v1"]
        archqa(*words, OPENAI_API_KEY="sk-own")
        archqa(*words)
    assert keys == ["Bearer sk-own", "Bearer none"]


def test_json_is_for_models_alone() -> None:
    assert archqa("list", "agents", "--json").returncode == 2
