"""The panel and the commands on its votes, as a user types them."""

import json
import zipfile
from pathlib import Path
from typing import Any

import pytest

from tests.cli.test_commands import ROOT, archqa
from tests.fakes.server import FakeServer

KEY = str(ROOT / "data" / "mini" / "mini_key.json")


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of a panel of two models at two servers, one of which is unreachable."""
    folder = tmp_path_factory.mktemp("panel")
    with FakeServer() as server:
        models = ["--set", "servers.gone.base_url=http://127.0.0.1:9/v1", "--set", "tries=1"]
        models += ["--set", "agents.general_expert.models=m,other@gone", "--set", "interpret=on"]
        words = [
            "--base-url",
            server.base_url,
            "--model",
            "m",
            "--pipeline",
            "panel",
            "--out",
            str(folder / "run"),
        ]
        result = archqa("predict", "mini", *words, *models, "--json", cwd=folder)
    assert result.returncode == 0, result.stderr
    assert json.loads(result.stdout)["answered"] == 3
    return folder / "run"


def test_an_unreachable_server_loses_its_vote_but_not_the_run(run: Path) -> None:
    lines = [json.loads(line) for line in (run / "cases.jsonl").read_text().splitlines()]
    for line in lines:
        assert (
            "the vote of general expert @ other@gone is lost (ServerUnavailable)" in line["remarks"]
        )
        assert "general expert @ m" in line["judgements"]


def test_calibrate_and_what_if_call_no_model(run: Path, tmp_path: Path) -> None:
    calibration = archqa("calibrate", str(run), "--out", str(tmp_path / "c.json"))
    assert calibration.returncode == 0, calibration.stderr
    assert "fitted, out-of-fold" in calibration.stdout
    report = json.loads(
        archqa("calibrate", str(run), "--out", str(tmp_path / "c.json"), "--json").stdout
    )
    assert report["provenance"]["cases"] == 3
    decision = archqa(
        "what-if",
        str(run),
        "--set",
        f"combiner={tmp_path / 'c.json'}",
        "--out",
        str(tmp_path / "new"),
        "--json",
    )
    assert decision.returncode == 0, decision.stderr
    assert json.loads(decision.stdout)["cases"] == 3
    assert (tmp_path / "new" / "submission.json").is_file()
    assert "as it was" in archqa("what-if", str(run), "--set", "threshold=0.4").stdout


def test_what_if_shows_the_curve_over_thresholds_with_the_chosen_point(run: Path) -> None:
    report = json.loads(archqa("what-if", str(run), "--key", KEY, "--json").stdout)
    assert [point["threshold"] for point in report["curve"]][:2] == [0.05, 0.1]
    recalls = [point["recall"] for point in report["curve"]]
    assert recalls == sorted(recalls, reverse=True)
    shown = archqa("what-if", str(run), "--key", KEY).stdout
    assert "chosen" in shown
    assert "best" in shown


def test_a_setting_that_what_if_cannot_change_is_an_error(run: Path) -> None:
    result = archqa("what-if", str(run), "--set", "context=off")
    assert result.returncode == 2
    assert "context cannot be changed afterwards." in result.stderr


@pytest.mark.parametrize("subtask", [1, 2, 3])
def test_export_makes_the_zip_the_organisers_take(subtask: int, run: Path, tmp_path: Path) -> None:
    out = tmp_path / "submission.zip"
    result = archqa("export", str(run), "--format", f"archehr-2026-st{subtask}", "--out", str(out))
    assert result.returncode == 0, result.stderr
    with zipfile.ZipFile(out) as archive:
        assert archive.namelist() == ["submission.json"]
        assert len(json.loads(archive.read("submission.json"))) == 3


def test_export_of_a_subtask_that_the_run_lacks_is_an_error(run: Path) -> None:
    result = archqa("export", str(run), "--format", "archehr-2026-st4")
    assert result.returncode == 2
    assert "Runs of --task archehr-2026-st4 have it." in result.stderr


def test_tune_tries_versions_of_a_prompt(tmp_path: Path) -> None:
    with FakeServer() as server:
        words = [
            "--base-url",
            server.base_url,
            "--model",
            "m",
            "--out",
            str(tmp_path / "t"),
            "--limit",
            "2",
            "--json",
        ]
        result = archqa("tune", "mini", *words, "--key", KEY, cwd=tmp_path)
    assert result.returncode == 0, result.stderr
    report = json.loads(result.stdout)
    assert set(report["versions"]) == {"answer_first/v1", "answer_first/v2"}
    manifest = json.loads((tmp_path / "t" / "answer_first-v2" / "run.json").read_text())
    assert "answer_first/v2" in manifest["prompts"]
    assert "answer_first/v1" not in manifest["prompts"]


def test_a_dry_run_counts_every_voter(tmp_path: Path) -> None:
    words = ["predict", "mini", "--pipeline", "panel", "--model", "gpt-4.1", "--dry-run", "--json"]
    words += ["--set", "answers=1"]
    one_model = json.loads(archqa(*words, cwd=tmp_path).stdout)
    two_models = json.loads(
        archqa(*words, "--set", "agents.answer_first.models=gpt-4.1,o3", cwd=tmp_path).stdout
    )
    assert calls_of(two_models, "answer_first") == {"gpt-4.1": 3, "o3": 3}
    assert calls_of(one_model, "answer_first") == {"gpt-4.1": 3}


def calls_of(estimate: Any, agent: str) -> dict[str, int]:
    return {row["model"]: row["calls"] for row in estimate["by_agent"] if row["agent"] == agent}


def test_subtask_4_reads_the_answers_of_a_key_that_is_named(tmp_path: Path) -> None:
    case_file = tmp_path / "alone.json"
    case_file.write_bytes((ROOT / "data" / "mini" / "mini.json").read_bytes())
    words = [
        "predict",
        str(case_file),
        "--task",
        "archehr-2026-st4",
        "--out",
        str(tmp_path / "run"),
        "--json",
    ]
    without_key = archqa(*words)
    assert without_key.returncode == 2
    assert "Name a key that holds the answers with --key FILE." in without_key.stderr
    result = archqa(*words, "--key", KEY)
    assert result.returncode == 0, result.stderr
    scored = archqa("score", str(tmp_path / "run"), "--key", KEY, "--json")
    assert json.loads(scored.stdout)["scores"]["micro_f1"] > 50
