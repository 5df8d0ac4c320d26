"""A disk that is full, or a place that cannot be written: one error, and nothing half-written."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from archqa.errors import StorageError
from archqa.llm.model import Request
from archqa.llm.scripted import ScriptedModel
from archqa.runs.folder import RunFolder
from archqa.runs.predict import predict
from tests.runs.conftest import default_reply
from tests.safety.storage_tools import (
    archqa,
    assert_one_storage_error,
    files_of_at_most,
    no_more_open_files,
    tree,
)

ROOT = Path(__file__).resolve().parents[2]
MINI = ROOT / "data" / "mini" / "mini.json"
NOBODY = "http://127.0.0.1:9/v1"


@pytest.fixture(scope="module")
def finished_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("runs") / "mini"
    assert archqa("predict", "mini", "--out", folder, "--quiet").returncode == 0
    return folder


def test_a_file_in_the_place_of_the_runs_folder_is_one_error(tmp_path: Path) -> None:
    (tmp_path / "runs").write_text("a file")
    result = archqa("predict", "mini", "--quiet", cwd=tmp_path)
    assert_one_storage_error(result, "runs", "Not a directory")
    assert tree(tmp_path) == {"runs": b"a file"}


def test_a_name_that_is_too_long_is_one_error(
    finished_run: Path, tmp_path: Path
) -> None:
    name = "n" * 256
    result = archqa("predict", "mini", "--quiet", "--out", name, cwd=tmp_path)
    assert_one_storage_error(result, "File name too long", "out is no path")
    result = archqa("export", finished_run, "--out", name, cwd=tmp_path)
    assert_one_storage_error(result, "File name too long")
    assert tree(tmp_path) == {}


def test_too_many_open_files_is_one_error(tmp_path: Path) -> None:
    with no_more_open_files():
        result = archqa("cache", "info")
    assert_one_storage_error(result, "Too many open files", "unable to open")


def test_a_run_on_a_full_disk_ends_with_one_error_and_goes_on_when_there_is_space(
    tmp_path: Path,
) -> None:
    out = tmp_path / "run"
    arguments = ("predict", "mini", "--out", out, "--quiet")
    with files_of_at_most(9_000):
        result = archqa(*arguments)
    assert_one_storage_error(result, "File too large")
    assert "--resume" in result.stderr
    assert not [name for name in tree(out) if Path(name).name.startswith(".")]
    assert archqa(*arguments, "--resume").returncode == 0
    whole = tmp_path / "whole"
    assert archqa("predict", "mini", "--out", whole, "--quiet").returncode == 0
    assert (out / "submission.json").read_bytes() == (
        whole / "submission.json"
    ).read_bytes()


@pytest.mark.parametrize("size", [0, 100, 3_000, 6_000, 20_000, 60_000])
def test_wherever_the_disk_is_full_a_case_is_not_recorded_as_failed(
    size: int, tmp_path: Path
) -> None:
    out = tmp_path / "run"
    with files_of_at_most(size):
        result = archqa("predict", "mini", "--out", out, "--quiet")
    assert result.returncode in (0, 3)
    assert "Traceback" not in result.stderr
    records = out / "cases.jsonl"
    if records.is_file():
        assert b'"failed"' not in records.read_bytes()
    assert (
        archqa("predict", "mini", "--out", out, "--quiet", "--resume").returncode == 0
    )
    assert len(json.loads((out / "submission.json").read_text())) == 3


def test_a_failing_disk_shows_no_record_text(tmp_path: Path) -> None:
    with files_of_at_most(6_000):
        result = archqa("predict", "mini", "--out", tmp_path / "run", "--quiet")
    sentences = json.loads(MINI.read_text())[0]["sentences"]
    assert all(sentence["text"] not in result.stderr for sentence in sentences)


@pytest.mark.parametrize(
    "arguments",
    [
        ("export", "RUN", "--out", "/dev/full"),
        ("export", "RUN", "--format", "csv", "--out", "FOLDER"),
        ("export", "RUN", "--out", "FILE/submission.json"),
        ("show", "RUN", "--svg", "/dev/full"),
        ("show", "RUN", "--svg", "FOLDER"),
        ("report", "RUN", "--out", "/dev/full"),
        ("merge", "RUN", "--out", "FILE/merged"),
        ("ablate", "mini", "--model", "m", "--base-url", NOBODY, "--out", "FILE"),
        ("predict", "mini", "--resume", "--out", "FILE"),
        ("serve", "FILE"),
        ("fhir", "load", "FILE", "--into", "FOLDER"),
        ("cases", "check", "FOLDER"),
        ("score", "RUN", "--key", "FOLDER"),
    ],
    ids=lambda arguments: " ".join(arguments[:1] + arguments[-1:]),
)
def test_a_result_that_cannot_be_written_is_one_error(
    arguments: tuple[str, ...], finished_run: Path, tmp_path: Path
) -> None:
    (tmp_path / "FOLDER").mkdir()
    (tmp_path / "FILE").write_text("a file")
    places = {"RUN": str(finished_run)}
    result = archqa(*(places.get(word, word) for word in arguments), cwd=tmp_path)
    assert result.returncode in (2, 3), result
    assert "Traceback" not in result.stderr
    assert "\narchqa: " in f"\n{result.stderr}"
    assert tree(tmp_path) == {"FILE": b"a file"}


def test_a_run_whose_folder_vanishes_ends_with_one_error(tmp_path: Path) -> None:
    def reply(request: Request) -> str:
        shutil.rmtree(tmp_path / "run", ignore_errors=True)
        return default_reply(request)

    with pytest.raises(
        StorageError, match=r"run(/\S+)? cannot be read or written: No such file"
    ):
        predict(
            "mini",
            out=tmp_path / "run",
            scripted=ScriptedModel(reply),
            pipeline="dmis",
            cache=False,
        )
    assert list(tmp_path.iterdir()) == []


def test_a_line_that_the_disk_could_not_take_leaves_no_half(tmp_path: Path) -> None:
    folder = RunFolder.create(tmp_path / "run")
    folder.add_steps("1", ["a" * 50])
    with files_of_at_most(80), pytest.raises(StorageError):
        folder.add_steps("1", ["b" * 50])
    folder.add_steps("1", ["c"])
    (trace,) = (tmp_path / "run" / "trace").iterdir()
    assert trace.read_text().splitlines() == ["a" * 50, "c"]


def test_output_that_a_full_disk_cannot_take_is_one_error(finished_run: Path) -> None:
    program = "from archqa.cli.main import run; run()"
    command = [sys.executable, "-c", program, "export", str(finished_run)]
    with Path("/dev/full").open("w") as full:
        ended = subprocess.run(
            command,
            cwd=ROOT,
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
        )
    assert ended.returncode == 3
    headline, advice = ended.stderr.splitlines()
    assert headline == "archqa: The output cannot be written: No space left on device."
    assert "space" in advice


@pytest.mark.parametrize(
    ("arguments", "name"),
    [
        (("export", "RUN", "--format", "csv", "--out"), "answers.csv"),
        (("show", "RUN", "--svg"), "run.svg"),
        (("report", "RUN", "--out"), "report.html"),
    ],
)
def test_a_full_disk_leaves_an_earlier_result_whole(
    arguments: tuple[str, ...], name: str, finished_run: Path, tmp_path: Path
) -> None:
    earlier = tmp_path / name
    earlier.write_text("an earlier result")
    words = [str(finished_run) if word == "RUN" else word for word in arguments]
    with files_of_at_most(10):
        result = archqa(*words, earlier)
    assert_one_storage_error(result, "File too large")
    assert tree(tmp_path) == {name: b"an earlier result"}


def test_scores_that_cannot_be_stored_leave_the_run_as_it_was(
    finished_run: Path,
) -> None:
    before = tree(finished_run)
    with files_of_at_most(10):
        result = archqa("score", finished_run, "--metric", "bleu")
    assert_one_storage_error(result, "File too large")
    assert tree(finished_run) == before


def test_a_merge_on_a_full_disk_leaves_nothing_and_can_be_repeated(
    finished_run: Path, tmp_path: Path
) -> None:
    arguments = ("merge", finished_run, "--out", tmp_path / "merged")
    with files_of_at_most(6_000):
        result = archqa(*arguments)
    assert_one_storage_error(result, "File too large")
    assert not (tmp_path / "merged").exists()
    assert archqa(*arguments).returncode == 0


def test_a_batch_on_a_full_disk_is_one_error_and_can_be_repeated(
    tmp_path: Path,
) -> None:
    out = tmp_path / "run"
    options = ("--offline", "--model", "fake", "--base-url", "http://127.0.0.1:9/v1")
    with files_of_at_most(8_000):
        result = archqa("batch", "submit", "mini", "--out", out, *options)
    assert_one_storage_error(result, "File too large", "disk I/O error", "is full")
    target = out if (out / "run.json").is_file() else "mini"
    result = archqa("batch", "submit", target, "--out", out, *options)
    assert result.returncode == 0, result
    lines = (out / "batch" / "round-1.jsonl").read_text().splitlines()
    assert all(json.loads(line) for line in lines)


@pytest.fixture
def bundle(tmp_path: Path) -> Path:
    patients = [
        {"resourceType": "Patient", "id": f"p{number}"} for number in range(200)
    ]
    path = tmp_path / "patients.ndjson"
    path.write_text("".join(json.dumps(patient) + "\n" for patient in patients))
    return path


def test_a_record_on_a_full_disk_is_one_error_and_can_be_loaded_again(
    bundle: Path, tmp_path: Path
) -> None:
    record = tmp_path / "record.db"
    with files_of_at_most(50_000):
        result = archqa("fhir", "load", bundle, "--into", record, "--quiet")
    assert_one_storage_error(result, "record.db")
    result = archqa("fhir", "load", bundle, "--into", record, "--quiet")
    assert result.returncode == 0, result
    assert "200 added" in result.stdout


def test_a_record_that_a_full_disk_lets_nobody_begin_leaves_no_file(
    bundle: Path, tmp_path: Path
) -> None:
    record = tmp_path / "record.db"
    with files_of_at_most(1_000):
        result = archqa("fhir", "load", bundle, "--into", record, "--quiet")
    assert_one_storage_error(result, "record.db: cannot be read or written")
    assert not record.exists()


def test_shards_on_a_full_disk_are_removed(bundle: Path, tmp_path: Path) -> None:
    record, shards = tmp_path / "record.db", tmp_path / "shards"
    assert archqa("fhir", "load", bundle, "--into", record, "--quiet").returncode == 0
    arguments = ("fhir", "split", record, "--shards", 2, "--into", shards)
    with files_of_at_most(50_000):
        result = archqa(*arguments)
    assert_one_storage_error(result, "shards")
    assert not shards.exists()
    result = archqa(*arguments)
    assert result.returncode == 0, result


@pytest.mark.parametrize("command", ["get", "search", "card"])
def test_a_record_whose_pages_are_damaged_is_one_error(
    command: str, bundle: Path, tmp_path: Path
) -> None:
    record = tmp_path / "record.db"
    assert archqa("fhir", "load", bundle, "--into", record, "--quiet").returncode == 0
    content = record.read_bytes()
    page = 8192
    record.write_bytes(content[:page] + b"\xff" * (len(content) - page))
    arguments = {"get": ["Patient/p1"], "search": ["Patient?_id=p1"], "card": []}[
        command
    ]
    result = archqa("fhir", command, *arguments, "--record", record)
    assert result.returncode == 3, result
    assert "Traceback" not in result.stderr
    assert len(result.stderr.splitlines()) <= 2
