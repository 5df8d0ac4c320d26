"""What a failing server, and `--quiet`, leave on stderr."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.test_commands import ROOT, CommandResult
from tests.fakes.server import FakeServer

FAST_RETRIES = ("--set", "tries=3", "--set", "retries.first_wait=0.001")
KEY = ROOT / "data" / "mini" / "mini_key.json"


def archqa(*arguments: str, cwd: Path) -> CommandResult:
    """Run the command in a process of its own: logging is set up once in a process."""
    process = subprocess.run(
        [sys.executable, "-m", "archqa", *arguments],
        cwd=cwd,
        capture_output=True,
        text=True,
        timeout=60,
        env={"PATH": "", "PYTHONPATH": str(ROOT), "HOME": str(cwd)},
    )
    return CommandResult(process.returncode, process.stdout, process.stderr)


def asked_of(server: FakeServer, *options: str) -> tuple[str, ...]:
    return (
        "--base-url",
        server.base_url,
        "--model",
        "m",
        "--jobs",
        "2",
        *FAST_RETRIES,
        *options,
    )


@pytest.mark.parametrize("fault", ["503", "html-502"])
def test_retries_are_summed_up_in_one_line_a_reason(fault: str, tmp_path: Path) -> None:
    with FakeServer(f"{fault},first=2") as server:
        options = asked_of(server, "--pipeline", "dmis", "--limit", "1", "--yes")
        result = archqa("predict", "mini", *options, cwd=tmp_path)
        repeated = server.requests.outcomes[fault]
    assert result.returncode == 0, result.stderr
    lines = [line for line in result.stderr.splitlines() if "were sent again" in line]
    assert lines == [f"archqa: {repeated} requests were sent again: HTTP {fault[-3:]}"]
    assert "stamina" not in result.stderr


def test_verbose_logs_each_retry(tmp_path: Path) -> None:
    with FakeServer("503,first=2") as server:
        options = asked_of(
            server, "--limit", "1", "--yes", "--verbose", "--pipeline", "dmis"
        )
        result = archqa("predict", "mini", *options, cwd=tmp_path)
        assert (
            result.stderr.count("stamina.retry_scheduled")
            == server.requests.outcomes["503"]
        )


@pytest.mark.parametrize("flag", ["-q", "--quiet"])
def test_a_quiet_run_on_a_shaky_server_prints_its_folder_and_nothing_else(
    flag: str, tmp_path: Path
) -> None:
    with FakeServer("503,first=2", "refusal@0.2") as server:
        out = tmp_path / "run"
        options = asked_of(server, "--pipeline", "dmis", "--out", str(out))
        result = archqa("predict", "mini", *options, flag, cwd=tmp_path)
    assert (result.returncode, result.stdout, result.stderr) == (0, f"{out}\n", "")


def test_a_quiet_run_on_a_dead_server_prints_one_error(tmp_path: Path) -> None:
    with FakeServer("500,always") as server:
        result = archqa("predict", "mini", *asked_of(server), "-q", cwd=tmp_path)
    assert result.returncode == 4
    headline, *advice = result.stderr.splitlines()
    assert headline.startswith("archqa: The model's server failed 3 times")
    assert len(advice) == 2
    assert advice[1].strip() == "--resume goes on where this run stopped."


def test_a_quiet_embedded_run_says_nothing(tmp_path: Path) -> None:
    result = archqa("predict", "mini", "-q", "--limit", "1", cwd=tmp_path)
    assert (result.returncode, result.stderr) == (0, "")


def test_an_ablation_is_quiet_too(tmp_path: Path) -> None:
    with FakeServer("503,first=1") as server:
        options = asked_of(server, "--limit", "1", "--key", str(KEY), "--json", "-q")
        result = archqa("ablate", "mini", *options, cwd=tmp_path)
    assert (result.returncode, result.stderr) == (0, "")
    assert json.loads(result.stdout)


@pytest.mark.parametrize("flag", ["-q", "--quiet"])
def test_a_quiet_load_prints_what_was_left_out_and_no_notice(
    flag: str, tmp_path: Path
) -> None:
    data = tmp_path / "data"
    data.mkdir()
    (data / "other.json").write_text('{"name": "no resource"}')
    (data / "good.ndjson").write_text('{"resourceType": "Patient", "id": "a"}\n')
    load = ("fhir", "load", "data", "--into", "record.db")
    fine = archqa(*load, flag, cwd=tmp_path)
    assert (fine.returncode, fine.stderr) == (0, "")
    (data / "bad.ndjson").write_text('{"resourceType": "Patient"}\n')
    bad = archqa(*load, flag, cwd=tmp_path)
    assert bad.returncode == 1
    assert len(bad.stderr.splitlines()) == 1
    assert "bad.ndjson:1" in bad.stderr
