"""The Dockerfile, by its linter and by what the linter does not ask. No image is built here."""

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
INSTRUCTIONS = (
    (ROOT / "Dockerfile").read_text(encoding="utf-8").replace("\\\n", " ").splitlines()
)
CONTEXT = (ROOT / ".dockerignore").read_text(encoding="utf-8").splitlines()
SLIM = r"python:3\.\d+-slim"


def test_the_linter_finds_nothing() -> None:
    linter = shutil.which("hadolint", path=str(Path(sys.executable).parent))
    if linter is None:
        pytest.skip("hadolint is not installed; it is in the group dev")
    found = subprocess.run(
        [linter, "--no-color", "--failure-threshold", "style", "Dockerfile"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (found.returncode, found.stdout) == (0, "")


def test_every_stage_starts_from_a_slim_python_that_archqa_supports() -> None:
    stages = _arguments("FROM")
    assert len(stages) == 3
    for stage in stages:
        assert re.fullmatch(rf"{SLIM}( AS \w+)?", stage), stage


def test_the_container_runs_archqa_as_a_user_without_rights() -> None:
    last_stage = INSTRUCTIONS[_last("FROM") :]
    users = [line for line in last_stage if line.startswith("USER")]
    assert users == ["USER 10001"]
    assert 'ENTRYPOINT ["archqa"]' in last_stage
    assert "VOLUME /work/runs" in last_stage


def test_the_last_stage_copies_from_another_stage_only() -> None:
    copied = [line for line in INSTRUCTIONS[_last("FROM") :] if line.startswith("COPY")]
    assert copied == ["COPY --from=install /opt/archqa /opt/archqa"]
    assert _arguments("ADD") == []


def test_pip_keeps_no_cache_in_the_image() -> None:
    installs = [line for line in INSTRUCTIONS if "pip install" in line]
    assert installs
    assert [line for line in installs if "--no-cache-dir" not in line] == []


def test_the_build_sees_only_what_the_wheel_is_made_of() -> None:
    rules = [line for line in CONTEXT if line and not line.startswith("#")]
    assert rules[0] == "*", "all is left out but what is named"
    named = {rule[1:] for rule in rules if rule.startswith("!")}
    assert named == {
        *("archqa", "scoring", "prompts", "data/mini"),
        *("pyproject.toml", "README.md", "LICENSE"),
    }


def _arguments(instruction: str) -> list[str]:
    """Return what stands behind an instruction, for each line that has it."""
    start = f"{instruction} "
    return [line.removeprefix(start) for line in INSTRUCTIONS if line.startswith(start)]


def _last(instruction: str) -> int:
    """Return the index of the last line with an instruction."""
    return max(
        i for i, line in enumerate(INSTRUCTIONS) if line.startswith(f"{instruction} ")
    )
