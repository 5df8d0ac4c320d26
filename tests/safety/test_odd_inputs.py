"""Half characters, endless numbers and square brackets: handled, and files stay valid UTF-8."""

import json
import math
from pathlib import Path
from typing import Any

import pytest

from archqa.asking.ask import ask
from archqa.runs.run import Run
from archqa.settings import Settings
from tests.safety.command_line import CommandResult, archqa
from tests.safety.odd_server import Change, OddServer

HALF = "\ud800"
BYTE = "\udce9"
"""How Python shows the byte E9 of an argument that is not UTF-8."""

HUGE = 10**400
MINI = Path(__file__).resolve().parents[2] / "data" / "mini" / "mini.json"


def with_usage(**counts: Any) -> Change:
    def change(content: dict[str, Any]) -> None:
        content.get("usage", {}).update(counts)

    return change


def with_message(**fields: Any) -> Change:
    def change(content: dict[str, Any]) -> None:
        if "choices" in content:
            content["choices"][0]["message"].update(fields)

    return change


def with_escape_in_text(content: dict[str, Any]) -> None:
    message = content["choices"][0]["message"]
    message["content"] = message["content"].replace("the ", "the \\ud800 ")


def with_escape_beside_text(content: dict[str, Any]) -> None:
    message = content["choices"][0]["message"]
    message["content"] = f"{HALF}{message['content']}{HALF}"


def answered(change: Change, folder: Path, *options: str) -> CommandResult:
    with OddServer(change) as server:
        return archqa(
            "predict", "mini", "--limit", "1", "--base-url", server.base_url, "--model", "gpt-4.1",
            "--pipeline", "dmis", "--out", str(folder), "--set", "cache=off", "-y", *options,
        )  # fmt: skip


def assert_valid_utf8(folder: Path) -> None:
    files = [path for path in folder.rglob("*") if path.is_file()]
    assert files
    for path in files:
        path.read_text(encoding="utf-8", errors="strict")


@pytest.mark.parametrize(
    "count",
    [HUGE, -(10**9), 2**63, True, [1], math.nan],
    ids=["huge", "negative", "2**63", "true", "list", "NaN"],
)
@pytest.mark.parametrize("name", ["prompt_tokens", "completion_tokens"])
def test_an_impossible_number_of_tokens_makes_the_cost_unknown(
    name: str, count: Any, tmp_path: Path
) -> None:
    result = answered(with_usage(**{name: count}), tmp_path / "run")
    assert result.returncode == 0, result.stderr
    usage = Run.open(tmp_path / "run").usage
    assert usage.cost_usd is None
    assert usage.prompt_tokens == 0


@pytest.mark.parametrize("count", [HUGE, 10**8, -5])
def test_more_cached_tokens_than_tokens_lower_no_cost_below_zero(
    count: int, tmp_path: Path
) -> None:
    change = with_usage(prompt_tokens_details={"cached_tokens": count})
    assert answered(change, tmp_path / "run").returncode == 0
    usage = Run.open(tmp_path / "run").usage
    assert usage.cost_usd is not None
    assert usage.cost_usd > 0
    assert usage.cached_prompt_tokens <= usage.prompt_tokens


@pytest.mark.parametrize(
    "change",
    [
        with_escape_in_text,
        with_escape_beside_text,
        lambda content: content.update(model=f"[/zzz]{HALF}\x1b[2J"),
        lambda content: content.update(model=HUGE),
        with_message(reasoning_content=HALF),
        with_usage(unknown=HALF),
    ],
)
def test_a_reply_with_half_a_character_is_read(change: Change, tmp_path: Path) -> None:
    result = answered(change, tmp_path / "run")
    assert result.returncode == 0, result.stderr
    assert Run.open(tmp_path / "run").records[0].answer
    assert_valid_utf8(tmp_path / "run")
    for command in (("show",), ("report",), ("export", "--format", "csv")):
        name, *options = command
        assert archqa(name, str(tmp_path / "run"), *options).returncode == 0


def test_a_refusal_in_half_characters_is_a_refusal(tmp_path: Path) -> None:
    result = answered(
        with_message(refusal=f"{HALF}[/zzz]"),
        tmp_path / "run",
        "--task",
        "archehr-2026-st1",
    )
    assert "declined" in result.stderr
    assert_valid_utf8(tmp_path / "run")


@pytest.fixture
def case_file(tmp_path: Path) -> Path:
    path = tmp_path / f"cas{BYTE}.json"
    path.write_bytes(MINI.read_bytes())
    return path


