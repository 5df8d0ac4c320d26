"""The benchmark's own function file.

Sent word for word by the baseline, checked before the run starts.
"""

import hashlib
import json
from pathlib import Path
from typing import Any

import pytest

from archqa.errors import CallerError, InputError
from archqa.llm.model import Request
from archqa.llm.prompts import default_prompts
from archqa.llm.scripted import ScriptedModel
from archqa.runs.predict import predict
from archqa.runs.run import Run
from archqa.tasks.medagentbench.agents import (
    MedAgentPaperAgent,
    MedAgentPaperTask,
    load_functions,
)
from tests.cli.test_commands import archqa
from tests.tasks.medagentbench.invented import SyntheticBenchmark, task

FUNCTIONS: list[dict[str, Any]] = [
    {
        "name": "GET {api_base}/Condition",
        "description": 'Finds problems.\n\nNot those in the "holding tank" (≥ 1 encounter).',
        "parameters": {
            "type": "object",
            "properties": {
                "patient": {"type": "string", "description": "Whose problems."}
            },
            "required": ["patient"],
        },
    },
    {
        "name": "POST {api_base}/ServiceRequest",
        "description": "Orders a service.",
        "parameters": {"type": "object", "properties": {}, "required": []},
    },
]


@pytest.fixture
def function_file(tmp_path: Path) -> Path:
    path = tmp_path / "functions.json"
    path.write_text(json.dumps(FUNCTIONS, indent=2), encoding="utf-8")
    return path


def run_baseline(
    benchmark: SyntheticBenchmark, folder: Path, **settings: Any
) -> tuple[Run, Request]:
    """A run of one task whose model finishes at once, and the request that the model received."""
    requests: list[Request] = []

    def finish(request: Request) -> str:
        requests.append(request)
        return "FINISH([1.9])"

    tasks = folder / "tasks.json"
    tasks.write_text(json.dumps([task(4, "S9000001")]))
    run = predict(
        tasks,
        out=folder / "run",
        pipeline="paper",
        record=str(benchmark.store),
        scripted=ScriptedModel(finish),
        model="m",
        cache=False,
        **settings,
    )
    return run, requests[0]


def test_the_descriptions_are_sent_word_for_word_between_the_rules_and_the_question(
    benchmark: SyntheticBenchmark, function_file: Path, tmp_path: Path
) -> None:
    run, request = run_baseline(benchmark, tmp_path, functions=function_file)
    [message] = request.messages
    functions = json.dumps(FUNCTIONS)  # As the benchmark's controller writes them.
    parts = (
        "FINISH([answer1, answer2, ...])",
        "functions in JSON",
        functions,
        "Context: ",
        "Question: ",
    )
    positions = [message.content.index(part) for part in parts]
    assert positions == sorted(positions)
    assert "problem-list-item" not in message.content
    assert run.records[0].result.history[0]["content"] == message.content


def test_a_run_records_the_fingerprint_of_the_function_file(
    benchmark: SyntheticBenchmark, function_file: Path, tmp_path: Path
) -> None:
    run, _ = run_baseline(benchmark, tmp_path, functions=function_file)
    sha256 = hashlib.sha256(function_file.read_bytes()).hexdigest()
    assert run.manifest.inputs == {"functions": sha256}
    assert run.manifest.remarks == ()


def test_without_a_function_file_the_run_says_that_the_wording_is_archqas(
    benchmark: SyntheticBenchmark, tmp_path: Path
) -> None:
    run, _ = run_baseline(benchmark, tmp_path)
    [remark] = run.manifest.remarks
    assert "archqa's own wording (prompts/medagent_paper/v2/functions.json)" in remark
    assert run.manifest.inputs == {}


def test_without_a_function_file_the_prompt_has_archqas_functions() -> None:
    fields = dict(
        MedAgentPaperTask(instruction="How old?", context="Now.", api_base="http://x/")
    )
    prompts = default_prompts()
    functions = prompts.folder / MedAgentPaperAgent.prompt / "functions.json"
    *_, message = prompts.render(MedAgentPaperAgent.prompt, fields)
    assert functions.read_text(encoding="utf-8").strip() in message.content


