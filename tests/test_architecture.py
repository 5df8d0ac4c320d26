"""The architecture that docs/architecture.md describes, checked against the code."""

import ast
import importlib.util
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

import archqa

ROOT = Path(__file__).resolve().parent.parent
SOURCE_FILES = sorted([*ROOT.glob("archqa/**/*.py"), *ROOT.glob("scoring/**/*.py")])

PACKAGES = {
    "cli",
    "web",
    "mcp",
    "report",
    "review",
    "asking",
    "briefing",
    "integrations",
    "evaluation",
    "runs",
    "settings",
    "tasks",
    "panel",
    "agents",
    "chart",
    "engine",
    "query",
    "notes",
    "fhir",
    "llm",
    "terminology",
    "core",
    "safety",
}


@pytest.mark.skipif(not (ROOT / ".git").exists(), reason="asks git; an sdist has none")
def test_the_repository_has_the_documented_top_level() -> None:
    git = ["git", "ls-files"]
    listing = subprocess.run(git, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    top_level = {name.split("/")[0] for name in listing.splitlines()}
    assert top_level == {
        *("archqa", "prompts", "scoring", "tests", "data", "docs", "examples"),
        *("README.md", "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md", "LICENSE"),
        *("CITATION.cff", "CODE_OF_CONDUCT.md", "Dockerfile", ".dockerignore", ".github"),
        *("pyproject.toml", "Makefile", "mkdocs.yml", ".ci", ".gitignore"),
    }


def test_the_library_has_the_packages_of_the_architecture() -> None:
    packages = {path.parent.name for path in (ROOT / "archqa").glob("*/__init__.py")}
    assert packages == PACKAGES


def test_the_picture_of_the_architecture_is_up_to_date() -> None:
    script = ROOT / "docs" / "draw_architecture.py"
    spec = importlib.util.spec_from_file_location("draw_architecture", script)
    assert spec is not None
    assert spec.loader is not None
    draw_architecture = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(draw_architecture)
    picture = (ROOT / "docs" / "architecture.svg").read_text(encoding="utf-8")
    assert picture == draw_architecture.draw(), "run `python docs/draw_architecture.py`"


def test_no_file_has_a_vague_name() -> None:
    vague = {"utils", "util", "common", "helpers", "misc"}
    assert [path for path in SOURCE_FILES if path.stem in vague] == []


def test_files_have_at_most_400_lines() -> None:
    too_long = []
    for path in SOURCE_FILES:
        line_count = len(path.read_text(encoding="utf-8").splitlines())
        if line_count > 400:
            too_long.append(f"{path.relative_to(ROOT)}: {line_count} lines")
    assert not too_long, "\n".join(too_long)


def test_event_loops_begin_in_one_place() -> None:
    """A Ctrl-C within a loop's constructor ends in a traceback: `run_sync` defers it."""
    starts = re.compile(r"asyncio\.(?:run|Runner|new_event_loop)\(")
    starting = [path for path in SOURCE_FILES if starts.search(path.read_text(encoding="utf-8"))]
    assert starting == [ROOT / "archqa" / "runs" / "event_loop.py"]


def test_functions_have_at_most_50_lines() -> None:
    too_long = []
    for path in SOURCE_FILES:
        for function in _functions(path):
            line_count = _body_lines(function)
            if line_count > 50:
                position = f"{path.relative_to(ROOT)}:{function.lineno}"
                too_long.append(f"{position} {function.name}: {line_count} lines")
    assert not too_long, "\n".join(too_long)


def test_prompts_are_files_and_not_code() -> None:
    prompt_text = re.compile(
        r"\byou are an? (?:board|skilled|experienced|physician|medical|helpful)", re.IGNORECASE
    )
    for path in SOURCE_FILES:
        assert not prompt_text.search(path.read_text(encoding="utf-8")), path


def test_only_the_command_lines_print_or_exit() -> None:
    command_lines = (ROOT / "archqa" / "cli", ROOT / "scoring" / "__main__.py")
    for path in SOURCE_FILES:
        if any(path.is_relative_to(command_line) for command_line in command_lines):
            continue
        assert not _called_names(path) & {"print", "exit", "quit", "input"}, path


def test_importing_a_core_module_imports_no_heavy_package() -> None:
    heavy = "('aiohttp', 'httpx2', 'onnxruntime', 'typer')"
    program = (
        f"import sys, archqa.core.case; print([m for m in sys.modules if m.startswith({heavy})])"
    )
    python = [sys.executable, "-c", program]
    finished = subprocess.run(python, cwd=ROOT, capture_output=True, text=True, check=True)
    assert finished.stdout.strip() == "[]"


def test_the_version_is_written_once_and_is_in_the_changelog() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert "version" in project["dynamic"]
    assert f"## {archqa.__version__}" in (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")


def _functions(path: Path) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node


def _body_lines(function: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    """Count the lines of the body without its docstring.

    The signature does not count: that of a command lists all its options.
    """
    body = function.body
    if ast.get_docstring(function):
        body = body[1:]
    if not body:
        return 0
    return (body[-1].end_lineno or 0) - body[0].lineno + 1


def _called_names(path: Path) -> set[str]:
    """Return the names of the functions that a file calls by a plain name."""
    names = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            names.add(node.func.id)
    return names
