"""Stage 6 of 6: the answer as submitted (paper §3.2, Final Answer Generation; §4.3.2 for the two
strategies).

`CompressionAgent` shortens a cited answer to the word limit; `SummaryAgent` writes one from the
chosen sentences alone. `concatenate_question_and_evidence` is the paper's submitted form and needs
no model.
"""

from typing import TypeVar

from archqa.agents.agent import Agent, CaseTask
from archqa.agents.cited_lines import (
    Lines,
    check_citations,
    check_lines,
    check_word_limit,
    restrict_citations,
)
from archqa.core.answer import WORD_LIMIT, CitedAnswer, Claim
from archqa.core.case import Case


class ShortAnswerTask(CaseTask):
    """An answer to be written within a limit of words."""

    word_limit: int = WORD_LIMIT

    @property
    def required_citations(self) -> frozenset[str]:
        """The ids that the answer must cite, exactly."""
        raise NotImplementedError


Task = TypeVar("Task", bound=ShortAnswerTask)


class ShortAnswerAgent(Agent[Task, Lines]):
    """Writes a short answer that cites what its task requires."""

    name = "answer"
    output_type = Lines

    def check(self, task: Task, output: Lines) -> None:
        """The answer is short enough and cites exactly what is required."""
        answer = output.as_answer()
        check_lines(task.case, answer)
        check_word_limit(answer, task.word_limit)
        check_citations(answer, task.required_citations)

    def salvage(self, task: Task, output: Lines) -> Lines | None:
        """An answer within the limit, even if it lacks a required citation."""
        answer = restrict_citations(output.as_answer(), task.required_citations)
        if answer is None or answer.words > task.word_limit:
            return None
        return Lines.from_answer(answer)


class CompressionTask(ShortAnswerTask):
    """A cited answer that is too long."""

    draft: CitedAnswer

    @property
    def required_citations(self) -> frozenset[str]:
        """The ids that the draft cites."""
        return self.draft.cited


class CompressionAgent(ShortAnswerAgent[CompressionTask]):
    """Says the same in fewer words, keeping every citation."""

    prompt = "compress/v2"
    task_type = CompressionTask


class SummaryTask(ShortAnswerTask):
    """The sentences an answer is to be written from."""

    essential: tuple[str, ...]

    @property
    def required_citations(self) -> frozenset[str]:
        """The essential sentences."""
        return frozenset(self.essential)


class SummaryAgent(ShortAnswerAgent[SummaryTask]):
    """Writes a short answer in its own words from the essential sentences (paper Table 2, second
    row).
    """

    prompt = "summary/v2"
    task_type = SummaryTask


def concatenate_question_and_evidence(case: Case, essential: frozenset[str]) -> CitedAnswer:
    """The questions and the chosen sentences in full, with every id on the last line (paper Table
    2, first row).

    The scorer cuts the answer to 75 words and keeps the citations; the questions alone are often
    longer.
    """
    chosen = case.in_note_order(essential)
    sentences = [case.text_of[sentence_id] for sentence_id in chosen]
    texts = [case.patient_narrative, case.clinician_question, *sentences]
    lines = [_without_pipes(text) for text in texts if text.strip()]
    claims = [Claim(text=line, citations=()) for line in lines[:-1]]
    claims.append(Claim(text=lines[-1], citations=chosen))
    return CitedAnswer(claims=tuple(claims))


def _without_pipes(text: str) -> str:
    """One line without pipes: the scorer would read the last pipe of a line as a citation mark."""
    return " ".join(text.replace("|", "/").split())
