"""The subtasks of ArchEHR-QA 2026 as a user types them."""

import json
import zipfile
from pathlib import Path

import pytest

from tests.cli.test_commands import ROOT, archqa

KEY = str(ROOT / "data" / "mini" / "mini_key.json")


@pytest.mark.parametrize("subtask", [1, 2, 3, 4])
def test_export_makes_the_zip_the_organisers_take(subtask: int, tmp_path: Path) -> None:
    run, out = str(tmp_path / "run"), tmp_path / "submission.zip"
    name = f"archehr-2026-st{subtask}"
    options = ("--key", KEY) if subtask == 4 else ()
    made = archqa("predict", "mini", "--task", name, "--out", run, *options)
    assert made.returncode == 0, made.stderr
    result = archqa("export", run, "--format", name, "--out", str(out))
    assert result.returncode == 0, result.stderr
    with zipfile.ZipFile(out) as archive:
        assert archive.namelist() == ["submission.json"]
        assert len(json.loads(archive.read("submission.json"))) == 3


def test_export_of_a_subtask_that_the_run_lacks_is_an_error(tmp_path: Path) -> None:
    run = str(tmp_path / "run")
    assert archqa("predict", "mini", "--out", run).returncode == 0
    result = archqa("export", run, "--format", "archehr-2026-st4")
    assert result.returncode == 2
    assert "Runs of --task archehr-2026-st4 have it." in result.stderr


def test_subtask_4_reads_the_answers_of_a_key_that_is_named(tmp_path: Path) -> None:
    case_file = tmp_path / "alone.json"
    case_file.write_bytes((ROOT / "data" / "mini" / "mini.json").read_bytes())
    words = ["predict", str(case_file), "--task", "archehr-2026-st4"]
    words += ["--out", str(tmp_path / "run"), "--json"]
    without_key = archqa(*words)
    assert without_key.returncode == 2
    assert "Name a key that holds the answers with --key FILE." in without_key.stderr
    result = archqa(*words, "--key", KEY)
    assert result.returncode == 0, result.stderr
    scored = archqa("score", str(tmp_path / "run"), "--key", KEY, "--json")
    assert json.loads(scored.stdout)["scores"]["micro_f1"] > 50
