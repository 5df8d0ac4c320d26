"""The architecture that docs/architecture.md describes, checked against the code."""

import ast
import importlib.util
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import pytest

import archqa

ROOT = Path(__file__).resolve().parent.parent
SOURCE_FILES = sorted(
    path
    for package in ("archqa", "scoring", "training")
    for path in ROOT.glob(f"{package}/**/*.py")
)

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
    listing = subprocess.run(
        git, cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout
    top_level = {name.split("/")[0] for name in listing.splitlines()}
    assert top_level == {
        *(
            "archqa",
            "prompts",
            "scoring",
            "training",
            "tests",
            "data",
            "docs",
            "examples",
        ),
        *("README.md", "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md", "LICENSE"),
        *(
            "CITATION.cff",
            "CODE_OF_CONDUCT.md",
            "Dockerfile",
            ".dockerignore",
            ".github",
        ),
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


def test_event_loops_begin_in_one_place() -> None:
    """A Ctrl-C within a loop's constructor ends in a traceback: `run_sync` defers it."""
    starts = re.compile(r"asyncio\.(?:run|Runner|new_event_loop)\(")
    starting = [
        path for path in SOURCE_FILES if starts.search(path.read_text(encoding="utf-8"))
    ]
    assert starting == [ROOT / "archqa" / "runs" / "event_loop.py"]


def test_prompts_are_files_and_not_code() -> None:
    prompt_text = re.compile(
        r"\byou are an? (?:board|skilled|experienced|physician|medical|helpful)",
        re.IGNORECASE,
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
    heavy = "('aiohttp', 'openai', 'httpx2', 'onnxruntime', 'typer')"
    program = f"import sys, archqa.core.case; print([m for m in sys.modules if m.startswith({heavy})])"
    python = [sys.executable, "-c", program]
    finished = subprocess.run(
        python, cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert finished.stdout.strip() == "[]"


def test_the_version_is_written_once_and_is_in_the_changelog() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))[
        "project"
    ]
    assert "version" in project["dynamic"]
    assert f"## {archqa.__version__}" in (ROOT / "CHANGELOG.md").read_text(
        encoding="utf-8"
    )


def test_no_modules_import_each_other_in_a_circle() -> None:
    """What runs at import time; imports for type checkers and inside functions do not count."""
    modules = {_module_name(path): path for path in SOURCE_FILES}
    imports = {
        name: _imported_modules(name, path, modules) for name, path in modules.items()
    }
    assert _find_cycle(imports) == []


def test_a_circle_of_imports_is_found() -> None:
    assert _find_cycle({"a": {"b"}, "b": {"c", "d"}, "c": set(), "d": {"b"}}) == [
        "b",
        "d",
        "b",
    ]
    assert _find_cycle({"a": {"b", "c"}, "b": {"c"}, "c": set()}) == []


def _module_name(path: Path) -> str:
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def _imported_modules(name: str, path: Path, modules: Mapping[str, Path]) -> set[str]:
    """Return the modules that a module names in the imports it executes when it is imported."""
    package = name if path.stem == "__init__" else name.rpartition(".")[0]
    imported = set()
    for statement in _executed_imports(
        ast.parse(path.read_text(encoding="utf-8")).body
    ):
        if isinstance(statement, ast.Import):
            imported.update(alias.name for alias in statement.names)
            continue
        base = statement.module or ""
        if statement.level:
            base = importlib.util.resolve_name("." * statement.level + base, package)
        for alias in statement.names:
            submodule = f"{base}.{alias.name}"
            imported.add(submodule if submodule in modules else base)
    return (imported & modules.keys()) - {name}


def _executed_imports(
    body: Sequence[ast.stmt],
) -> Iterator[ast.Import | ast.ImportFrom]:
    for statement in body:
        if isinstance(statement, ast.Import | ast.ImportFrom):
            yield statement
        elif isinstance(statement, ast.If) and "TYPE_CHECKING" in ast.unparse(
            statement.test
        ):
            yield from _executed_imports(statement.orelse)
        elif isinstance(statement, ast.If | ast.Try | ast.With | ast.ClassDef):
            for field in ("body", "orelse", "finalbody"):
                yield from _executed_imports(getattr(statement, field, []))


def _find_cycle(imports: Mapping[str, set[str]]) -> list[str]:
    """Return the modules of one circle, the first one again at its end; empty if there is none."""
    finished: set[str] = set()
    path: list[str] = []

    def visit(name: str) -> list[str]:
        if name in path:
            return [*path[path.index(name) :], name]
        if name in finished:
            return []
        path.append(name)
        for imported in sorted(imports[name]):
            cycle = visit(imported)
            if cycle:
                return cycle
        path.pop()
        finished.add(name)
        return []

    for name in sorted(imports):
        cycle = visit(name)
        if cycle:
            return cycle
    return []


def _called_names(path: Path) -> set[str]:
    """Return the names of the functions that a file calls by a plain name."""
    names = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            names.add(node.func.id)
    return names
