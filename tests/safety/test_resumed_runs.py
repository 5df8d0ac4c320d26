"""A run goes on after a kill at any moment, one process at a time, whatever other runs look like."""

import json
import logging
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from archqa.runs.run import Run
from archqa.safety import files
from tests.safety.storage_tools import archqa, tree

ROOT = Path(__file__).resolve().parents[2]
HOLD = """
import sys, time
from pathlib import Path
from archqa.runs.folder import run_lock
with run_lock(Path(sys.argv[1])):
    print("held", flush=True)
    time.sleep(60)
"""


@pytest.fixture(scope="module")
def finished_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("runs") / "mini"
    assert archqa("predict", "mini", "--out", folder, "--quiet").returncode == 0
    return folder


@pytest.fixture
def unfinished_run(finished_run: Path, tmp_path: Path) -> Path:
    """The same run, killed before its last case ended, in the folder `runs`."""
    run = tmp_path / "runs" / "mini"
    for name, content in tree(finished_run).items():
        (run / name).parent.mkdir(parents=True, exist_ok=True)
        (run / name).write_bytes(content)
    (run / "submission.json").unlink()
    records = (run / "cases.jsonl").read_text().splitlines(keepends=True)
    (run / "cases.jsonl").write_text("".join(records[:-1]) + records[-1][:40])
    change_manifest(run, status="running", ended_at=None)
    return run


def change_manifest(run: Path, **changes: object) -> None:
    manifest = json.loads((run / "run.json").read_text())
    (run / "run.json").write_text(json.dumps(manifest | changes))


@pytest.fixture
def holder(unfinished_run: Path) -> Iterator["subprocess.Popen[str]"]:
    """Another process that works on the unfinished run."""
    command = [sys.executable, "-c", HOLD, str(unfinished_run)]
    process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "held\n"
    yield process
    process.kill()
    process.wait()


def kill_and_resume(tmp_path: Path, stride: int) -> dict[str, object]:
    command = [
        sys.executable,
        "-m",
        "tests.safety.killed_runs",
        str(tmp_path),
        str(stride),
    ]
    ended = subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, check=True
    )
    result: dict[str, object] = json.loads(ended.stdout)
    return result


def test_a_run_killed_at_any_operation_is_resumed_to_the_same_predictions(
    tmp_path: Path,
) -> None:
    result = kill_and_resume(tmp_path, stride=13)
    kills = result.pop("kills")
    assert isinstance(kills, int)
    assert kills > 18
    assert result == {"not_resumed": [], "different": [], "leftovers": []}


@pytest.mark.long
def test_a_run_killed_at_every_operation_is_resumed(tmp_path: Path) -> None:
    result = kill_and_resume(tmp_path, stride=1)
    assert result == {
        "kills": result["kills"],
        "not_resumed": [],
        "different": [],
        "leftovers": [],
    }


@pytest.mark.parametrize(
    "lost", ["input.jsonl", "cases.jsonl", "trace", "submission.json"]
)
def test_a_run_that_lost_a_file_goes_on(
    lost: str, unfinished_run: Path, finished_run: Path, tmp_path: Path
) -> None:
    (unfinished_run / lost).rename(tmp_path / "lost") if (
        unfinished_run / lost
    ).exists() else None
    result = archqa("predict", "mini", "--out", unfinished_run, "--resume", "--quiet")
    assert result.returncode == 0, result
    expected = (finished_run / "submission.json").read_bytes()
    assert (unfinished_run / "submission.json").read_bytes() == expected
    assert len(Run.open(unfinished_run).cases) == 3


@pytest.mark.parametrize("kept", [0, 50, 3_000])
def test_cases_that_a_power_cut_shortened_are_written_again(
    kept: int, unfinished_run: Path, finished_run: Path
) -> None:
    whole = (finished_run / "input.jsonl").read_bytes()
    (unfinished_run / "input.jsonl").write_bytes(whole[:kept])
    result = archqa("predict", "mini", "--out", unfinished_run, "--resume", "--quiet")
    assert result.returncode == 0, result
    assert (unfinished_run / "input.jsonl").read_bytes() == whole


def test_a_folder_with_files_of_somebody_else_is_not_taken(tmp_path: Path) -> None:
    (tmp_path / "input.jsonl").write_text("mine")
    for options in ([], ["--resume"]):
        result = archqa("predict", "mini", "--out", tmp_path, "--quiet", *options)
        assert (result.returncode, "exists already" in result.stderr) == (2, True)
    assert tree(tmp_path) == {"input.jsonl": b"mine"}


@pytest.mark.parametrize("options", [["--resume"], []])
def test_a_second_process_learns_who_works_on_the_run(
    options: list[str], unfinished_run: Path, holder: "subprocess.Popen[str]"
) -> None:
    before = tree(unfinished_run)
    result = archqa("predict", "mini", "--out", unfinished_run, "--quiet", *options)
    assert result.returncode == 2
    assert (
        f"is being worked on by process {holder.pid} on {os.uname().nodename}"
        in result.stderr
    )
    assert tree(unfinished_run) == before


