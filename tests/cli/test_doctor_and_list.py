"""`archqa doctor` names every optional part, and `archqa list pipelines` the tasks of each."""

import json
import re
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest

from archqa import tasks
from archqa.tasks import pipelines
from tests.cli.test_commands import archqa

ROOT = Path(__file__).resolve().parents[2]


def doctor() -> dict[str, dict[str, Any]]:
    checks: dict[str, dict[str, Any]] = json.loads(archqa("doctor", "--json").stdout)
    return checks


def known_extras() -> set[str]:
    return {
        part.removeprefix("extra ") for part in doctor() if part.startswith("extra ")
    }


def test_every_extra_of_the_package_is_known() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))[
        "project"
    ]
    assert known_extras() == set(project["optional-dependencies"])


def test_every_extra_that_code_asks_for_is_known() -> None:
    asked = set()
    for path in (ROOT / "archqa").glob("**/*.py"):
        code = path.read_text(encoding="utf-8")
        asked.update(
            re.findall(r'MissingExtra\([^)]*?,\s*(?:extra=)?"(\w+)"', code, re.DOTALL)
        )
    assert asked
    assert asked <= known_extras()


def test_doctor_says_what_every_extra_gives_and_how_to_install_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def find_spec(module: str, package: str | None = None) -> object:
        return None if module == "pypdf" else "there"

    monkeypatch.setattr("importlib.util.find_spec", find_spec)
    text = archqa("doctor").stdout
    assert "absent  extra pdf: notes that are PDF files" in text
    assert "pip install 'archqa[pdf]' (absent: pypdf)" in text
    assert "ok      extra server: archqa fhir serve" in text


def test_a_module_is_looked_for_without_importing_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delitem(sys.modules, "pypdf", raising=False)
    assert doctor()["extra pdf"]["ok"]
    assert "pypdf" not in sys.modules


def test_pipelines_are_listed_below_their_tasks() -> None:
    _, *lines = archqa("list", "pipelines").stdout.splitlines()
    heads = [line for line in lines if not line.startswith(" ")]
    assert sorted(
        ", ".join(head.removeprefix("for ") for head in heads).split(", ")
    ) == sorted(tasks.names())
    for head in heads:
        below = lines[lines.index(head) + 1 :]
        end = next((at for at, line in enumerate(below) if line in heads), len(below))
        listed = [line.split()[0] for line in below[:end]]
        for task in head.removeprefix("for ").split(", "):
            assert listed == [pipeline.name for pipeline in pipelines.for_task(task)]
