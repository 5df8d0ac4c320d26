"""A task is known by its own package and one line of the registry."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

from archqa.runs.predict import predict
from archqa.tasks import names

ROOT = Path(__file__).resolve().parents[2]
LIBRARY = sorted((ROOT / "archqa").glob("**/*.py"))
TASK_PACKAGES = {
    package
    for package in (ROOT / "archqa" / "tasks").iterdir()
    if (package / "task.py").is_file()
}


def test_only_a_tasks_package_and_the_registry_name_it() -> None:
    registry = ROOT / "archqa" / "tasks" / "registry.py"
    naming = []
    for path in LIBRARY:
        if path == registry or TASK_PACKAGES & set(path.parents):
            continue
        constants = {
            node.value
            for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
            if isinstance(node, ast.Constant) and isinstance(node.value, str)
        }
        if constants & set(names()):
            naming.append(path.relative_to(ROOT))
    assert naming == []


def test_in_a_task_only_its_scoring_imports_scoring() -> None:
    importing = []
    for path in (ROOT / "archqa" / "tasks").glob("**/*.py"):
        is_bridge = path.stem == "scoring" or path.parent.name == "scoring"
        if not is_bridge and _imports_scoring(path):
            importing.append(path.relative_to(ROOT))
    assert importing == []


SLOW_PACKAGES = (
    "numpy",
    "onnxruntime",
    "pandas",
    "scoring",
    "archqa.engine",
    "archqa.query",
)


@pytest.mark.parametrize(
    "statement",
    [
        "from archqa.tasks import registry; list(registry.all_tasks())",
        "from archqa.settings import load_settings; load_settings()",
    ],
    ids=["registry", "settings"],
)
def test_the_registry_and_the_settings_import_no_pipeline_and_no_metric(
    statement: str,
) -> None:
    program = f"import sys; {statement}; print(*sys.modules)"
    process = subprocess.run(
        [sys.executable, "-c", program],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    modules = process.stdout.split()
    assert "archqa.tasks.registry" in modules
    slow = [m for m in modules if m.startswith(SLOW_PACKAGES) or ".pipelines" in m]
    assert slow == []


def _imports_scoring(path: Path) -> bool:
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        modules = []
        if isinstance(node, ast.ImportFrom):
            modules = [node.module or ""]
        elif isinstance(node, ast.Import):
            modules = [alias.name for alias in node.names]
        if any(module.split(".")[0] == "scoring" for module in modules):
            return True
    return False


def test_scoring_a_finished_run_imports_no_agent_no_model_and_no_pipeline(
    tmp_path: Path,
) -> None:
    predict("mini", out=tmp_path / "run", pipeline="embedded")
    program = f"""
import runpy, sys
sys.argv = ["archqa", "score", {str(tmp_path / "run")!r}]
try:
    runpy.run_module("archqa", run_name="__main__")
except SystemExit as end:
    assert not end.code
print(*sys.modules)
"""
    process = subprocess.run(
        [sys.executable, "-c", program],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    modules = process.stdout.splitlines()[-1].split()
    assert "archqa.tasks.archehr_2025.scoring" in modules
    unneeded = ("archqa.agents", "archqa.llm", "archqa.engine.engine", "archqa.fhir.")
    assert [
        m for m in modules if m.startswith(unneeded) or m.endswith(".pipelines")
    ] == []