def test_the_latest_unfinished_run_is_not_taken_from_another_process(
    unfinished_run: Path, holder: "subprocess.Popen[str]"
) -> None:
    folder = unfinished_run.parent.parent
    result = archqa("predict", "mini", "--resume", "--quiet", cwd=folder)
    assert (result.returncode, f"process {holder.pid}" in result.stderr) == (2, True)


@pytest.mark.parametrize("command", ["merge", "fetch", "submit"])
def test_a_run_in_progress_is_neither_merged_nor_batched(
    command: str, unfinished_run: Path, holder: "subprocess.Popen[str]", tmp_path: Path
) -> None:
    change_manifest(unfinished_run, pipeline="dmis")
    rounds = unfinished_run / "batch" / "rounds.json"
    rounds.parent.mkdir()
    rounds.write_text(json.dumps([{"number": 1, "digests": []}]))
    commands = {
        "merge": ["merge", unfinished_run, "--out", tmp_path / "merged", "--partial"],
        "fetch": ["batch", "fetch", unfinished_run],
        "submit": ["batch", "submit", unfinished_run, "--offline"],
    }
    result = archqa(*commands[command])
    assert (result.returncode, f"process {holder.pid}" in result.stderr) == (2, True)
    assert not (tmp_path / "merged").exists()


def test_a_killed_process_holds_no_lock(
    unfinished_run: Path, holder: "subprocess.Popen[str]"
) -> None:
    holder.send_signal(signal.SIGKILL)
    holder.wait()
    assert (unfinished_run / "run.lock").is_file()
    result = archqa("predict", "mini", "--out", unfinished_run, "--resume", "--quiet")
    assert result.returncode == 0, result
    assert not (unfinished_run / "run.lock").exists()


def test_without_locks_a_run_goes_on_and_its_remarks_say_so(
    unfinished_run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(files, "fcntl", None)
    result = archqa("predict", "mini", "--out", unfinished_run, "--resume", "--quiet")
    assert result.returncode == 0, result
    remarks = json.loads((unfinished_run / "run.json").read_text())["remarks"]
    assert any("no locks" in remark for remark in remarks)


@pytest.fixture
def damaged_runs(unfinished_run: Path) -> list[Path]:
    """Runs with a later name than the unfinished one, each damaged in another way."""
    manifest = json.loads((unfinished_run / "run.json").read_text())
    contents = {
        "z1": b"",
        "z2": b"\xff\xfe",
        "z3": b"[" * 100_000,
        "z4": b"{}",
        "z5": json.dumps(manifest | {"schema_version": 99}).encode(),
        "z6": json.dumps(manifest | {"settings": {"pipelines": [1]}}).encode(),
        "z7": json.dumps(
            manifest | {"settings": {"pipelines": {"embedded": 7}}}
        ).encode(),
    }
    folders = []
    for name, content in contents.items():
        folder = unfinished_run.parent / name
        folder.mkdir()
        (folder / "run.json").write_bytes(content)
        folders.append(folder)
    return folders


def test_a_damaged_run_does_not_keep_another_from_being_resumed(
    unfinished_run: Path, damaged_runs: list[Path], caplog: pytest.LogCaptureFixture
) -> None:
    folder = unfinished_run.parent.parent
    with caplog.at_level(logging.WARNING):
        result = archqa("predict", "mini", "--resume", cwd=folder)
    assert result.returncode == 0, result
    assert json.loads((unfinished_run / "run.json").read_text())["status"] == "finished"
    (warning,) = [
        record.getMessage() for record in caplog.records if "damaged" in record.msg
    ]
    assert all(f"runs/{damaged.name}" in warning for damaged in damaged_runs[:5])


def test_the_list_of_runs_names_the_damaged_ones(
    unfinished_run: Path, damaged_runs: list[Path]
) -> None:
    line = "not a record of a case\n"
    (damaged_runs[-1] / "cases.jsonl").write_text(line)
    (damaged_runs[-1].parent / "other").mkdir()
    result = archqa("list", "runs", cwd=unfinished_run.parent.parent)
    assert result.returncode == 0, result
    assert "runs/mini  running" in result.stdout
    lines = result.stdout.splitlines()
    for damaged in damaged_runs[:5]:
        assert any(line.startswith(f"runs/{damaged.name}  damaged: ") for line in lines)
    assert "not a record" not in result.stdout + result.stderr


def test_a_lock_costs_a_run_nothing_that_can_be_felt(tmp_path: Path) -> None:
    started = time.process_time()
    for _ in range(100):
        descriptor = files.acquire_lock(tmp_path / "lock")
        assert descriptor is not None
        files.release_lock(tmp_path / "lock", descriptor)
    assert time.process_time() - started < 0.5


def test_a_pipe_in_the_place_of_a_description_does_not_stop_a_resumption(
    unfinished_run: Path,
) -> None:
    pipe = unfinished_run.parent / "pipe"
    pipe.mkdir()
    os.mkfifo(pipe / "run.json")
    command = [sys.executable, "-m", "archqa", "predict", "mini", "--resume"]
    result = subprocess.run(
        command,
        cwd=unfinished_run.parents[1],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=30,
    )
    assert result.returncode == 0, result.stderr
    assert "runs/pipe" in result.stderr
    assert Run.open(unfinished_run).manifest.status == "finished"
