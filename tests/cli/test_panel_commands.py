"""The panel and what can be done with its votes, as a user types it."""

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
    """A panel of two models at two servers, one of which is not there."""
    folder = tmp_path_factory.mktemp("panel")
    with FakeServer() as server:
        models = ["--set", "servers.gone.base_url=http://127.0.0.1:9/v1", "--set", "tries=1"]
        models += ["--set", "agents.general_expert.models=m,other@gone"]
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
        done = archqa("predict", "mini", *words, *models, "--json", cwd=folder)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["answered"] == 3
    return folder / "run"


def test_a_server_that_is_not_there_costs_its_vote_and_not_the_run(run: Path) -> None:
    lines = [json.loads(line) for line in (run / "cases.jsonl").read_text().splitlines()]
    for line in lines:
        assert (
            "the vote of general expert @ other@gone is lost (ServerUnavailable)" in line["remarks"]
        )
        assert "general expert @ m" in line["judgements"]


def test_calibrate_and_what_if_ask_nobody(run: Path, tmp_path: Path) -> None:
    fitted = archqa("calibrate", str(run), "--out", str(tmp_path / "c.json"))
    assert fitted.returncode == 0, fitted.stderr
    assert "fitted, out-of-fold" in fitted.stdout
    told = json.loads(
        archqa("calibrate", str(run), "--out", str(tmp_path / "c.json"), "--json").stdout
    )
    assert told["provenance"]["cases"] == 3
    changed = archqa(
        "what-if",
        str(run),
        "--set",
        f"combiner={tmp_path / 'c.json'}",
        "--out",
        str(tmp_path / "new"),
        "--json",
    )
    assert changed.returncode == 0, changed.stderr
    answer = json.loads(changed.stdout)
    assert answer["after"]["f1"] >= 0
    assert (tmp_path / "new" / "submission.json").is_file()
    assert "as it was" in archqa("what-if", str(run), "--set", "threshold=0.4").stdout


def test_what_cannot_be_changed_is_said(run: Path) -> None:
    done = archqa("what-if", str(run), "--set", "context=off")
    assert done.returncode == 2
    assert "context cannot be changed afterwards." in done.stderr


@pytest.mark.parametrize("subtask", [1, 2, 3])
def test_export_makes_the_zip_the_organisers_take(subtask: int, run: Path, tmp_path: Path) -> None:
    out = tmp_path / "submission.zip"
    done = archqa("export", str(run), "--format", f"archehr-2026-st{subtask}", "--out", str(out))
    assert done.returncode == 0, done.stderr
    with zipfile.ZipFile(out) as archive:
        assert archive.namelist() == ["submission.json"]
        assert len(json.loads(archive.read("submission.json"))) == 3


def test_a_subtask_the_run_has_nothing_for_is_said(run: Path) -> None:
    done = archqa("export", str(run), "--format", "archehr-2026-st4")
    assert done.returncode == 2
    assert "Runs of --task archehr-2026-st4 have it." in done.stderr


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
        done = archqa("tune", "mini", *words, "--key", KEY, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert set(told["versions"]) == {"answer_first/v1", "answer_first/v2"}
    manifest = json.loads((tmp_path / "t" / "answer_first-v2" / "run.json").read_text())
    assert "answer_first/v2" in manifest["prompts"]
    assert "answer_first/v1" not in manifest["prompts"]


def test_a_dry_run_counts_every_voter(tmp_path: Path) -> None:
    words = ["predict", "mini", "--pipeline", "panel", "--model", "gpt-4.1", "--dry-run", "--json"]
    one = json.loads(archqa(*words, cwd=tmp_path).stdout)
    two = json.loads(
        archqa(*words, "--set", "agents.answer_first.models=gpt-4.1,o3", cwd=tmp_path).stdout
    )
    assert calls_of(two, "answer_first") == {"gpt-4.1": 3, "o3": 3}
    assert calls_of(one, "answer_first") == {"gpt-4.1": 3}


def calls_of(foreseen: Any, agent: str) -> dict[str, int]:
    return {row["model"]: row["calls"] for row in foreseen["by_agent"] if row["agent"] == agent}


def test_subtask_4_reads_the_answers_of_a_key_that_is_named(tmp_path: Path) -> None:
    alone = tmp_path / "alone.json"
    alone.write_bytes((ROOT / "data" / "mini" / "mini.json").read_bytes())
    words = [
        "predict",
        str(alone),
        "--task",
        "archehr-2026-st4",
        "--out",
        str(tmp_path / "run"),
        "--json",
    ]
    refused = archqa(*words)
    assert refused.returncode == 2
    assert "Name a key that holds the answers with --key FILE." in refused.stderr
    done = archqa(*words, "--key", KEY)
    assert done.returncode == 0, done.stderr
    scored = archqa("score", str(tmp_path / "run"), "--key", KEY, "--json")
    assert json.loads(scored.stdout)["scores"]["micro_f1"] > 50
