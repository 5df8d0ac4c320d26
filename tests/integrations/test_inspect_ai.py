"""Inspect runs archqa's pipelines with any of its models, and its log has archqa's scores."""

import json
import subprocess
import sys
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

import archqa
from archqa.errors import MissingExtra
from archqa.llm.model import Message, Model, Reply, Request
from archqa.llm.scripted import ScriptedModel
from archqa.llm.structured import RecursiveSchemaError, without_references
from tests.fakes.replies import tool_call_reply
from tests.runs.conftest import default_reply, questions, record
from tests.tasks.medagentbench.conftest import benchmark
from tests.tasks.medagentbench.invented import SyntheticBenchmark

__all__ = ["benchmark", "questions", "record"]

ROOT = Path(__file__).resolve().parents[2]
MINI = ROOT / "data" / "mini" / "mini.json"

Turn = tuple[str, str]


def test_definitions_take_the_place_of_their_references() -> None:
    schema = {
        "properties": {
            "labels": {"items": {"$ref": "#/$defs/Label", "description": "one"}}
        },
        "$defs": {"Label": {"enum": ["a", "b"], "description": "all"}},
    }
    inlined = {"items": {"enum": ["a", "b"], "description": "one"}}
    assert without_references(schema) == {"properties": {"labels": inlined}}


def test_a_schema_that_refers_to_itself_is_refused() -> None:
    schema = {
        "$ref": "#/$defs/Tree",
        "$defs": {"Tree": {"properties": {"child": {"$ref": "#/$defs/Tree"}}}},
    }
    with pytest.raises(RecursiveSchemaError, match="Tree"):
        without_references(schema)


def test_without_the_extra_one_sentence_says_how_to_install_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delitem(sys.modules, "archqa.integrations.inspect_ai", raising=False)
    monkeypatch.setattr("importlib.util.find_spec", lambda name, *_: None)
    with pytest.raises(MissingExtra, match=r"pip install 'archqa\[inspect\]'"):
        import_module("archqa.integrations.inspect_ai")


class Recorder:
    """A model that keeps its replies by what it was told."""

    def __init__(self, model: Model) -> None:
        self._model = model
        self.replies: dict[tuple[Turn, ...], Reply] = {}
        self.calls = 0

    async def ask(self, request: Request) -> Reply:
        reply = await self._model.ask(request)
        self.replies[turns(request.messages)] = reply
        self.calls += 1
        return reply


def turns(messages: tuple[Message, ...]) -> tuple[Turn, ...]:
    return tuple((message.role, message.content) for message in messages)


def replay(recorder: Recorder) -> Callable[..., Any]:
    """Replies of the same texts and calls, as a model of Inspect gives them."""
    from inspect_ai.model import (
        ChatCompletionChoice,
        ChatMessageAssistant,
        ModelOutput,
        ModelUsage,
    )
    from inspect_ai.tool import ToolCall

    def output(
        messages: list[Any], tools: Any, tool_choice: Any, config: Any
    ) -> ModelOutput:
        said = tuple((message.role, message.text) for message in messages)
        reply = recorder.replies[said]
        calls = [
            ToolCall(
                id=call.id, function=call.name, arguments=json.loads(call.arguments)
            )
            for call in reply.tool_calls
        ]
        message = ChatMessageAssistant(content=reply.text, tool_calls=calls or None)
        reason = "tool_calls" if calls else "stop"
        choice = ChatCompletionChoice(message=message, stop_reason=reason)
        # Without a usage, Inspect would count tokens with tables that it downloads.
        usage = ModelUsage(input_tokens=7, output_tokens=3, total_tokens=10)
        return ModelOutput(model="mock", choices=[choice], usage=usage)

    return output


def evaluate(task: Any, recorder: Recorder, log_dir: Path) -> Any:
    """Inspect's log of a task whose model gives the recorded replies."""
    import inspect_ai
    from inspect_ai.model import get_model

    model = get_model("mockllm/model", custom_outputs=replay(recorder), memoize=False)
    [log] = inspect_ai.eval(task, model=model, log_dir=str(log_dir), display="none")
    assert log.status == "success", log.error
    return log


def inspect_scores(log: Any) -> dict[str, float]:
    [scores] = log.results.scores
    return {name: metric.value for name, metric in scores.metrics.items()}


def calls_in(log: Any) -> int:
    return sum(
        event.event == "model" for sample in log.samples for event in sample.events
    )


def assert_same_scores(log: Any, run: archqa.Run, **options: Any) -> None:
    expected = archqa.score(run.path, **options).scores.scores
    assert expected
    assert inspect_scores(log) == pytest.approx(expected, abs=1e-9, rel=0)


@pytest.fixture
def tasks() -> Any:
    pytest.importorskip("inspect_ai", reason="the extra inspect is not installed")
    from archqa.integrations.inspect_ai import tasks

    return tasks


def cite_several(request: Request) -> Any:
    """As `default_reply`, but with screening labels that differ from sentence to sentence."""
    fields = (request.output_schema or {}).get("properties", {})
    if "label" in fields:
        label = "essential" if len(request.messages[-1].content) % 3 else "not-relevant"
        return json.dumps({"rationale": "r", "label": label})
    if "essential" not in fields:
        return default_reply(request)
    ids = fields["essential"]["items"]["enum"]
    claims = [
        {"text": f"So says sentence {each}.", "citations": [each]}
        for each in ids[::3][:9]
    ]
    return json.dumps({"answer": claims, "essential": ids[::3][:9]})


