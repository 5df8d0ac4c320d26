"""Commands start fast: they import only what they need."""

import subprocess
import sys
from pathlib import Path

import pytest

from archqa.cli.main import COMMANDS, CommandEntry, LazyCommand

ROOT = Path(__file__).resolve().parents[2]

SLOW_MODULES = (
    "openai",
    "aiohttp",
    "httpx2",
    "onnxruntime",
    "pandas",
    "numpy",
    "jinja2",
    "lxml",
    "pydantic_settings",
    "stamina",
    "ssl",
    "archqa.fhir",
    "archqa.llm.client",
    "archqa.tasks.pipelines",
    "archqa.engine",
)

MODULES_OF_RECORDS_MODELS_AND_CLUSTERS = (
    "openai",
    "aiohttp",
    "httpx2",
    "stamina",
    "pandas",
    "rapidfuzz",
    "archqa.fhir.store",
    "archqa.fhir.client.http_client",
    "archqa.query",
    "archqa.llm.server",
    "archqa.runs.ray.driver",
)

MODULES_OF_RUNS = (
    "jinja2",
    "lxml",
    "sqlite3",
    "numpy.random",
    "archqa.fhir",
    "archqa.llm.client",
    "archqa.agents.agent",
    "archqa.engine.engine",
    "archqa.engine.answer",
    "archqa.engine.features",
    "archqa.tasks.pipeline",
    "archqa.tasks.pipelines",
    "archqa.tasks.files",
    "archqa.runs.backends",
    "archqa.runs.runner",
    "archqa.evaluation",
    "archqa.report",
    "archqa.web",
)
"""What pipelines, case files and charts need, and a question about a note does not."""

PROGRAM = """
import atexit, sys
atexit.register(lambda: print("IMPORTED", *sys.modules))
from archqa.cli.main import run
run()
"""


def imported_modules(*arguments: str) -> set[str]:
    """Run a command in a process of its own and return the modules it imported."""
    process = subprocess.run(
        [sys.executable, "-c", PROGRAM, *arguments],
        cwd=ROOT,
        capture_output=True,
        text=True,
    )
    assert process.returncode == 0, process.stderr
    label, *modules = process.stdout.splitlines()[-1].split()
    assert label == "IMPORTED"
    return set(modules)


@pytest.mark.parametrize("arguments", [["--version"], ["--help"], ["config", "show"]])
def test_short_commands_import_no_model_library_and_no_pipeline(
    arguments: list[str],
) -> None:
    assert imported_modules(*arguments).isdisjoint(SLOW_MODULES)


def test_the_embedded_engine_answers_without_what_records_models_and_clusters_need(
    tmp_path: Path,
) -> None:
    modules = imported_modules(
        "predict", "mini", "--limit", "1", "--quiet", "--out", str(tmp_path / "run")
    )
    assert "archqa.engine.engine" in modules
    assert modules.isdisjoint(MODULES_OF_RECORDS_MODELS_AND_CLUSTERS)


@pytest.mark.parametrize("how", [[], ["--json"]])
def test_a_note_is_asked_without_what_runs_records_and_models_need(
    how: list[str], tmp_path: Path
) -> None:
    note = tmp_path / "note.txt"
    note.write_text("Apixaban was stopped because of bleeding from the stomach.")
    question = "Why was apixaban stopped?"
    modules = imported_modules("ask", question, "--note", str(note), *how)
    assert "archqa.engine.answer_finder" in modules
    not_needed = {*MODULES_OF_RUNS, *MODULES_OF_RECORDS_MODELS_AND_CLUSTERS}
    assert modules.isdisjoint(not_needed)


@pytest.mark.parametrize(
    "words",
    [
        [
            "predict",
            "mini",
            "--model",
            "m",
            "--base-url",
            "http://127.0.0.1:9/v1",
            "--dry-run",
        ],
        [
            "batch",
            "submit",
            "mini",
            "--model",
            "m",
            "--limit",
            "1",
            "--offline",
            "--out",
            "RUN",
        ],
        ["ask", "What is her name?", "--patient", "p1", "--record", "RECORD"],
        ["list", "pipelines"],
    ],
    ids=" ".join,
)
def test_the_sdk_of_model_servers_is_imported_where_a_model_is_asked(
    words: list[str], tmp_path: Path
) -> None:
    (tmp_path / "p1.json").write_text('{"resourceType": "Patient", "id": "p1"}')
    record, run = tmp_path / "record.db", tmp_path / "run"
    imported_modules("fhir", "load", str(tmp_path / "p1.json"), "--into", str(record))
    places = {"RUN": str(run), "RECORD": str(record)}
    modules = imported_modules(*(places.get(word, word) for word in words))
    assert modules.isdisjoint({"openai", "aiohttp"})


def test_the_list_of_commands_imports_none_of_them() -> None:
    command_modules = {f"archqa.cli.{entry.name}" for entry in COMMANDS}
    assert imported_modules("--help").isdisjoint(command_modules)


@pytest.mark.parametrize("entry", COMMANDS, ids=lambda entry: entry.name)
def test_the_list_of_commands_describes_each_as_its_own_help_does(
    entry: CommandEntry,
) -> None:
    command = LazyCommand(entry).load()
    summary = command.help.partition("\n\n")[0]
    assert " ".join(summary.split()) == entry.help


def test_python_dash_m_archqa_is_the_same_command() -> None:
    process = subprocess.run(
        [sys.executable, "-m", "archqa", "--version"],
        cwd=ROOT,
        capture_output=True,
        text=True,
    )
    assert (process.returncode, process.stdout.split()[0]) == (0, "archqa")
