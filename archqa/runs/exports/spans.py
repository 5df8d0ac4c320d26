"""A run as OpenTelemetry spans, by the semantic conventions for generative AI.

One trace a case: the workflow, in it a span for each agent, in that its calls of models (`chat`)
and of tools (`execute_tool`). The form is OTLP/JSON, one line a case, as the file exporter writes
it and any collector takes it. Traces keep how long a call took and not when it began: the calls of
a case stand one after the other, from the begin of the run.

Sources: opentelemetry.io/docs/specs/semconv/gen-ai (gen-ai-spans, gen-ai-agent-spans),
opentelemetry.io/docs/specs/otlp (JSON Protobuf encoding), the file exporter's specification.
"""

import hashlib
import json
from collections.abc import Iterator
from datetime import datetime
from itertools import groupby
from typing import Any, NamedTuple

from archqa.core.step import Step
from archqa.runs.exports.messages import input_messages, output_messages, system_instructions
from archqa.runs.record import CaseRecord, CaseStatus, RunManifest
from archqa.runs.run import Run

_INTERNAL, _CLIENT = 1, 3
"""Kinds of spans (opentelemetry.proto.trace.v1.Span.SpanKind)."""
_ERROR = 2
"""The status code of a span that failed."""

_PROVIDERS = {
    "api.anthropic.com": "anthropic",
    "api.deepseek.com": "deepseek",
    "api.groq.com": "groq",
    "api.mistral.ai": "mistral_ai",
    "api.openai.com": "openai",
    "api.perplexity.ai": "perplexity",
    "api.x.ai": "x_ai",
}
"""Host of a model server to the conventions' name of its provider."""
_AZURE = ".openai.azure.com"
_OTHER_PROVIDER = "openai_compatible"

_FINISHED = {
    "complete": "stop",
    "length": "length",
    "filtered": "content_filter",
    "refused": "content_filter",
    "empty": "error",
}

Attributes = dict[str, Any]


class _Span(NamedTuple):
    """One span; times in nanoseconds."""

    name: str
    kind: int
    start: int
    end: int
    attributes: Attributes
    children: tuple["_Span", ...] = ()
    failure: str = ""


def write_spans(run: Run, *, with_text: bool) -> str:
    """Return the spans as OTLP/JSON lines; without record text unless it is asked for."""
    return "".join(f"{line}\n" for line in span_lines(run, with_text=with_text))


def span_lines(run: Run, *, with_text: bool) -> Iterator[str]:
    """Yield one export request a case."""
    resource = {"attributes": _encoded(_resource(run.manifest))}
    scope = {"name": "archqa", "version": run.manifest.versions.get("archqa", "")}
    writer = _CaseSpans(run.manifest, with_text=with_text)
    for record in run.iter_records():
        root = writer.root(record, run.folder.steps(record.id))
        spans = list(_flattened(root, _trace_id(run.manifest, record.id)))
        scope_spans = {"scope": scope, "spans": spans}
        yield json.dumps(
            {"resourceSpans": [{"resource": resource, "scopeSpans": [scope_spans]}]},
            ensure_ascii=False,
        )


def _resource(manifest: RunManifest) -> Attributes:
    return {
        "service.name": "archqa",
        "service.version": manifest.versions.get("archqa", ""),
        "archqa.run": manifest.run,
        "archqa.task": manifest.task,
        "archqa.pipeline": manifest.pipeline,
    }


class _TracedStep(NamedTuple):
    """A step, and the results of the tools it calls by the ids of the calls."""

    step: Step
    results: dict[str, str]


class _CaseSpans:
    """Makes the spans of one case after the other."""

    def __init__(self, manifest: RunManifest, *, with_text: bool) -> None:
        self._manifest = manifest
        self._provider = _provider(manifest)
        self._with_text = with_text

    def root(self, record: CaseRecord, steps: list[Step]) -> _Span:
        """Return the workflow's span with all below it."""
        start = _nanoseconds(self._manifest.started_at)
        agents = []
        end = start
        for (name, _), group in groupby(_with_results(steps), _agent_of):
            agents.append(self._agent(name, list(group), end))
            end = agents[-1].end
        failure = record.error.partition(":")[0] if record.status is CaseStatus.FAILED else ""
        return _Span(
            f"invoke_workflow {self._manifest.pipeline}",
            _INTERNAL,
            start,
            max(end, start + _duration(record.seconds)),
            {
                "gen_ai.operation.name": "invoke_workflow",
                "gen_ai.workflow.name": self._manifest.pipeline,
                "gen_ai.conversation.id": f"{self._manifest.run}/{record.id}",
                "archqa.case.id": record.id,
                "archqa.case.status": record.status.value,
                "archqa.case.tries": record.tries,
                "archqa.case.seconds": record.seconds,
                "archqa.cost_usd": record.usage.cost_usd,
            },
            tuple(agents),
            failure,
        )

    def _agent(self, name: str, traced_steps: list[_TracedStep], start: int) -> _Span:
        calls: list[_Span] = []
        end = start
        for traced in traced_steps:
            if traced.step.backend == "model":
                calls.append(self._chat(traced.step, end))
                calls += self._tools(traced, calls[-1].end)
                end = calls[-1].end
            else:
                end += _duration(traced.step.usage.seconds)
        steps = [traced.step for traced in traced_steps]
        attributes = {
            "gen_ai.operation.name": "invoke_agent",
            "gen_ai.agent.name": name,
            "gen_ai.prompt.name": steps[-1].prompt or None,
            "archqa.backend": steps[-1].backend,
            "archqa.model": steps[-1].model,
            **_usage(steps),
        }
        return _Span(f"invoke_agent {name}", _INTERNAL, start, end, attributes, tuple(calls))

    def _chat(self, step: Step, start: int) -> _Span:
        reasons = ["tool_call"] if step.tool_calls else [_FINISHED.get(step.finish, step.finish)]
        attributes = {
            "gen_ai.operation.name": "chat",
            "gen_ai.provider.name": self._provider,
            "gen_ai.request.model": step.model,
            "gen_ai.response.model": step.model,
            "gen_ai.response.finish_reasons": reasons,
            "gen_ai.agent.name": step.agent,
            "gen_ai.prompt.name": step.prompt or None,
            "archqa.prompt.digest": step.prompt_digest or None,
            "archqa.cached": bool(step.usage.cached_calls),
            "archqa.cost_usd": step.usage.cost_usd,
            "archqa.output.rejected": bool(step.rejected),
            **_usage([step]),
        }
        if self._with_text:
            attributes |= {
                "gen_ai.system_instructions": system_instructions(step),
                "gen_ai.input.messages": input_messages(step),
                "gen_ai.output.messages": output_messages(step, reasons[0]),
            }
        end = start + _duration(step.usage.seconds)
        return _Span(f"chat {step.model}", _CLIENT, start, end, attributes)

    def _tools(self, traced: _TracedStep, at: int) -> Iterator[_Span]:
        """Yield the tools that a reply calls; how long they took is not kept."""
        for call in traced.step.tool_calls:
            name, call_id = str(call.get("name", "")), str(call.get("id", ""))
            attributes: Attributes = {
                "gen_ai.operation.name": "execute_tool",
                "gen_ai.tool.name": name,
                "gen_ai.tool.type": "function",
                "gen_ai.tool.call.id": call_id,
            }
            if self._with_text:
                attributes["gen_ai.tool.call.arguments"] = call.get("arguments")
                attributes["gen_ai.tool.call.result"] = traced.results.get(call_id)
            yield _Span(f"execute_tool {name}", _INTERNAL, at, at, attributes)