@pytest.mark.heavy
def test_archehr_has_the_scores_of_an_own_run_with_the_same_replies(
    tasks: Any, tmp_path: Path
) -> None:
    recorder = Recorder(ScriptedModel(cite_several))
    options: dict[str, Any] = {"model": "inspect", "pipeline": "dmis", "cache": False}
    run = archqa.predict(MINI, out=tmp_path / "run", scripted=recorder, **options)
    log = evaluate(
        tasks.archehr_2025(str(MINI), pipeline="dmis"), recorder, tmp_path / "logs"
    )
    assert_same_scores(log, run)
    assert calls_in(log) == recorder.calls > 0
    answers = {str(sample.id): sample.output.completion for sample in log.samples}
    assert answers == {
        each.id: each.answer.submission for each in run.records if each.answer
    }


def fhir_reply(request: Request) -> Any:
    """Retrieve the visits, then count them."""
    if any(message.role == "tool" for message in request.messages):
        return "I counted them. The final answer is: 2"
    arguments = {"resource_type": "Encounter", "patient_fhir_id": "p"}
    return tool_call_reply(("get_resources_by_patient_fhir_id", arguments))


@pytest.mark.heavy
def test_fhir_agentbench_has_them_with_the_records_tools(
    tasks: Any, tmp_path: Path, questions: Path, record: Path
) -> None:
    recorder = Recorder(ScriptedModel(fhir_reply))
    options: dict[str, Any] = {
        "record": str(record),
        "pipeline": "multi-turn-retriever",
    }
    run = archqa.predict(
        questions,
        out=tmp_path / "run",
        scripted=recorder,
        model="inspect",
        cache=False,
        **options,
    )
    log = evaluate(
        tasks.fhir_agentbench(str(questions), **options), recorder, tmp_path / "logs"
    )
    assert_same_scores(log, run)
    assert calls_in(log) == recorder.calls > 0
    assert inspect_scores(log)["recall"] > 0


def medagent_reply(request: Request) -> Any:
    """Search for magnesium, then finish with a value that is right for some."""
    if any(message.role == "tool" for message in request.messages):
        answer = {"answers": [1.9], "explanation": "So it is.", "cited": []}
        return tool_call_reply(("finish", answer), text="Done.")
    search = {"patient": "S9000001", "code": "MG", "within_hours": 24}
    return tool_call_reply(("search_labs", search))


@pytest.mark.heavy
def test_medagentbench_has_them_over_the_gateway(
    tasks: Any, tmp_path: Path, benchmark: SyntheticBenchmark
) -> None:
    recorder = Recorder(ScriptedModel(medagent_reply))
    options: dict[str, Any] = {"record": str(benchmark.store), "pipeline": "typed"}
    run = archqa.predict(
        benchmark.tasks,
        out=tmp_path / "run",
        scripted=recorder,
        model="inspect",
        cache=False,
        **options,
    )
    log = evaluate(
        tasks.medagentbench(str(benchmark.tasks), **options), recorder, tmp_path / "l"
    )
    assert_same_scores(log, run)
    assert calls_in(log) == recorder.calls > 0
    assert 0 < inspect_scores(log)["success_rate"] < 100


@pytest.mark.heavy
def test_a_fault_of_the_model_is_an_error_of_the_sample_and_not_an_answer(
    tasks: Any, tmp_path: Path
) -> None:
    import inspect_ai
    from inspect_ai.model import get_model

    def fail(*_: Any) -> Any:
        raise RuntimeError("the provider is down")

    model = get_model("mockllm/model", custom_outputs=fail, memoize=False)
    task = tasks.archehr_2025(str(MINI), pipeline="dmis")
    [log] = inspect_ai.eval(task, model=model, log_dir=str(tmp_path), display="none")
    assert log.status == "error"
    assert "the provider is down" in log.error.message


@pytest.mark.heavy
def test_usage_and_provenance_are_kept(tasks: Any, tmp_path: Path) -> None:
    recorder = Recorder(ScriptedModel(default_reply))
    options: dict[str, Any] = {"model": "inspect", "pipeline": "dmis", "cache": False}
    archqa.predict(MINI, out=tmp_path / "run", scripted=recorder, **options)
    log = evaluate(
        tasks.archehr_2025(str(MINI), pipeline="dmis"), recorder, tmp_path / "logs"
    )
    provenance = log.eval.metadata["archqa"]
    assert provenance["pipeline"] == "dmis"
    assert provenance["versions"]["archqa"] == archqa.__version__
    assert "decision" in " ".join(provenance["prompts"])
    usages = [sample.metadata["archqa_case"]["usage"] for sample in log.samples]
    assert sum(usage["calls"] for usage in usages) == recorder.calls
    assert sum(usage["completion_tokens"] for usage in usages) == 3 * recorder.calls


@pytest.mark.heavy
def test_the_command_line_of_inspect_finds_the_task_by_its_name(
    tasks: Any, tmp_path: Path
) -> None:
    from inspect_ai.log import read_eval_log

    arguments = [
        "-T",
        f"cases={MINI}",
        "-T",
        "pipeline=embedded",
        "--log-dir",
        str(tmp_path),
    ]
    inspect = [sys.executable, "-m", "inspect_ai", "eval", "archqa/archehr_2025"]
    result = subprocess.run(
        [*inspect, "--model", "none", "--display", "none", *arguments],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.returncode == 0, result.stdout + result.stderr
    [log] = tmp_path.glob("*.eval")
    run = archqa.predict(MINI, out=tmp_path / "run")
    assert_same_scores(read_eval_log(str(log)), run)
