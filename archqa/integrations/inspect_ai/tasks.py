"""The benchmarks as tasks of Inspect; Inspect finds them by the entry point `archqa`.

A task has archqa's cases, a solver that runs a pipeline of archqa with Inspect's model, and archqa's
scores of each sample and of all samples together.
"""

import json
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from inspect_ai import Task, task
from inspect_ai.dataset import MemoryDataset, Sample
from inspect_ai.model import (
    ChatMessage,
    ChatMessageAssistant,
    ChatMessageSystem,
    ChatMessageTool,
    ChatMessageUser,
    GenerateConfig,
    ModelOutput,
    ResponseSchema,
    get_model,
)
from inspect_ai.scorer import Metric, SampleScore, Score, Scorer, Target, metric, scorer
from inspect_ai.solver import Generate, Solver, TaskState, solver
from inspect_ai.tool import ToolCall as InspectToolCall
from inspect_ai.tool import ToolInfo, ToolParams
from inspect_ai.util import JSONSchema

from archqa import tasks
from archqa.core.question import ClinicalTask, RecordQuestion
from archqa.core.step import Step
from archqa.core.usage import Usage, sum_usage
from archqa.errors import CaseFailed, ContextTooLong
from archqa.evaluation.scoring import row_scorer, submitted_rows
from archqa.llm.model import FinishReason, Message, Reply, Request, ToolCall
from archqa.llm.structured import RecursiveSchemaError, without_references
from archqa.runs.backends import Backends
from archqa.runs.plan import Plan, Selection, plan_run
from archqa.runs.record import CaseRecord
from archqa.runs.runner import answered_record, failed_record
from archqa.settings import load_settings
from archqa.tasks import archehr_2025 as archehr_2025_task
from archqa.tasks import fhir_agentbench as fhir_agentbench_task
from archqa.tasks import medagentbench as medagentbench_task
from archqa.tasks.task import CompletedCase

_UNREADABLE = "(arguments that are no JSON)"
"""Stands for arguments that Inspect could not read; archqa then tells the model so."""


class InspectModel:
    """Asks the model that Inspect evaluates (`get_model()`), which caches, retries and counts.

    What a provider wants back with a reply, such as its reasoning, is kept and sent with it.
    """

    def __init__(self) -> None:
        self._replies: dict[tuple[str, tuple[str, ...]], ChatMessageAssistant] = {}

    async def ask(self, request: Request) -> Reply:
        """Answer one request. Raises `ContextTooLong`, and what Inspect raises."""
        tools = []
        for tool in request.tools:
            parameters = {"type": "object", **without_references(tool.parameters)}
            tools.append(
                ToolInfo(
                    name=tool.name,
                    description=tool.description,
                    parameters=ToolParams.model_validate(parameters),
                )
            )
        output = await get_model().generate(
            input=[self._message(message, request) for message in request.messages],
            tools=tools,
            config=_config(request),
        )
        if output.choices and output.stop_reason == "model_length":
            raise ContextTooLong("The prompt does not fit the model's context window.")
        reply = _reply(output)
        if output.choices:
            self._replies[_identity(reply.as_message)] = output.message
        return reply

    def _message(self, message: Message, request: Request) -> ChatMessage:
        if message.role == "system":
            return ChatMessageSystem(content=message.content)
        if message.role == "user":
            return ChatMessageUser(content=message.content)
        if message.role == "tool":
            # The result of a tool, with the name by which the model had called it.
            names: dict[str, str] = {}
            for earlier in request.messages:
                for call in earlier.tool_calls:
                    names.setdefault(call.id, call.name)
            return ChatMessageTool(
                content=message.content,
                tool_call_id=message.tool_call_id,
                function=names.get(message.tool_call_id),
            )
        return self._replies.get(_identity(message)) or _assistant_message(message)


def _identity(message: Message) -> tuple[str, tuple[str, ...]]:
    return message.content, tuple(call.id for call in message.tool_calls)


def _assistant_message(message: Message) -> ChatMessageAssistant:
    calls = []
    for call in message.tool_calls:
        try:
            arguments = json.loads(call.arguments)
        except ValueError:
            arguments = {}
        if not isinstance(arguments, dict):
            arguments = {}
        calls.append(
            InspectToolCall(id=call.id, function=call.name, arguments=arguments)
        )
    return ChatMessageAssistant(content=message.content, tool_calls=calls or None)


