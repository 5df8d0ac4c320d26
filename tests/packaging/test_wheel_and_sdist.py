"""What the wheel and the sdist hold, and how large they may be."""

import tarfile
import tomllib
import zipfile
from email import message_from_bytes
from email.message import Message
from pathlib import Path

import pytest

import archqa

ROOT = Path(__file__).resolve().parents[2]
MAX_WHEEL_MB = 34
"""The engine's networks are 32 of its 33 MB; they are as small as their weights' entropy allows."""
MAX_REST_MB = 6
"""Of the wheel without the engine's weights."""


@pytest.fixture(scope="session")
def wheel(built: Path) -> zipfile.ZipFile:
    [file] = built.glob("*.whl")
    return zipfile.ZipFile(file)


@pytest.fixture(scope="session")
def sdist_names(built: Path) -> set[str]:
    [file] = built.glob("*.tar.gz")
    with tarfile.open(file) as archive:
        return {name.split("/", 1)[1] for name in archive.getnames()}


@pytest.fixture(scope="session")
def metadata(wheel: zipfile.ZipFile) -> Message:
    [name] = [name for name in wheel.namelist() if name.endswith("METADATA")]
    return message_from_bytes(wheel.read(name))


def test_the_wheel_holds_only_the_two_packages(wheel: zipfile.ZipFile) -> None:
    rooms = {name.split("/")[0] for name in wheel.namelist()}
    assert rooms == {"archqa", "scoring", f"archqa-{archqa.__version__}.dist-info"}


def test_the_wheel_holds_no_tests_no_training_and_no_development_cases(
    wheel: zipfile.ZipFile,
) -> None:
    parts = {part for name in wheel.namelist() for part in Path(name).parts}
    assert parts.isdisjoint({"tests", "training", "dev.json", "private", "examples"})


def test_the_wheel_holds_every_other_file_of_the_packages(
    wheel: zipfile.ZipFile,
) -> None:
    names = set(wheel.namelist())
    files = [*_files("archqa"), *_files("scoring")]
    left_out = [name for name in files if name not in names]
    assert len(files) > 500
    assert left_out == ["archqa/engine/README.md"]


@pytest.mark.parametrize("folder", ["prompts", "data/mini"])
def test_the_wheel_holds_the_prompts_and_the_bundled_cases(
    wheel: zipfile.ZipFile, folder: str
) -> None:
    files = _files(folder)
    assert files
    for name in files:
        assert wheel.read(f"archqa/_bundled/{name}") == (ROOT / name).read_bytes(), name


def test_the_wheel_is_no_larger_than_its_networks_need(wheel: zipfile.ZipFile) -> None:
    weights = [
        each for each in wheel.infolist() if each.filename.endswith((".npz", ".onnx"))
    ]
    all_bytes = sum(each.compress_size for each in wheel.infolist())
    assert all_bytes < MAX_WHEEL_MB * 1e6
    assert all_bytes - sum(each.compress_size for each in weights) < MAX_REST_MB * 1e6


def test_the_wheel_has_the_version_the_licences_and_the_command(
    wheel: zipfile.ZipFile, metadata: Message
) -> None:
    names = {Path(name).name for name in wheel.namelist() if ".dist-info/" in name}
    assert metadata["Version"] == archqa.__version__
    assert metadata["License-Expression"] == "MIT"
    assert {"LICENSE", "LICENSE-apache-2.0.txt", "entry_points.txt"} <= names


def test_a_base_install_asks_for_nothing_that_only_an_extra_needs(
    metadata: Message,
) -> None:
    base = {
        _name(line)
        for line in metadata.get_all("Requires-Dist", [])
        if "extra ==" not in line
    }
    optional = {
        "torch",
        "transformers",
        "fastapi",
        "uvicorn",
        "mcp",
        "ray",
        "pypdf",
        "inspect-ai",
    }
    assert base
    assert base.isdisjoint(optional)


def test_the_sdist_holds_what_its_tests_read(sdist_names: set[str]) -> None:
    needed = [
        "Makefile",
        "pyproject.toml",
        "CONTRIBUTING.md",
        "data/dev.json",
        ".ci/run",
    ]
    folders = ["tests", "docs", "examples", "prompts", "training"]
    for folder in folders:
        needed.extend(_files(folder))
    assert set(needed) <= sdist_names


def test_the_sdist_holds_no_private_notes_and_no_runs(sdist_names: set[str]) -> None:
    private = ("data/private/", "runs/", ".venv/", ".git/", "dist/")
    assert [name for name in sdist_names if name.startswith(private)] == []


def test_the_python_versions_named_are_those_that_can_install_it(
    metadata: Message,
) -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))[
        "project"
    ]
    named = [
        line.rsplit(" ", 1)[1]
        for line in project["classifiers"]
        if "Python :: 3." in line
    ]
    assert named == ["3.11", "3.12", "3.13"]
    assert metadata["Requires-Python"] == f">={named[0]}"


def _files(folder: str) -> list[str]:
    """Return the files of a folder as the checkout names them, without what tools leave behind."""
    files = (path for path in (ROOT / folder).rglob("*") if path.is_file())
    return [
        path.relative_to(ROOT).as_posix()
        for path in files
        if "__pycache__" not in path.parts and path.suffix != ".pyc"
    ]


def _name(requirement: str) -> str:
    """Return the package of a line of `Requires-Dist`."""
    for mark in "<>=!~;[ ":
        requirement = requirement.split(mark)[0]
    return requirement