def test_a_run_is_not_resumed_with_another_function_file(
    benchmark: SyntheticBenchmark, function_file: Path, tmp_path: Path
) -> None:
    run_baseline(benchmark, tmp_path, functions=function_file)
    function_file.write_text(json.dumps(FUNCTIONS[:1]))
    with pytest.raises(CallerError, match="inputs differ"):
        predict(
            tmp_path / "tasks.json",
            out=tmp_path / "run",
            resume=True,
            pipeline="paper",
            record=str(benchmark.store),
            scripted=ScriptedModel(["FINISH([])"]),
            model="m",
            cache=False,
            functions=function_file,
        )


@pytest.mark.parametrize("pipeline", ["typed", "do-nothing"])
def test_another_pipeline_refuses_a_function_file(
    pipeline: str, benchmark: SyntheticBenchmark, function_file: Path, tmp_path: Path
) -> None:
    with pytest.raises(
        CallerError, match=r"functions: .* Pipelines that use it: paper"
    ):
        predict(
            benchmark.tasks,
            out=tmp_path / "run",
            pipeline=pipeline,
            record=str(benchmark.store),
            scripted=ScriptedModel([]),
            model="m",
            functions=function_file,
        )
    assert not (tmp_path / "run").exists()


def test_another_task_refuses_a_function_file(function_file: Path) -> None:
    completed = archqa("predict", "mini", "--functions", str(function_file))
    assert completed.returncode == 2
    assert "Pipelines that use it: paper (medagentbench)" in completed.stderr


def test_a_malformed_function_file_is_refused_with_all_its_mistakes(
    benchmark: SyntheticBenchmark, tmp_path: Path
) -> None:
    path = tmp_path / "functions.json"
    path.write_text(
        json.dumps(
            [
                {"name": "Condition", "description": 3},
                {"description": "x", "parameters": {"properties": [], "required": []}},
                {
                    **FUNCTIONS[0],
                    "parameters": {"properties": {"a": {}}, "required": ["b"]},
                },
                {
                    **FUNCTIONS[0],
                    "parameters": {"properties": {"a": {}}, "required": "a"},
                },
                5,
            ]
        )
    )
    completed = archqa(
        *("predict", str(benchmark.tasks), "--record", str(benchmark.store)),
        *("--pipeline", "paper", "--model", "m", "--base-url", "http://127.0.0.1:9/v1"),
        *("--functions", str(path), "--out", str(tmp_path / "run")),
    )
    assert completed.returncode == 3
    assert completed.stderr.count(str(path)) == 8
    for mistake in (
        "entry 1, $.name: should be GET or POST",
        "entry 1, $.description: is a number",
        "entry 1, $.parameters: is missing",
        "entry 2, $.name: missing",
        "entry 2, $.parameters.properties: is missing",
        "entry 3, $.parameters.required: lists names that are not in properties: b",
        "entry 4, $.parameters.required: should be a list",
        "entry 5, $: is a number",
    ):
        assert mistake in completed.stderr
    assert "funcs_v1.json" in completed.stderr
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("content", "mistake"),
    [
        ("", "the file is empty"),
        ("[]", "it should hold at least one function"),
        ("{}", "it should be a list"),
        ("name,description\n", "not JSON"),
        ('[{"name": "GET x"', "not JSON"),
        ("<functions/>", "not JSON"),
    ],
)
def test_a_file_without_functions_is_one_clear_error(
    content: str, mistake: str, tmp_path: Path
) -> None:
    path = tmp_path / "functions.json"
    path.write_text(content)
    with pytest.raises(InputError, match=mistake) as refusal:
        load_functions(path)
    assert refusal.value.path == str(path)
    assert "funcs_v1.json" in refusal.value.fix


def test_the_benchmarks_own_function_file_is_sent_unchanged(shared: Path) -> None:
    path = shared / "fhir" / "medagentbench" / "funcs_v1.json"
    assert load_functions(path).text == path.read_text(encoding="utf-8")
