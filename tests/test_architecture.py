"""The plan of the house, checked."""

import ast
import re
import subprocess
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PYTHON = sorted([*ROOT.glob("archqa/**/*.py"), *ROOT.glob("scoring/**/*.py")])

PACKAGES = {
    "cli",
    "web",
    "report",
    "ask",
    "evaluation",
    "runs",
    "settings",
    "tasks",
    "panel",
    "agents",
    "engine",
    "query",
    "notes",
    "fhir",
    "llm",
    "core",
}


def test_the_top_level_is_the_one_the_plan_names() -> None:
    tracked = subprocess.run(
        ["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout.split("\n")
    top = {name.split("/")[0] for name in tracked if name}
    named = {"archqa", "prompts", "scoring", "tests", "data", "README.md", "pyproject.toml"}
    beside = {"CHANGELOG.md", "CONTRIBUTING.md", "LICENSE", "Makefile", ".ci", ".gitignore", "docs"}
    assert top - beside == named


def test_the_library_has_the_packages_of_the_architecture() -> None:
    packages = {path.parent.name for path in (ROOT / "archqa").glob("*/__init__.py")}
    assert packages == PACKAGES


def test_no_file_is_a_drawer_for_everything_or_longer_than_one_can_read() -> None:
    vague = {"utils", "util", "common", "helpers", "misc"}
    lengths = {path: len(path.read_text(encoding="utf-8").splitlines()) for path in PYTHON}
    assert [path for path in PYTHON if path.stem in vague] == []
    assert [path for path, length in lengths.items() if length > 400] == []


def test_functions_stay_short() -> None:
    long = [
        f"{path.relative_to(ROOT)}:{node.lineno} {node.name}: {_statement_lines(node)} lines"
        for path in PYTHON
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and _statement_lines(node) > 50
    ]
    assert not long, "\n".join(long)


def test_prompts_are_files_and_not_code() -> None:
    said_in_code = re.compile(
        r"\byou are an? (?:board|skilled|experienced|physician|medical|helpful)", re.IGNORECASE
    )
    assert [path for path in PYTHON if said_in_code.search(path.read_text(encoding="utf-8"))] == []


def test_the_library_neither_prints_nor_exits() -> None:
    street_side = (ROOT / "archqa" / "cli", ROOT / "scoring" / "__main__.py")
    for path in PYTHON:
        if any(path.is_relative_to(each) for each in street_side):
            continue
        names = {
            node.func.id
            for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
            if _is_plain_call(node)
        }
        assert not names & {"print", "exit", "quit", "input"}, path


def test_importing_one_room_does_not_import_the_house() -> None:
    heavy = "('aiohttp', 'httpx2', 'onnxruntime', 'typer')"
    program = (
        f"import sys, archqa.core.case; print([m for m in sys.modules if m.startswith({heavy})])"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "[]"


def test_the_version_is_written_once_and_the_changelog_knows_it() -> None:
    import archqa

    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert "version" in project["dynamic"]
    assert f"## {archqa.__version__}" in (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")


def _statement_lines(node: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    """Lines of the body without its docstring; a signature may be long, since it lists what a command takes."""
    body = node.body[1:] if ast.get_docstring(node) else node.body
    return (body[-1].end_lineno or 0) - body[0].lineno + 1 if body else 0


def _is_plain_call(node: ast.AST) -> bool:
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Name)
