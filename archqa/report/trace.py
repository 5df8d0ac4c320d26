"""What was said on the way to an answer, step by step, short enough to be folded into a page."""

import json
from typing import Any, NamedTuple

from archqa.core.step import Step
from archqa.report.page import shorten
from archqa.runs.run import Run

_MOST_STEPS = 60
_MOST_CHARACTERS = 320


class TraceStep(NamedTuple):
    """One step; `words` is what came back, cut. `tokens` is None for the embedded engine."""

    agent: str
    about: str
    performer: str
    words: str
    rejected: str
    tokens: int | None
    seconds: float | None


class Trace(NamedTuple):
    """The steps shown, and how many more the run's folder has."""

    steps: tuple[TraceStep, ...]
    left_out: int


def case_trace(run: Run, case_id: str, *, text: bool = True) -> Trace:
    """The steps of a case; without `text` only who was asked and what it cost."""
    steps = run.folder.steps(case_id)
    return Trace(
        tuple(_step(each, text) for each in steps[:_MOST_STEPS]), max(0, len(steps) - _MOST_STEPS)
    )


def _step(step: Step, text: bool) -> TraceStep:
    asked = step.mind == "model"
    return TraceStep(
        agent=step.agent.replace("_", " "),
        about=step.about,
        performer=step.model or step.mind,
        words=shorten(_words(step), _MOST_CHARACTERS) if text else "",
        rejected=(step.rejected if text else "sent back") if step.rejected else "",
        tokens=step.usage.prompt_tokens + step.usage.completion_tokens if asked else None,
        seconds=step.usage.seconds if asked else None,
    )


def _words(step: Step) -> str:
    """What came back: the reply as it was, or in short where the page tells the rest elsewhere."""
    parsed = step.parsed
    if parsed is None:
        return step.reply
    if "label" in parsed:
        return str(parsed["label"])
    if isinstance(parsed.get("verdicts"), list):
        found = [str(each.get("label")) for each in parsed["verdicts"] if isinstance(each, dict)]
        return f"{len(found)} sentences judged, {found.count('essential')} essential"
    if isinstance(parsed.get("answer"), list):
        return " / ".join(
            str(each.get("text", "")) for each in parsed["answer"] if isinstance(each, dict)
        )
    return "; ".join(_said(value) for value in parsed.values())


def _said(value: Any) -> str:
    if isinstance(value, list | tuple):
        return ", ".join(map(str, value))
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
