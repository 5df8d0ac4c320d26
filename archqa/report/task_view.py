"""A task of MedAgentBench: the conversation with the record, what was handed in, and what the graders found."""

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from archqa.report.page import shorten
from archqa.runs.record import CaseRecord
from archqa.tasks.medagentbench.result import ConversationResult

_LONGEST_TURN = 4000
_MOST_TURNS = 40


class Turn(NamedTuple):
    """One message: who spoke (prompt, agent or record), what kind of move it was, and its words."""

    role: str
    action: str
    words: str


class GraderFinding(NamedTuple):
    """What one grader holds of the outcome; `passed` is None where it only remarks."""

    grader: str
    passed: bool | None
    words: str


class TaskView(NamedTuple):
    """What became of one task with one run."""

    turns: tuple[Turn, ...]
    left_out: int
    answer: str
    findings: tuple[GraderFinding, ...]


def task_view(
    record: CaseRecord | None, scores: Mapping[str, float], faults: Mapping[str, Any]
) -> TaskView:
    """The view of a record's `result`; `scores` are those of the case, 100 for a pass; `faults` those found."""
    result = record.result if record else None
    if not isinstance(result, ConversationResult):
        result = ConversationResult(result="")
    history, answer = result.history, result.result
    return TaskView(
        turns=tuple(_turn(at, each) for at, each in enumerate(history[:_MOST_TURNS])),
        left_out=max(0, len(history) - _MOST_TURNS),
        answer="" if answer is None else str(answer),
        findings=(*_scored(scores), *_faults(faults)),
    )


def _turn(at: int, message: Mapping[str, Any]) -> Turn:
    words = str(message.get("content") or "")
    role = (
        "agent" if message.get("role") in {"agent", "assistant"} else "record" if at else "prompt"
    )
    first = words.lstrip("`\n ").split("(", 1)[0].split(" ", 1)[0].upper()
    move = first if role == "agent" and first in {"GET", "POST", "FINISH"} else ""
    return Turn(role, move, shorten(words, _LONGEST_TURN))


def _scored(scores: Mapping[str, float]) -> Iterable[GraderFinding]:
    for name in ("success_rate", "clinical_success_rate"):
        if name in scores:
            grader = "clinical grader" if name.startswith("clinical") else "official grader"
            passed = scores[name] > 0
            yield GraderFinding(grader, passed, "passed" if passed else "not passed")


def _faults(faults: Mapping[str, Any]) -> Iterable[GraderFinding]:
    """Each fault in the words of its grader."""
    for grader, found in faults.items():
        for each in found if isinstance(found, list | tuple) else [found]:
            if each:
                yield GraderFinding(f"{grader} grader", None, _words(each))


def _words(fault: Any) -> str:
    if isinstance(fault, Mapping):
        return ": ".join(str(each) for each in fault.values() if each not in (None, ""))
    return str(fault)
