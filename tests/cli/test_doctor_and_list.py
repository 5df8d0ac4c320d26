"""`archqa doctor` names every optional part, and `archqa list pipelines` the tasks of each."""

import re
import tomllib
from pathlib import Path

import pytest

from archqa import tasks
from archqa.core.extras import Extra, known_extras
from archqa.tasks import pipelines
from tests.cli.test_commands import archqa

ROOT = Path(__file__).resolve().parents[2]


def test_every_extra_of_the_package_is_known() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert {extra.name for extra in known_extras()} == set(project["optional-dependencies"])


def test_every_extra_that_code_asks_for_is_known() -> None:
    asked = set()
    for path in (ROOT / "archqa").glob("**/*.py"):
        code = path.read_text(encoding="utf-8")
        asked.update(re.findall(r'MissingExtra\([^)]*?,\s*(?:extra=)?"(\w+)"', code, re.DOTALL))
    assert asked
    assert asked <= {extra.name for extra in known_extras()}


def test_doctor_names_every_extra_with_what_it_gives_and_how_to_install_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("archqa.core.extras._is_installed", lambda module: module != "pypdf")
    text = archqa("doctor").stdout
    assert "absent  extra pdf: notes that are PDF files" in text
    assert "pip install 'archqa[pdf]'" in text
    for extra in known_extras():
        assert f"extra {extra.name}: {extra.gives}" in text


def test_a_module_is_looked_for_without_importing_it() -> None:
    assert Extra("x", ("json", "no_such_module"), "nothing").missing == ("no_such_module",)


def test_pipelines_are_listed_below_their_tasks() -> None:
    _, *lines = archqa("list", "pipelines").stdout.splitlines()
    heads = [line for line in lines if not line.startswith(" ")]
    assert sorted(", ".join(head.removeprefix("for ") for head in heads).split(", ")) == sorted(
        tasks.names()
    )
    for head in heads:
        below = lines[lines.index(head) + 1 :]
        end = next((at for at, line in enumerate(below) if line in heads), len(below))
        listed = [line.split()[0] for line in below[:end]]
        for task in head.removeprefix("for ").split(", "):
            assert listed == [pipeline.name for pipeline in pipelines.for_task(task)]
