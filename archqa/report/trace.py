"""The trace of a case: the agents' steps, shortened for the page."""

import json
from typing import Any, NamedTuple

from archqa.core.step import Step
from archqa.report.page import shorten
from archqa.runs.run import Run

_MAX_STEPS = 60
_MAX_REPLY_LENGTH = 320


class TraceStep(NamedTuple):
    """One step. `tokens` and `seconds` are None if no model was called."""

    agent: str
    about: str
    backend: str
    reply: str
    rejected: str
    tokens: int | None
    seconds: float | None


class Trace(NamedTuple):
    """The steps shown; `omitted` further steps are in the run folder."""

    steps: tuple[TraceStep, ...]
    omitted: int


def case_trace(run: Run, case_id: str, *, text: bool = True) -> Trace:
    """Return the steps of a case; without `text`, only the agents and their cost."""
    steps = run.folder.steps(case_id)
    shown = tuple(_trace_step(step, text) for step in steps[:_MAX_STEPS])
    return Trace(shown, len(steps) - len(shown))


def _trace_step(step: Step, text: bool) -> TraceStep:
    called_model = step.backend == "model"
    rejected = step.rejected
    if rejected and not text:
        rejected = "sent back"
    total_tokens = step.usage.prompt_tokens + step.usage.completion_tokens
    return TraceStep(
        agent=step.agent.replace("_", " "),
        about=step.about,
        backend=step.model or step.backend,
        reply=shorten(_summarise_reply(step), _MAX_REPLY_LENGTH) if text else "",
        rejected=rejected,
        tokens=total_tokens if called_model else None,
        seconds=step.usage.seconds if called_model else None,
    )


def _summarise_reply(step: Step) -> str:
    """Return the reply, or a summary where the page shows its content elsewhere."""
    parsed = step.parsed
    if parsed is None:
        return step.reply
    if "label" in parsed:
        return str(parsed["label"])
    if isinstance(parsed.get("verdicts"), list):
        return _summarise_verdicts(parsed["verdicts"])
    if isinstance(parsed.get("answer"), list):
        return _join_lines(parsed["answer"])
    return "; ".join(_format_field(field) for field in parsed.values())


def _summarise_verdicts(verdicts: list[Any]) -> str:
    labels = []
    for verdict in verdicts:
        if isinstance(verdict, dict):
            labels.append(str(verdict.get("label")))
    return f"{len(labels)} sentences judged, {labels.count('essential')} essential"


def _join_lines(lines: list[Any]) -> str:
    texts = []
    for line in lines:
        if isinstance(line, dict):
            texts.append(str(line.get("text", "")))
    return " / ".join(texts)


def _format_field(field: Any) -> str:
    if isinstance(field, list | tuple):
        return ", ".join(map(str, field))
    if isinstance(field, str):
        return field
    return json.dumps(field, ensure_ascii=False)