def _config(request: Request) -> GenerateConfig:
    """The request's own settings; those that it leaves open are Inspect's.

    Without a schema of the reply, it is prose, or the prompt alone describes it.
    """
    values: dict[str, Any] = {}
    if request.temperature is not None:
        values["temperature"] = request.temperature
    if request.max_tokens is not None:
        values["max_tokens"] = request.max_tokens
    if request.output_schema is not None:
        with suppress(RecursiveSchemaError):
            schema = without_references(request.output_schema)
            values["response_schema"] = ResponseSchema(
                name=request.schema_name,
                json_schema=JSONSchema.model_validate(schema),
                strict=True,
            )
    return GenerateConfig(**values)


def _reply(output: ModelOutput) -> Reply:
    calls = []
    if output.choices:
        for call in output.message.tool_calls or ():
            arguments = json.dumps(call.arguments, ensure_ascii=False)
            if call.parse_error:
                arguments = _UNREADABLE
            calls.append(ToolCall(id=call.id, name=call.function, arguments=arguments))
    if not output.choices:
        finish = FinishReason.EMPTY
    elif output.stop_reason == "content_filter":
        finish = FinishReason.FILTERED
    elif output.stop_reason == "max_tokens":
        finish = FinishReason.LENGTH
    else:
        has_content = bool(calls) or bool(output.completion.strip())
        finish = FinishReason.COMPLETE if has_content else FinishReason.EMPTY
    seconds = output.time or 0.0
    if output.usage is None:
        usage = Usage(calls=1, cost_usd=None, seconds=seconds)
    else:
        cached = output.usage.input_tokens_cache_read or 0
        written = output.usage.input_tokens_cache_write or 0
        usage = Usage(
            calls=1,
            prompt_tokens=output.usage.input_tokens + cached + written,
            cached_prompt_tokens=cached,
            completion_tokens=output.usage.output_tokens,
            cost_usd=output.usage.total_cost,
            seconds=seconds,
        )
    return Reply(
        text=output.completion,
        finish=finish,
        usage=usage,
        served_by=output.model,
        tool_calls=tuple(calls),
    )


MODEL = "inspect"
"""The model's name in archqa's settings: which one it is, Inspect says."""

RECORD = "archqa_case"
"""The key of a sample's `CaseRecord` in the metadata of its state."""

_ROWS = "rows"
"""The key of a sample's rows of the submission in the metadata of its score."""

_PROVENANCE = {
    "task",
    "pipeline",
    "data",
    "settings",
    "prompts",
    "inputs",
    "remarks",
    "versions",
    "plug_ins",
    "git_revision",
}
"""What of `run.json` stands in Inspect's log."""

Assignments = str | list[str]
"""Settings of archqa: `labels=multiclass`, or several."""


@task
def archehr_2025(
    cases: str,
    key: str | None = None,
    pipeline: str | None = None,
    assign: Assignments = "",
) -> Task:
    """ArchEHR-QA 2025: cited answers from notes. The key may lie next to the cases."""
    return _task(archehr_2025_task.NAME, cases, key, {"pipeline": pipeline}, assign)


@task
def fhir_agentbench(
    cases: str,
    record: str,
    key: str | None = None,
    pipeline: str | None = None,
    assign: Assignments = "",
) -> Task:
    """FHIR-AgentBench: questions to a FHIR record, with the record's tools."""
    typed = {"pipeline": pipeline, "record": record}
    return _task(fhir_agentbench_task.NAME, cases, key, typed, assign)


@task
def medagentbench(
    cases: str,
    record: str,
    key: str | None = None,
    pipeline: str | None = None,
    functions: str | None = None,
    assign: Assignments = "",
) -> Task:
    """MedAgentBench: tasks on a FHIR record behind archqa's gateway, graded against that record."""
    typed = {"pipeline": pipeline, "record": record, "functions": functions}
    return _task(medagentbench_task.NAME, cases, key, typed, assign)


