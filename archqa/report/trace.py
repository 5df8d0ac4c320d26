"""The trace of a case as a tree: stages, the calls of their agents, attempts, and their texts."""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from archqa.core.case import Case
from archqa.core.question import Item
from archqa.core.step import Step
from archqa.core.usage import Usage, sum_usage
from archqa.report.page import as_json, shorten
from archqa.report.trace_attempts import AttemptView, attempt_views
from archqa.report.trace_calls import MODEL, Call, group_calls
from archqa.report.trace_judgements import (
    Excerpts,
    JudgementTable,
    count_judgements,
    has_judgements,
    judgement_table,
)
from archqa.report.trace_summaries import summarise_call, summarise_output
from archqa.report.trace_texts import TextCutter, TraceText
from archqa.runs.folder import trace_name
from archqa.runs.run import Run

_MAX_CALLS_IN_REPORT = 40
_MAX_CALLS_ON_PAGE = 400
_MAX_SUMMARY_LENGTH = 320
_MAX_REJECTION_LENGTH = 200
_QUERY_PARSER = "embedded:query-parser"


class CallView(NamedTuple):
    """One call of an agent on a model. Without texts, `attempts` is empty but counted.

    `outcome` is accepted, kept in part, or failed.
    """

    is_conversation: bool
    about: str
    model: str
    prompt: str
    outcome: str
    attempt_count: int
    attempts: tuple[AttemptView, ...]
    tool_call_count: int
    rejections: tuple[str, ...]
    summary: str
    judgements: JudgementTable | None
    usage: Usage


class EngineView(NamedTuple):
    """Everything that the embedded engine computed in one stage."""

    name: str
    judgement_count: int
    summary: str
    judgements: JudgementTable | None
    outputs: tuple[TraceText, ...]
    rejections: tuple[str, ...]


class StageView(NamedTuple):
    """A stage of the pipeline: what the engine computed, and the calls of models.

    `calls` are those shown of `call_count`.
    """

    name: str
    engine: EngineView | None
    calls: tuple[CallView, ...]
    call_count: int
    rejected: int
    usage: Usage

    @property
    def omitted(self) -> int:
        """Calls that are not shown."""
        return self.call_count - len(self.calls)


class Trace(NamedTuple):
    """The tree of a case; `file` has all of it, relative to the folder of the run."""

    stages: tuple[StageView, ...]
    steps: int
    call_count: int
    rejected: int
    usage: Usage
    file: str
    is_full: bool


class _Extent(NamedTuple):
    """How much of a trace is shown. `cutter` is None where prompts and replies are not; `tables`
    are of judgements.
    """

    text: bool
    tables: bool
    cutter: TextCutter | None
    excerpts: Excerpts


def case_trace(run: Run, case_id: str, *, text: bool = True, tables: bool = True) -> Trace:
    """Return the tree of a case for a report: without prompts, replies shortened.

    Without `text`, it has only the agents and their cost. `tables` of judgements are left out
    where the report shows the judgements elsewhere.
    """
    extent = _Extent(text, text and tables, None, {})
    return _trace(run, case_id, extent, _MAX_CALLS_IN_REPORT)


def full_trace(run: Run, item: Item) -> Trace:
    """Return the tree of a case with its prompts, replies, rejections, and tool calls."""
    excerpts = {}
    if isinstance(item, Case):
        excerpts = {sentence.id: sentence.text for sentence in item.sentences}
    extent = _Extent(True, True, TextCutter(), excerpts)
    return _trace(run, item.id, extent, _MAX_CALLS_ON_PAGE)


def _trace(run: Run, case_id: str, extent: _Extent, max_calls: int) -> Trace:
    steps = run.folder.steps(case_id)
    stages = []
    calls_left = max_calls
    for agent in dict.fromkeys(step.agent for step in steps):
        stage_steps = [step for step in steps if step.agent == agent]
        stage = _stage(agent, stage_steps, extent, calls_left)
        calls_left -= len(stage.calls)
        stages.append(stage)
    return Trace(
        stages=tuple(stages),
        steps=len(steps),
        call_count=sum(stage.call_count for stage in stages),
        rejected=_count_rejected(steps),
        usage=sum_usage(step.usage for step in steps),
        file=trace_name(case_id),
        is_full=extent.cutter is not None,
    )


def _stage(agent: str, steps: Sequence[Step], extent: _Extent, max_calls: int) -> StageView:
    engine_steps = [step for step in steps if step.backend != MODEL]
    calls = group_calls(steps)
    shown = tuple(_call_view(call, extent) for call in calls[:max_calls])
    return StageView(
        name=agent.replace("_", " "),
        engine=_engine_view(engine_steps, extent) if engine_steps else None,
        calls=shown,
        call_count=len(calls),
        rejected=_count_rejected(steps),
        usage=sum_usage(step.usage for step in steps),
    )


def _count_rejected(steps: Iterable[Step]) -> int:
    return sum(1 for step in steps if step.rejected)


def _engine_view(steps: Sequence[Step], extent: _Extent) -> EngineView:
    is_parser = steps[0].model == _QUERY_PARSER
    name = "query parser" if is_parser else "embedded engine"
    return EngineView(
        name=name,
        judgement_count=count_judgements(steps),
        summary=_engine_summary(steps, extent),
        judgements=judgement_table(steps, extent.excerpts) if extent.tables else None,
        outputs=_engine_outputs(steps, extent),
        rejections=_rejections(steps, extent),
    )


def _engine_summary(steps: Sequence[Step], extent: _Extent) -> str:
    if not extent.text:
        return ""
    outputs = [summarise_output(step) for step in steps if not has_judgements(step)]
    return shorten("; ".join(outputs), _MAX_SUMMARY_LENGTH)


def _engine_outputs(steps: Sequence[Step], extent: _Extent) -> tuple[TraceText, ...]:
    """Return what the engine computed besides judgements."""
    cutter = extent.cutter
    if cutter is None:
        return ()
    others = [step for step in steps if step.parsed and not has_judgements(step)]
    return tuple(cutter.cut(step.about or "output", as_json(step.parsed)) for step in others)


def _rejections(steps: Iterable[Step], extent: _Extent) -> tuple[str, ...]:
    """Return why outputs were sent back, each reason once."""
    if not extent.text:
        return ()
    max_length = _MAX_REJECTION_LENGTH if extent.cutter is None else _MAX_SUMMARY_LENGTH
    reasons = dict.fromkeys(step.rejected for step in steps if step.rejected)
    return tuple(shorten(reason, max_length) for reason in reasons)


def _call_view(call: Call, extent: _Extent) -> CallView:
    steps = [attempt.step for attempt in call.attempts]
    last = steps[-1]
    return CallView(
        is_conversation=call.is_conversation,
        about=last.about if extent.text else "",
        model=last.model,
        prompt=last.prompt,
        outcome=_outcome(call),
        attempt_count=len(steps),
        attempts=attempt_views(call, extent.cutter) if extent.cutter else (),
        tool_call_count=sum(len(step.tool_calls) for step in steps),
        rejections=_rejections(steps, extent),
        summary=shorten(summarise_call(call), _MAX_SUMMARY_LENGTH) if extent.text else "",
        judgements=judgement_table([last], extent.excerpts) if extent.tables else None,
        usage=sum_usage(step.usage for step in steps),
    )


def _outcome(call: Call) -> str:
    last = call.attempts[-1].step
    if last.rejected:
        return "kept in part" if last.mended else "failed"
    return "accepted"
