"""Files with record text are readable by their owner alone, also where another file was before."""

import os
import stat
import threading
from collections.abc import Iterator
from pathlib import Path

import httpx2
import pytest

from archqa import fhir
from archqa.llm.server import ModelServer
from tests.asking.test_asking import small_record
from tests.safety.command_line import archqa, synthetic_run


@pytest.fixture(autouse=True)
def umask_that_hides_nothing() -> Iterator[None]:
    earlier = os.umask(0)
    yield
    os.umask(earlier)


@pytest.fixture
def run(tmp_path: Path) -> Path:
    return synthetic_run(tmp_path)


def mode_of(path: Path) -> str:
    return oct(stat.S_IMODE(path.stat().st_mode))


def readable_file(path: Path) -> Path:
    path.write_text("what was there before\n")
    path.chmod(0o644)
    return path


def assert_replaced(path: Path, *command: str) -> None:
    """A command writes a private file, and who had the former file open reads nothing new."""
    with readable_file(path).open() as reader:
        result = archqa(*command)
        assert result.returncode == 0, result.stderr
        assert reader.read() == "what was there before\n"
    assert mode_of(path) == "0o600"
    assert "what was there before" not in path.read_text(errors="replace")


@pytest.mark.parametrize(
    ("format_name", "file_name"),
    [
        ("archehr-2025", "submission.json"),
        ("archehr-2025", "submission.zip"),
        ("csv", "answers.csv"),
        ("jsonl", "answers.jsonl"),
    ],
)
def test_an_export_is_private(
    run: Path, tmp_path: Path, format_name: str, file_name: str
) -> None:
    out = tmp_path / file_name
    assert_replaced(out, "export", str(run), "--format", format_name, "--out", str(out))


def test_a_picture_of_a_run_is_private(run: Path, tmp_path: Path) -> None:
    picture = tmp_path / "case.svg"
    assert_replaced(picture, "show", str(run), "s1", "--svg", str(picture))


def test_a_report_is_private(run: Path, tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    assert_replaced(page, "report", str(run), "--out", str(page))


def test_a_report_in_the_run_folder_is_private(run: Path) -> None:
    assert_replaced(run / "report.html", "report", str(run))


def test_the_scores_in_the_organisers_files_are_private(
    run: Path, tmp_path: Path
) -> None:
    official = tmp_path / "scores.json"
    about = readable_file(tmp_path / "scores.about.json")
    assert_replaced(official, "score", str(run), "--official-json", str(official))
    assert mode_of(about) == "0o600"


def test_the_requests_of_a_batch_are_private(tmp_path: Path) -> None:
    run = tmp_path / "run"
    command = (
        "batch",
        "submit",
        "mini",
        "--model",
        "m",
        "--offline",
        "--out",
        str(run),
    )
    assert archqa(*command).returncode == 0
    requests = run / "batch" / "round-1.jsonl"
    text = requests.read_text()
    (run / "batch" / "rounds.json").write_text("[]")
    assert_replaced(requests, "batch", "submit", str(run), "--offline")
    assert requests.read_text() == text


async def test_the_replies_of_a_batch_are_private(tmp_path: Path) -> None:
    path = readable_file(tmp_path / "round-1.file-1.out.jsonl")
    transport = httpx2.MockTransport(lambda _: httpx2.Response(200, content=b"{}"))
    async with ModelServer(
        "http://127.0.0.1:1/v1", "key", transport=transport
    ) as server:
        await server.save_file("file-1", path)
    assert mode_of(path) == "0o600"


def test_a_merged_run_is_private(tmp_path: Path) -> None:
    for shard in ("1", "2"):
        part = str(tmp_path / f"part{shard}")
        result = archqa("predict", "mini", "--shard", f"{shard}/2", "--out", part, "-q")
        assert result.returncode == 0, result.stderr
    merged = tmp_path / "merged"
    parts = (str(tmp_path / "part1"), str(tmp_path / "part2"))
    assert archqa("merge", *parts, "--out", str(merged)).returncode == 0
    assert_all_private(merged)


def assert_all_private(folder: Path) -> None:
    assert mode_of(folder) == "0o700"
    for path in folder.rglob("*"):
        assert mode_of(path) == ("0o700" if path.is_dir() else "0o600"), path


def test_the_shards_of_a_record_are_private(tmp_path: Path) -> None:
    store = small_record(tmp_path)
    shards = tmp_path / "shards"
    result = archqa("fhir", "split", str(store), "--shards", "2", "--into", str(shards))
    assert result.returncode == 0, result.stderr
    assert_all_private(shards)


def test_an_audit_log_that_everybody_could_read_becomes_private(tmp_path: Path) -> None:
    path = readable_file(tmp_path / "audit.jsonl")
    entry = fhir.AuditEntry(
        at="2131-12-31", who="agent", mode="apply", method="POST", url="/Patient", payload={},
        status=201,
    )  # fmt: skip
    fhir.AuditLog(path).add(entry)
    assert mode_of(path) == "0o600"
    assert path.read_text().startswith("what was there before\n")


@pytest.mark.parametrize("command", ["export", "report"])
def test_a_pipe_is_written_to_directly(run: Path, command: str) -> None:
    reading, writing = os.pipe()
    options = ["--format", "csv"] if command == "export" else []
    content = bytearray()
    reader = threading.Thread(target=_read_all, args=(reading, content))
    reader.start()
    result = archqa(command, str(run), *options, "--out", f"/dev/fd/{writing}")
    os.close(writing)
    reader.join()
    assert result.returncode == 0, result.stderr
    assert len(content) > 100


def _read_all(descriptor: int, content: bytearray) -> None:
    while part := os.read(descriptor, 65536):
        content += part
    os.close(descriptor)
