"""ArchEHR-QA 2026: four subtasks over the same cases, each with a prediction of its own kind.

Source: soni-sarvesh/archehr-qa-2026 at 344b67e: `[{"case_id", "prediction"}]` in a zip as `submission.json`.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Literal

from archqa.core.answer import CitedAnswer
from archqa.tasks.archehr_2025.cases import ArchehrQa
from archqa.tasks.archehr_2026.result import ArchehrResult
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
        rows = []
        for case in ended:
            prediction = self.prediction(case)
            if prediction is not None:
                rows.append({"case_id": case.item.id, "prediction": prediction})
        return rows

    def prediction(self, ended: CompletedCase) -> Any:
        """What one case predicts: a question, sentence ids, an answer or links; None if the run made no such thing."""
        result = ended.result if isinstance(ended.result, ArchehrResult) else ArchehrResult()
        if self.subtask == 1:
            return _cut(result.question, QUESTION_WORDS) if result.question else None
        if self.subtask == 4:
            return result.to_json().get("links")
        if ended.answer is None:
            return None
        return list(ended.evidence) if self.subtask == 2 else to_plain_prose(ended.answer)


def to_plain_prose(answer: CitedAnswer) -> str:
    """An answer as prose of at most 75 words: no citations, no pipes, whole lines as long as they fit."""
    lines = [" ".join(claim.text.replace("|", "/").split()) for claim in answer.claims]
    selected: list[str] = []
    for line in lines:
        if selected and len(" ".join([*selected, line]).split()) > ANSWER_WORDS:
            break
        selected.append(line)
    return _cut(" ".join(selected), ANSWER_WORDS)


def _cut(text: str, max_words: int) -> str:
    return " ".join(text.split()[:max_words])
