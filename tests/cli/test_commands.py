"""The commands as a user types them: their output, exit codes and error messages."""

import contextlib
import io
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import pytest

from archqa.cli import main
from archqa.cli.console import console, err_console
from tests.fakes.server import FakeServer

ROOT = Path(__file__).resolve().parents[2]
MINI = ROOT / "data" / "mini" / "mini.json"


class CommandResult(NamedTuple):
    returncode: int
    stdout: str
    stderr: str


def archqa(
    *arguments: str, cwd: Path | None = None, stdin: str = "", **environment: str
) -> CommandResult:
    """Run the command line in this process, which saves the start of another."""
    out, err = io.StringIO(), io.StringIO()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "argv", ["archqa", *arguments])
        patch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(stdin.encode())))
        # The consoles read COLUMNS once, when they are imported.
        patch.setattr(console, "width", 160)
        patch.setattr(err_console, "width", 160)
        for name, value in environment.items():
            patch.setenv(name, value)
        if cwd is not None:
            patch.chdir(cwd)
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            code = _exit_code()
    return CommandResult(code, out.getvalue(), err.getvalue())


def _exit_code() -> int:
    try:
        main.run()
    except SystemExit as end:
        return int(end.code or 0)
    return 0


@pytest.fixture(scope="module")
def finished_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("runs") / "mini"
    result = archqa("predict", "mini", "--out", str(folder))
    assert result.returncode == 0, result.stderr
    return folder


def test_predict_ends_with_the_run_folder_and_says_who_answered(tmp_path: Path) -> None:
    result = archqa("predict", "mini", "--out", str(tmp_path / "run"))
    assert result.returncode == 0
    assert result.stdout.splitlines()[-1] == str(tmp_path / "run")
    assert "the embedded engine answers" in result.stderr
    submission = json.loads((tmp_path / "run" / "submission.json").read_text())
    assert len(submission) == 3
    assert all("|" in answer["answer"] for answer in submission)


