"""What a call led to, in a line."""

import json
from typing import Any

from archqa.core.step import Step
from archqa.report.trace_calls import Call


def summarise_call(call: Call) -> str:
    """Return what a call led to: its output, else its last words or the tools it called."""
    last = call.attempts[-1].step
    if last.parsed or last.reply:
        return summarise_output(last)
    names = []
    for attempt in call.attempts:
        for tool_call in attempt.step.tool_calls:
            names.append(str(tool_call.get("name", "")))
    return ", ".join(names)


def summarise_output(step: Step) -> str:
    """Return the output, or a summary where the page shows its content elsewhere."""
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
        return ", ".join(map(_format_field, field))
    if isinstance(field, str):
        return field
    return json.dumps(field, ensure_ascii=False)
