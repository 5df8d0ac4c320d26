"""Grades finished conversations by both rules, from nothing but the tasks, the transcripts and a record to look up."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from .medagentbench_clinical import clinical_faults
from .medagentbench_faults import Fault
from .medagentbench_official import official_faults
from .medagentbench_reference import Lookup
from .medagentbench_transcript import Task, Transcript, finish_only_transcript

IDLE = ("FINISH([])", "FINISH([-1])", "FINISH()")
"""Replies that do nothing; what they score stands beside every result."""


@dataclass(frozen=True)
class Grade:
    """One task by both gradings: every fault of each."""

    task_id: str
    official: tuple[Fault, ...]
    clinical: tuple[Fault, ...]

    def row(self) -> dict[str, Any]:
        """As `score` takes it."""
        return {
            "task_id": self.task_id,
            "correct": not self.official,
            "clinical_correct": not self.clinical,
            "failure": self.official[0].kind if self.official else None,
            "clinical_failure": self.clinical[0].kind if self.clinical else None,
            "faults": [each._asdict() for each in self.official],
            "clinical_faults": [each._asdict() for each in self.clinical],
        }


def grade(task: Task, transcript: Transcript, lookup: Lookup) -> Grade:
    """Grade one conversation. Raises what `lookup` raises."""
    official = official_faults(task, transcript, lookup)
    return Grade(task.id, tuple(official), tuple(clinical_faults(task, transcript, lookup)))


def grade_all(
    tasks: Sequence[Task], transcripts: Mapping[str, Transcript], lookup: Lookup
) -> list[dict[str, Any]]:
    """The rows of every task that has a transcript, in the order of the tasks."""
    return [
        grade(task, transcripts[task.id], lookup).row() for task in tasks if task.id in transcripts
    ]


def grade_do_nothing(tasks: Sequence[Task], lookup: Lookup) -> dict[str, list[dict[str, Any]]]:
    """What the replies that do nothing would have got."""
    return {
        reply: grade_all(tasks, {task.id: finish_only_transcript(reply) for task in tasks}, lookup)
        for reply in IDLE
    }
