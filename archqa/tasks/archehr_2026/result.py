"""What a subtask of ArchEHR-QA 2026 takes of a case beside the cited answer."""

from archqa.core.result import TaskResult
from archqa.core.value import FrozenModel


class AnswerLinks(FrozenModel):
    """The note sentences that one sentence of the clinician's answer rests on."""

    answer_id: str
    evidence_id: tuple[str, ...]


class ArchehrResult(TaskResult):
    """The clinician's question behind a message (subtask 1), or links to evidence (subtask 4)."""

    question: str | None = None
    links: tuple[AnswerLinks, ...] | None = None