def test_a_process_of_its_own_gives_the_same_answers(
    finished_run: Path, tmp_path: Path
) -> None:
    command = [
        sys.executable,
        "-c",
        "from archqa.cli.main import run; run()",
        "predict",
        "mini",
        "--out",
        "run",
    ]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    result = subprocess.run(
        command,
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert (result.returncode, result.stdout.splitlines()[-1]) == (0, "run"), (
        result.stderr
    )
    assert (tmp_path / "run" / "submission.json").read_bytes() == (
        finished_run / "submission.json"
    ).read_bytes()


def test_predict_prints_one_json_object_when_asked(tmp_path: Path) -> None:
    result = archqa("predict", "mini", "--json", "--limit", "2", cwd=tmp_path)
    summary = json.loads(result.stdout)
    assert set(summary) == {
        "run", "task", "pipeline", "cases", "answered", "failed", "unanswerable", "calls", "cached_calls",
        "prompt_tokens", "completion_tokens", "cost_usd", "seconds",
    }  # fmt: skip
    assert (summary["cases"], summary["answered"], summary["pipeline"]) == (
        2,
        2,
        "embedded",
    )
    assert Path(tmp_path, summary["run"]).is_dir()


def test_cases_come_from_standard_input_too(tmp_path: Path) -> None:
    result = archqa(
        "predict", "-", "--out", "run", "--quiet", cwd=tmp_path, stdin=MINI.read_text()
    )
    assert result.returncode == 0, result.stderr
    assert result.stdout.strip() == "run"
    assert archqa("show", "run", "3", cwd=tmp_path).returncode == 0


def test_score_reads_the_key_beside_the_cases_and_prints_official_names(
    finished_run: Path,
) -> None:
    result = archqa("score", str(finished_run), "--json")
    assert result.returncode == 0, result.stderr
    report = json.loads(result.stdout)
    assert {
        "task",
        "scores",
        "intervals",
        "signatures",
        "missing",
        "warnings",
        "cases",
    } <= set(report)
    for name in (
        "strict_micro_precision",
        "strict_micro_recall",
        "strict_micro_f1",
        "lenient_macro_f1",
        "overall_factuality_score",
    ):
        assert 0 <= report["scores"][name] <= 100
    assert (
        report["scores"]["overall_factuality_score"]
        == report["scores"]["strict_micro_f1"]
    )
    low, high = report["intervals"]["strict_micro_f1"]
    assert low <= report["scores"]["strict_micro_f1"] <= high
    assert report["baselines"]["cite_everything"]["strict_micro_recall"] == 100
    assert (
        json.loads((finished_run / "scores.json").read_text())["scores"]
        == report["scores"]
    )


@pytest.mark.parametrize(("name", "has_warning"), [("train", True), ("dev", False)])
def test_scores_on_cases_the_engine_was_fitted_on_carry_a_warning(
    name: str, has_warning: bool, tmp_path: Path
) -> None:
    archqa(
        "predict",
        str(ROOT / "data" / f"{name}.json"),
        "--limit",
        "1",
        "--out",
        "run",
        cwd=tmp_path,
    )
    result = archqa("score", "run", "--metric", "strict_micro_f1", cwd=tmp_path)
    assert result.returncode == 0, result.stderr
    assert (
        "1 of 1 cases were in the fit of the embedded engine" in result.stderr
    ) == has_warning


def test_a_bare_submission_is_scored_with_its_data(finished_run: Path) -> None:
    without_data = archqa("score", str(finished_run / "submission.json"))
    assert without_data.returncode == 2
    assert "--data" in without_data.stderr
    result = archqa(
        "score", str(finished_run / "submission.json"), "--data", str(MINI), "--json"
    )
    whole = json.loads(archqa("score", str(finished_run), "--json").stdout)
    assert json.loads(result.stdout)["scores"] == whole["scores"]


def test_show_marks_the_cited_sentences_and_gives_each_agents_verdict(
    finished_run: Path,
) -> None:
    submission = json.loads((finished_run / "submission.json").read_text())
    case = submission[0]["case_id"]
    result = archqa("show", str(finished_run), case, "--rationales")
    assert result.returncode == 0, result.stderr
    assert "general expert" in result.stdout
    assert "▶" in result.stdout
    assert "Answer (answered)" in result.stdout


def test_show_without_a_case_lists_them(finished_run: Path) -> None:
    result = archqa("show", str(finished_run))
    assert result.returncode == 0
    assert result.stdout.count("answered") >= 3


def test_export_writes_the_official_submission(
    finished_run: Path, tmp_path: Path
) -> None:
    result = archqa(
        "export",
        str(finished_run),
        "--format",
        "archehr-2025",
        "--out",
        str(tmp_path / "s.json"),
    )
    assert result.returncode == 0
    assert json.loads((tmp_path / "s.json").read_text()) == json.loads(
        (finished_run / "submission.json").read_text()
    )
    assert archqa("export", str(finished_run), "--format", "csv").stdout.startswith(
        "case_id,status,answer"
    )
    other_format = archqa("export", str(finished_run), "--format", "medagentbench")
    assert other_format.returncode == 2
    assert "is a run of archehr-2025" in other_format.stderr


def test_ablate_prints_the_rows_of_both_tables(tmp_path: Path) -> None:
    result = archqa("ablate", "mini", "--out", str(tmp_path / "ablation"), "--json")
    rows = json.loads(result.stdout)
    assert [row["table"] for row in rows] == [1] * 6 + [2] * 2
    assert all("strict_micro_f1" in row["scores"] for row in rows)
    assert "alignscore" in rows[-1]["missing"]


def test_ablate_says_what_a_case_costs_with_and_without_a_stage(
    tmp_path: Path,
) -> None:
    with FakeServer() as server:
        result = archqa(
            *("ablate", "mini", "--out", str(tmp_path / "ablation"), "--json"),
            *("--limit", "1", "--model", "fake", "--base-url", server.base_url),
            *("--set", "screen=batched", "--set", f"cache.dir={tmp_path}"),
        )
    rows = {row["name"]: row for row in json.loads(result.stdout)}
    whole = rows["binary w/ Experts + Context K"]
    without_experts = rows["binary w/ Context K"]
    without_context = rows["binary w/ Experts"]
    assert without_experts["calls_per_case"] <= whole["calls_per_case"] - 2
    assert without_context["calls_per_case"] == whole["calls_per_case"] - 1
    for row in (without_experts, without_context):
        assert 0 < row["tokens_per_case"] < whole["tokens_per_case"]


def test_cases_check_counts_and_names_the_cases() -> None:
    result = archqa("cases", "check", str(ROOT / "data" / "dev.xml"))
    assert result.returncode == 0
    assert "28 cases, 655 sentences" in result.stdout


@pytest.mark.parametrize(
    "kind",
    [
        "pipelines",
        "tasks",
        "agents",
        "prompts",
        "metrics",
        "formats",
        "prices",
        "settings",
    ],
)
def test_list_knows_every_kind(kind: str) -> None:
    result = archqa("list", kind)
    assert result.returncode == 0, result.stderr
    assert len(result.stdout.splitlines()) >= 2


def test_doctor_checks_the_engine_and_names_absent_metrics() -> None:
    result = archqa("doctor", "--json")
    checks = json.loads(result.stdout)
    assert result.returncode == 0
    assert checks["embedded engine"]["ok"] is True
    assert checks["metric alignscore"]["ok"] is None
    assert (
        "pip install 'archqa[medcon]'" in archqa("doctor").stdout
        or checks["metric medcon"]["ok"]
    )


def test_config_show_prints_toml_that_is_read_back(tmp_path: Path) -> None:
    import tomllib

    shown = archqa(
        "config",
        "show",
        "--set",
        "labels=multiclass",
        "--set",
        "agents.context.model=o3",
        OPENAI_API_KEY="sk-canary",
    )
    assert "sk-canary" not in shown.stdout + shown.stderr
    pipelines = tomllib.loads(shown.stdout)["pipelines"]
    for name in ("dmis", "embedded"):
        assert pipelines[name]["labels"] == "multiclass"
    (tmp_path / "settings.toml").write_text(shown.stdout)
    again = archqa("config", "show", "--config", "settings.toml", cwd=tmp_path)
    assert again.stdout == shown.stdout


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["predict", "absent.json"], 3, "absent.json"),
        (["predict", "mini", "--pipeline", "nope"], 2, "There are: dmis, embedded"),
        (["predict", "mini", "--set", "labels=five"], 2, "labels"),
        (["predict", "mini", "--set", "lables=binary"], 2, "did you mean labels?"),
        (["predict", "mini", "--set", "agents.nobody.model=x"], 2, "There is no agent nobody"),
        (["predict", "mini", "--case", "zz"], 2, "no case zz"),
        (["predict", "mini", "--shard", "9/3"], 2, "K/N"),
        (["predict", "mini", "--resume"], 2, "no unfinished run"),
        (["predict", "mini", "--base-url", "nonsense", "--model", "m"], 2, "is not a URL"),
        (["predict", "mini", "--model", "gpt-4.1"], 4, "OPENAI_API_KEY"),
        (["predict", "mini", "--config", "absent.toml"], 3, "no such configuration file"),
        (["score", "absent"], 3, "absent"),
        (["show", "absent"], 3, "is not a run folder"),
        (["list", "nonsense"], 2, "There are:"),
        (["export", "absent", "--format", "zip"], 2, "There is no format"),
        (["predict", "mini", "--task", "archehr-2027"], 2, "archehr-2025"),
    ],
)  # fmt: skip
def test_a_wrong_call_gets_one_clear_error_and_its_exit_code(
    arguments: list[str], code: int, message: str, tmp_path: Path
) -> None:
    result = archqa(*arguments, cwd=tmp_path)
    assert result.returncode == code, result.stderr
    assert message in result.stderr
    assert result.stderr.splitlines()[-1].strip()
    assert "Traceback" not in result.stderr
    assert not list(tmp_path.glob("runs/*")), "no incomplete run is left"


MALFORMED = {
    "empty.json": b"",
    "truncated.json": MINI.read_bytes()[:900],
    "twice.json": json.dumps([json.loads(MINI.read_text())[0]] * 2).encode(),
    "types.json": b'[{"case_id": 5, "patient_narrative": ["a"], "sentences": "none"}]',
    "bomb.xml": b'<!DOCTYPE a [<!ENTITY b "bb">]><annotations><case id="1">&b;</case></annotations>',
    "binary.xml": bytes(range(256)) * 20,
    "deep.json": b"[" * 100_000 + b"]" * 100_000,
    "open.xml": b'<annotations><case id="1">',
}


@pytest.mark.parametrize("name", MALFORMED)
def test_a_malformed_file_gets_one_clear_error_and_exit_3(
    name: str, tmp_path: Path
) -> None:
    (tmp_path / name).write_bytes(MALFORMED[name])
    result = archqa("predict", name, cwd=tmp_path)
    assert result.returncode == 3, result.stderr
    assert name in result.stderr
    assert "Traceback" not in result.stderr
    assert not list(tmp_path.glob("runs/*"))
