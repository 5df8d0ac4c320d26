"""The view of a MedAgentBench task: the conversation, the result, and the graders' findings."""

import re
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from archqa.report.page import shorten
from archqa.runs.record import CaseRecord
from archqa.tasks.medagentbench.task import ConversationResult

_MAX_TURN_LENGTH = 4000
_MAX_TURNS = 40
_ACTIONS = frozenset({"GET", "POST", "FINISH"})
_BEGINNING = re.compile(r"[`\n ]*([^( ]*)")
"""The beginning of an agent's message, without a code fence, up to a bracket or space."""

_GRADERS = {"success_rate": "official grader", "clinical_success_rate": "clinical grader"}


class Turn(NamedTuple):
    """One message. `role` is prompt, agent or record; `action` is empty unless the agent's."""

    role: str
    action: str
    text: str


class GraderFinding(NamedTuple):
    """One finding of a grader; `passed` is None for a remark."""

    grader: str
    passed: bool | None
    text: str


class TaskView(NamedTuple):
    """The result of one run for a task. `omitted` messages are in the run folder only."""

    turns: tuple[Turn, ...]
    omitted: int
    answer: str
    findings: tuple[GraderFinding, ...]


def task_view(
    record: CaseRecord | None, scores: Mapping[str, float], faults: Mapping[str, Any]
) -> TaskView:
    """Return the view of a record's `result`.

    `scores` are those of the task, 100 for a pass; `faults` are the mistakes by grader.
    """
    result = ConversationResult(result="")
    if record and isinstance(record.result, ConversationResult):
        result = record.result
    history = result.history
    turns = [_turn(index, message) for index, message in enumerate(history[:_MAX_TURNS])]
    return TaskView(
        turns=tuple(turns),
        omitted=len(history) - len(turns),
        answer=result.result or "",
        findings=(*_score_findings(scores), *_fault_findings(faults)),
    )


def _turn(index: int, message: Mapping[str, Any]) -> Turn:
    text = str(message.get("content") or "")
    shown_text = shorten(text, _MAX_TURN_LENGTH)
    if message.get("role") in {"agent", "assistant"}:
        return Turn("agent", _action(text), shown_text)
    role = "prompt" if index == 0 else "record"
    return Turn(role, "", shown_text)


def _action(text: str) -> str:
    """Return GET, POST or FINISH if the agent's message starts with it."""
    beginning = _BEGINNING.match(text)
    if beginning is None:
        return ""
    action = beginning.group(1).upper()
    return action if action in _ACTIONS else ""


def _score_findings(scores: Mapping[str, float]) -> Iterable[GraderFinding]:
    for metric, grader in _GRADERS.items():
        if metric not in scores:
            continue
        passed = scores[metric] > 0
        text = "passed" if passed else "not passed"
        yield GraderFinding(grader, passed, text)


def _fault_findings(faults: Mapping[str, Any]) -> Iterable[GraderFinding]:
    for grader, grader_faults in faults.items():
        if not isinstance(grader_faults, list | tuple):
            grader_faults = [grader_faults]
        for fault in grader_faults:
            if fault:
                yield GraderFinding(f"{grader} grader", None, _fault_text(fault))


def _fault_text(fault: Any) -> str:
    if not isinstance(fault, Mapping):
        return str(fault)
    parts = []
    for part in fault.values():
        if part not in (None, ""):
            parts.append(str(part))
    return ": ".join(parts)
