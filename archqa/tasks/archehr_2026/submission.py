"""ArchEHR-QA 2026: four subtasks over the same cases, each with a prediction of its own kind.

Source: soni-sarvesh/archehr-qa-2026 at 344b67e: `[{"case_id", "prediction"}]` in a zip as `submission.json`.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Literal

from archqa.core.answer import CitedAnswer, Claim
from archqa.core.case import Case
from archqa.tasks.archehr_2025.cases import ArchehrQa
from archqa.tasks.archehr_2026.result import ArchehrResult
from archqa.tasks.files.mistakes import is_blank
from archqa.tasks.files.node import Content
from archqa.tasks.task import CompletedCase, MissingPart

_NO_MESSAGE = MissingPart(
    "patient_narrative", "holds no message to interpret; give the case a patient_narrative."
)

QUESTION_WORDS = 15
ANSWER_WORDS = 75


@dataclass(frozen=True)
class ArchehrQa2026(ArchehrQa):
    """One of the four subtasks. Their cases look like those of 2025: only `--task` can tell them."""

    subtask: Literal[1, 2, 3, 4] = 1

    def recognises(self, content: Content) -> bool:
        """Never by content."""
        return False

    def missing_parts(self, item: Case) -> Iterator[MissingPart]:
        """As in 2025; subtask 1 interprets the patient's message alone."""
        if self.subtask != 1:
            yield from super().missing_parts(item)
        elif is_blank(item.patient_narrative):
            yield _NO_MESSAGE

    def submission(self, ended: Iterable[CompletedCase]) -> list[dict[str, Any]]:
        """`[{"case_id", "prediction"}]` of the cases that ended with what this subtask takes."""
        rows = []
        for case in ended:
            prediction = self.prediction(case)
            if prediction is not None:
                rows.append({"case_id": case.item.id, "prediction": prediction})
        return rows

    def prediction(self, ended: CompletedCase) -> Any:
        """The prediction of one case: a question, sentence ids, an answer or links.

        It is None if the run made no such prediction.
        """
        if self.subtask in {2, 3}:
            return self._prediction_from_answer(ended)
        if not isinstance(ended.result, ArchehrResult):
            return None
        if self.subtask == 4:
            return ended.result.to_json().get("links")
        question = ended.result.question
        if not question:
            return None
        return _cut(question, QUESTION_WORDS)

    def _prediction_from_answer(self, ended: CompletedCase) -> Any:
        if ended.answer is None:
            return None
        if self.subtask == 2:
            return list(ended.evidence)
        return to_plain_prose(ended.answer)


def to_plain_prose(answer: CitedAnswer) -> str:
    """An answer as prose of at most 75 words, without citations and pipes.

    Only a leading line that is too long by itself is cut.
    """
    words: list[str] = []
    for claim in submitted_claims(answer):
        words.extend(_words(claim))
    return " ".join(words[:ANSWER_WORDS])


def submitted_claims(answer: CitedAnswer) -> list[Claim]:
    """The lines of an answer that the prose has. Lines are left out whole.

    A line that only names further evidence says nothing without its citations, so it is left out
    too.
    """
    claims: list[Claim] = []
    words = 0
    statements = [claim for claim in answer.claims if not claim.is_pointer]
    for claim in statements:
        length = len(_words(claim))
        if words and words + length > ANSWER_WORDS:
            break
        words += length
        claims.append(claim)
    return claims


def _words(claim: Claim) -> list[str]:
    return claim.text.replace("|", "/").split()


def _cut(text: str, max_words: int) -> str:
    return " ".join(text.split()[:max_words])
