"""ArchEHR-QA 2026: four subtasks over the same cases, each with a prediction of its own kind.

Source: soni-sarvesh/archehr-qa-2026 at 344b67e: `[{"case_id", "prediction"}]` in a zip as `submission.json`.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Literal

from archqa.core.answer import CitedAnswer
from archqa.tasks.archehr_2025.cases import ArchehrQa
from archqa.tasks.files.node import Content
from archqa.tasks.task import CompletedCase

QUESTION_WORDS, ANSWER_WORDS = 15, 75


@dataclass(frozen=True)
class ArchehrQa2026(ArchehrQa):
    """One of the four subtasks. Their cases look like those of 2025: only `--task` can tell them."""

    subtask: Literal[1, 2, 3, 4] = 1

    def recognises(self, content: Content) -> bool:
        """Never by content."""
        return False

    def submission(self, ended: Iterable[CompletedCase]) -> list[dict[str, Any]]:
        """`[{"case_id", "prediction"}]` of the cases that ended with what this subtask takes."""
        rows = ((each.item.id, self.prediction(each)) for each in ended)
        return [
            {"case_id": case_id, "prediction": value}
            for case_id, value in rows
            if value is not None
        ]

    def prediction(self, ended: CompletedCase) -> Any:
        """What one case predicts: a question, sentence ids, an answer or links; None if the run made no such thing."""
        if self.subtask == 1:
            question = ended.result.get("question")
            return _cut(question, QUESTION_WORDS) if question else None
        if self.subtask == 4:
            return ended.result.get("links")
        if ended.answer is None:
            return None
        return list(ended.evidence) if self.subtask == 2 else to_plain_prose(ended.answer)


def to_plain_prose(answer: CitedAnswer) -> str:
    """An answer as prose of at most 75 words: no citations, no pipes, whole lines as long as they fit."""
    lines = [" ".join(claim.text.replace("|", "/").split()) for claim in answer.claims]
    kept: list[str] = []
    for line in lines:
        if kept and len(" ".join([*kept, line]).split()) > ANSWER_WORDS:
            break
        kept.append(line)
    return _cut(" ".join(kept), ANSWER_WORDS)


def _cut(text: str, words: int) -> str:
    return " ".join(text.split()[:words])


SUBTASKS = (
    ArchehrQa2026(
        "archehr-2026-st1",
        "ArchEHR-QA 2026, subtask 1: question interpretation",
        word_limit=15,
        subtask=1,
    ),
    ArchehrQa2026(
        "archehr-2026-st2", "ArchEHR-QA 2026, subtask 2: evidence identification", subtask=2
    ),
    ArchehrQa2026(
        "archehr-2026-st3",
        "ArchEHR-QA 2026, subtask 3: answer generation",
        word_limit=75,
        subtask=3,
    ),
    ArchehrQa2026(
        "archehr-2026-st4", "ArchEHR-QA 2026, subtask 4: answer-evidence alignment", subtask=4
    ),
)