def test_files_whose_names_are_not_utf8_are_read_and_written(
    case_file: Path, tmp_path: Path
) -> None:
    run = tmp_path / f"run{BYTE}"
    assert (
        archqa("predict", str(case_file), "--limit", "1", "--out", str(run)).returncode
        == 0
    )
    assert_valid_utf8(run)
    assert Run.open(run).manifest.data.path == str(case_file)
    outputs = {
        "show": ("show", str(run)),
        "svg": ("show", str(run), "--svg", str(tmp_path / f"{BYTE}.svg")),
        "csv": (
            "export",
            str(run),
            "--format",
            "csv",
            "--out",
            str(tmp_path / f"{BYTE}.csv"),
        ),
        "report": ("report", str(run), "--out", str(tmp_path / f"{BYTE}.html")),
        "resume": (
            "predict",
            str(case_file),
            "--limit",
            "1",
            "--out",
            str(run),
            "--resume",
        ),
        "json": (
            "predict",
            str(case_file),
            "--out",
            str(tmp_path / f"all{BYTE}"),
            "--json",
        ),
    }
    for name, command in outputs.items():
        result = archqa(*command)
        assert result.returncode == 0, (name, result.stderr)
        (result.stdout + result.stderr).encode()
    assert_valid_utf8(tmp_path)


@pytest.mark.parametrize(
    "name", ["model", "base_url", "pipeline", "agents.context.model"]
)
def test_a_name_that_is_not_utf8_is_a_wrong_call(name: str) -> None:
    result = archqa("predict", "mini", "--set", f"{name}=http://h{BYTE}", "--dry-run")
    assert result.returncode == 2
    assert "not UTF-8" in result.stderr


@pytest.mark.parametrize(
    "assignment",
    ["max_cost=inf", "timeout=inf", "retries.first_wait=inf", "cache.gib=inf", "threshold=nan",
     "prices.m.prompt=nan", "prices.m.completion=-1", "agents.decision.temperature=nan"],
)  # fmt: skip
def test_a_setting_that_is_no_number_is_a_wrong_call(assignment: str) -> None:
    result = archqa("predict", "mini", "--model", "m", "--set", assignment, "--dry-run")
    assert result.returncode == 2
    assert assignment.partition("=")[0] in result.stderr


@pytest.mark.parametrize("digits", [400, 5000])
@pytest.mark.parametrize("option", ["--jobs", "--limit", "--shard", "--max-cost"])
def test_a_number_of_thousands_of_digits_needs_no_traceback(
    option: str, digits: int
) -> None:
    number = "1" + "0" * digits
    value = f"1/{number}" if option == "--shard" else number
    result = archqa("predict", "mini", option, value, "--dry-run")
    assert result.returncode in {0, 2}
    assert "Traceback" not in result.stderr


@pytest.mark.parametrize("model", ["[/zzz]", "[red]", "[bold", "\\[/x]", ":pill:"])
def test_a_model_may_be_called_as_markup_is(model: str, tmp_path: Path) -> None:
    dry_run = archqa("predict", "mini", "--model", model, "--dry-run", COLUMNS="200")
    assert dry_run.returncode == 0
    assert model in dry_run.stdout
    result = answered(lambda _: None, tmp_path / "run", "--model", model)
    assert result.returncode == 0
    assert archqa("report", str(tmp_path / "run")).returncode == 0


def test_a_question_with_half_a_character_is_answered(tmp_path: Path) -> None:
    path = tmp_path / f"note{BYTE}.txt"
    path.write_text("Furosemide was given for fluid overload.")
    result = archqa("ask", f"Why furos{BYTE}mide?", "--note", str(path), "--json")
    assert result.returncode == 0
    assert json.loads(result.stdout)["question"] == "Why furos\ufffdmide?"
    note = f"Furosemide {HALF} 40 mg was given for fluid overload."
    answer = ask(f"Why was furosemide {HALF} given?", note, settings=Settings())
    assert answer.evidence[0].text == note.replace(HALF, "\ufffd")


def test_a_case_with_half_a_character_is_a_mistake_of_the_file(tmp_path: Path) -> None:
    path = tmp_path / "cases.json"
    sentences = [{"id": "1", "text": f"Heparin {HALF}."}]
    path.write_text(json.dumps([{"case_id": "1", "sentences": sentences}]))
    result = archqa("cases", "check", str(path))
    assert result.returncode == 3
    assert "half a character" in result.stderr


@pytest.mark.parametrize(
    "value", ["1" + "0" * 400, "1" + "0" * 5000, "NaN", "-Infinity", "1e999"]
)
def test_an_endless_number_in_a_case_or_a_key_is_a_mistake_of_the_file(
    value: str, tmp_path: Path
) -> None:
    path = tmp_path / "cases.json"
    text = MINI.read_text().replace(
        '"start_char_index": 156', f'"start_char_index": {value}'
    )
    assert value in text
    path.write_text(text)
    assert archqa("cases", "check", str(path)).returncode == 3
    submission = tmp_path / "submission.json"
    submission.write_text(f'[{{"case_id": "3", "answer": "x |1|", "n": {value}}}]')
    key = MINI.with_name("mini_key.json")
    scored = archqa(
        "score", str(submission), "--data", str(MINI), "--key", str(key), "--json"
    )
    assert scored.returncode in {0, 3}
    assert scored.returncode == 3 or json.loads(scored.stdout)["scores"]