def _task(
    benchmark: str,
    cases: str,
    key: str | None,
    typed: Mapping[str, str | None],
    assign: Assignments,
) -> Task:
    assignments = [assign] if isinstance(assign, str) else assign
    # Inspect has a cache of its own, and its log is of what was asked.
    settings = load_settings(
        typed={**typed, "model": MODEL, "cache": False},
        assignments=filter(None, assignments),
    )
    plan = plan_run(cases, benchmark, Selection(), settings)
    samples = []
    for case in plan.cases:
        if isinstance(case, RecordQuestion):
            question = case.question
        elif isinstance(case, ClinicalTask):
            question = f"{case.instruction}\n{case.context}".strip()
        else:
            question = case.clinician_question or case.patient_narrative
        samples.append(Sample(id=case.id, input=question))
    files = {
        "benchmark": benchmark,
        "cases": cases,
        "key": key,
        "record": settings.record,
    }
    return Task(
        dataset=MemoryDataset(samples, name=benchmark),
        solver=pipeline_solver(plan),
        scorer=archqa_scores(**files),
        metrics=[benchmark_scores(**files)],
        metadata={"archqa": plan.manifest.model_dump(mode="json", include=_PROVENANCE)},
        version=plan.manifest.versions["archqa"],
    )


def pipeline_solver(plan: Plan) -> Solver:
    """Runs the pipeline of a plan on each sample; a case that fails gets the record of a failure.

    What ends a run of archqa's own (a server that is down, a limit) is an error of the sample, which
    Inspect retries or counts as it is told to.
    """
    cases = {case.id: case for case in plan.cases}

    @solver
    def archqa_pipeline(pipeline: str) -> Solver:
        async def solve(state: TaskState, generate: Generate) -> TaskState:
            case = cases[str(state.sample_id)]
            steps: list[Step] = []
            backends = Backends(plan.settings, plan.pipeline, InspectModel())
            settings = plan.settings.for_pipeline(plan.pipeline)
            try:
                context = backends.context(steps.append, case)
                result = await plan.pipeline.run(case, context, settings)
                record = answered_record(case.id, result)
            except CaseFailed as failure:
                record = failed_record(case.id, failure)
            finally:
                await backends.close()
            usage = sum_usage(step.usage for step in steps)
            record = record.model_copy(update={"usage": usage})
            state.metadata[RECORD] = record.model_dump(mode="json")
            # The answer in words, for Inspect's viewer.
            answer = record.answer.submission if record.answer else None
            if answer is None:
                answer = (record.result and record.result.answer_text) or record.error
            state.output.completion = answer
            return state

        return solve

    # Inspect writes the arguments of a solver into its log: not the plan, which holds the cases.
    return archqa_pipeline(plan.pipeline.name)


@metric
def benchmark_scores(
    benchmark: str,
    cases: str,
    key: str | None = None,
    record: str | None = None,
) -> Metric:
    """The scores of archqa over the samples, by the leaderboards' names.

    They are computed from the rows of all samples, as of a submission: a micro average is no mean
    over samples.
    """
    key_path = None if key is None else Path(key)
    scoring = row_scorer(benchmark, Path(cases), key_path, record)

    def compute(scores: list[SampleScore]) -> dict[str, float]:
        rows = []
        ids = []
        for sample in scores:
            rows += (sample.score.metadata or {}).get(_ROWS, [])
            ids.append(str(sample.sample_id))
        return dict(scoring.scores(rows, ids).scores) if ids else {}

    return compute


@scorer(metrics=[])
def archqa_scores(
    benchmark: str,
    cases: str,
    key: str | None = None,
    record: str | None = None,
) -> Scorer:
    """The scores of each sample. A case without labels in the key is not scored."""
    key_path = None if key is None else Path(key)
    scoring = row_scorer(benchmark, Path(cases), key_path, record)
    items = {case.id: case for case in tasks.load_cases(cases, benchmark).cases}

    async def score(state: TaskState, target: Target) -> Score | None:
        case_id = str(state.sample_id)
        if case_id not in scoring.references or RECORD not in state.metadata:
            return None
        context = {"result_type": tasks.find(benchmark).result_type}
        ended = CaseRecord.model_validate(state.metadata[RECORD], context=context)
        completed = CompletedCase(
            items[case_id],
            ended.answer,
            ended.result,
            ended.error,
            ended.usage,
            ended.evidence,
        )
        rows = submitted_rows(benchmark, completed, tuple(items))
        value: Any = scoring.case_scores(rows, case_id)
        explanation = "\n".join((*ended.remarks, ended.error))
        return Score(
            value=value,
            answer=state.output.completion,
            explanation=explanation.strip() or None,
            metadata={_ROWS: rows, "status": ended.status.value},
        )

    return score
