"""Grade finished conversations by the official and the clinical rules.

The input is the tasks, the transcripts and a FHIR search function over the patients' record.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from .medagentbench_clinical import clinical_faults
from .medagentbench_faults import Fault
from .medagentbench_official import BASE, official_faults
from .medagentbench_reference import Lookup
from .medagentbench_transcript import Task, Transcript, finish_only_transcript

IDLE = ("FINISH([])", "FINISH([-1])", "FINISH()")
"""Replies that do nothing; their scores are reported as baselines."""


@dataclass(frozen=True)
class Grade:
    """The faults of one task by the official and the clinical grading."""

    task_id: str
    official: tuple[Fault, ...]
    clinical: tuple[Fault, ...]

    def row(self) -> dict[str, Any]:
        """The row that `medagentbench.score` takes."""
        return {
            "task_id": self.task_id,
            "correct": not self.official,
            "clinical_correct": not self.clinical,
            "failure": _first_kind(self.official),
            "clinical_failure": _first_kind(self.clinical),
            "faults": [fault._asdict() for fault in self.official],
            "clinical_faults": [fault._asdict() for fault in self.clinical],
        }


def grade(task: Task, transcript: Transcript, lookup: Lookup, base: str = BASE) -> Grade:
    """Grade one conversation, whose agent was told this base URL. Raises what `lookup` raises."""
    official = official_faults(task, transcript, lookup, base)
    clinical = clinical_faults(task, transcript, lookup)
    return Grade(task.id, tuple(official), tuple(clinical))


def grade_all(
    tasks: Sequence[Task],
    transcripts: Mapping[str, Transcript],
    lookup: Lookup,
    base: str = BASE,
) -> list[dict[str, Any]]:
    """The rows of all tasks that have a transcript, in the order of the tasks."""
    rows = []
    for task in tasks:
        if task.id in transcripts:
            rows.append(grade(task, transcripts[task.id], lookup, base).row())
    return rows


def count_posts_elsewhere(transcripts: Iterable[Transcript], base: str = BASE) -> int:
    """How many conversations have an accepted POST to a URL that does not begin with the base."""
    elsewhere = 0
    for transcript in transcripts:
        posts = transcript.executed_urls()
        elsewhere += any(not url.startswith(base) for url in posts)
    return elsewhere


def grade_do_nothing(tasks: Sequence[Task], lookup: Lookup) -> dict[str, list[dict[str, Any]]]:
    """Reply → the rows that the reply would get in every task, for the replies that do nothing."""
    rows_of = {}
    for reply in IDLE:
        transcript = finish_only_transcript(reply)
        rows_of[reply] = [grade(task, transcript, lookup).row() for task in tasks]
    return rows_of


def _first_kind(faults: Sequence[Fault]) -> str | None:
    return faults[0].kind if faults else None