def _usage(steps: list[Step]) -> Attributes:
    """Return the tokens of calls; none where no model was called."""
    if all(step.backend != "model" for step in steps):
        return {}
    return {
        "gen_ai.usage.input_tokens": sum(step.usage.prompt_tokens for step in steps),
        "gen_ai.usage.output_tokens": sum(step.usage.completion_tokens for step in steps),
        "gen_ai.usage.cache_read.input_tokens": sum(
            step.usage.cached_prompt_tokens for step in steps
        ),
    }


def _agent_of(traced: _TracedStep) -> tuple[str, str]:
    return traced.step.agent, traced.step.about


def _with_results(steps: list[Step]) -> list[_TracedStep]:
    """Return the steps with the results of their tools, which are messages of a later step."""
    traced_steps = [_TracedStep(step, {}) for step in steps]
    waiting: dict[str, _TracedStep] = {}
    for traced in traced_steps:
        for message in traced.step.messages:
            call_id = str(message.get("tool_call_id", ""))
            if message.get("role") == "tool" and call_id in waiting:
                waiting.pop(call_id).results[call_id] = str(message.get("content", ""))
        waiting |= {str(call.get("id", "")): traced for call in traced.step.tool_calls}
    return traced_steps


def _provider(manifest: RunManifest) -> str:
    """Return the provider of the run's model server; a general name for others and for several."""
    hosts = [place for place in manifest.destinations if not place.startswith("queries to ")]
    names = set()
    for place in hosts:
        host = place.partition(" ")[0].partition(":")[0]
        is_azure = host.endswith(_AZURE)
        names.add("azure.ai.openai" if is_azure else _PROVIDERS.get(host, _OTHER_PROVIDER))
    return names.pop() if len(names) == 1 else _OTHER_PROVIDER


def _flattened(span: _Span, trace_id: str, path: str = "0", parent: str = "") -> Iterator[Any]:
    """Yield a span and all below it, as OTLP has them."""
    span_id = hashlib.sha256(f"{trace_id}/{path}".encode()).hexdigest()[:16]
    attributes = {**span.attributes, "error.type": span.failure or None}
    yield {
        "traceId": trace_id,
        "spanId": span_id,
        **({"parentSpanId": parent} if parent else {}),
        "name": span.name,
        "kind": span.kind,
        "startTimeUnixNano": str(span.start),
        "endTimeUnixNano": str(span.end),
        "attributes": _encoded(attributes),
        "status": {"code": _ERROR} if span.failure else {},
    }
    for number, child in enumerate(span.children):
        yield from _flattened(child, trace_id, f"{path}.{number}", span_id)


def _trace_id(manifest: RunManifest, case_id: str) -> str:
    """Return an id that the same case of the same run always has: exports twice are one trace."""
    return hashlib.sha256(f"{manifest.run}/{case_id}".encode()).hexdigest()[:32]


def _nanoseconds(time: datetime) -> int:
    return int(time.timestamp() * 1_000_000) * 1_000


def _duration(seconds: float) -> int:
    return int(seconds * 1_000_000_000)


def _encoded(attributes: Attributes) -> list[dict[str, Any]]:
    """Return attributes as OTLP has them, without those that are unknown."""
    known = {name: value for name, value in attributes.items() if value is not None}
    return [{"key": name, "value": _any_value(value)} for name, value in known.items()]


def _any_value(value: Any) -> dict[str, Any]:
    if isinstance(value, bool):
        return {"boolValue": value}
    if isinstance(value, int):
        return {"intValue": str(value)}
    if isinstance(value, float):
        return {"doubleValue": value}
    if isinstance(value, list):
        return {"arrayValue": {"values": [_any_value(item) for item in value]}}
    return {"stringValue": str(value)}
