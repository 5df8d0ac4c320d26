"""Stages 5 and 6 of 6: the decision, and the answer as submitted (paper §3.2, Consensus and Final
Answer Generation; §4.3.2 for the two strategies).

`DecisionAgent` weighs all judgements, chooses the essential sentences and writes an answer.
`CompressionAgent` shortens a cited answer to the word limit; `SummaryAgent` writes one from the
chosen sentences alone. `concatenate_question_and_evidence` is the paper's submitted form and needs
no model.
"""

from typing import Self, TypeVar

from archqa.agents.agent import Agent, CaseTask, invented_ids, join_ids, reject_all
from archqa.core.answer import WORD_LIMIT, CitedAnswer, Claim
from archqa.core.case import Case
from archqa.core.judgement import Judgement, LabelScheme
from archqa.core.value import FrozenModel
from archqa.llm.structured import SentenceId


class Line(FrozenModel):
    """One sentence of an answer and the ids of the note sentences that support it."""

    text: str
    citations: tuple[SentenceId, ...]


class Lines(FrozenModel):
    """An answer, one sentence a line."""

    answer: tuple[Line, ...]

    @classmethod
    def from_answer(cls, answer: CitedAnswer) -> Self:
        """An answer in the form that an agent returns."""
        lines = []
        for claim in answer.claims:
            lines.append(Line(text=claim.text, citations=claim.citations))
        return cls(answer=tuple(lines))

    def as_answer(self) -> CitedAnswer:
        """The cited answer: ids without spaces, none repeated in a line, empty lines left out."""
        claims = []
        for line in self.answer:
            text = " ".join(line.text.split())
            ids = dict.fromkeys(citation.strip() for citation in line.citations)
            if text:
                claims.append(Claim(text=text, citations=tuple(filter(None, ids))))
        return CitedAnswer(claims=tuple(claims))


def line_problems(
    case: Case, answer: CitedAnswer, essential: frozenset[str]
) -> tuple[str, ...]:
    """What is wrong with an answer: text, citation marks, ids, and what is cited but not essential.

    It must cite exactly the essential sentences.
    """
    if not answer.claims:
        return ("Your answer is empty. Write it, one sentence a line.",)
    problems = [invented_ids(answer.cited, case, "Your answer cites")]
    if any("|" in claim.text for claim in answer.claims):
        problems.append(
            "Leave citation marks and pipes out of the text; ids go into `citations`."
        )
    if not answer.cited:
        problems.append(
            "Your answer cites nothing. Name the sentences each line rests on."
        )
        return tuple(problems)
    missing = sorted(essential - answer.cited)
    superfluous = sorted(answer.cited & set(case.sentence_ids) - essential)
    if missing:
        problems.append(
            f"No line cites {join_ids(missing)}, which you hold to be essential. Cite every essential one."
        )
    if superfluous and essential:
        problems.append(
            f"You cite {join_ids(superfluous)}, not among the essential sentences {join_ids(sorted(essential))}."
        )
    return tuple(problems)


def restrict_citations(
    answer: CitedAnswer, allowed: frozenset[str]
) -> CitedAnswer | None:
    """The answer without citations outside `allowed` and without pipes; None if it then cites
    nothing.
    """
    claims = []
    for claim in answer.claims:
        text = " ".join(claim.text.replace("|", " ").split())
        citations = tuple(
            citation for citation in claim.citations if citation in allowed
        )
        if text:
            claims.append(Claim(text=text, citations=citations))
    restricted = CitedAnswer(claims=tuple(claims))
    if not restricted.cited:
        return None
    return restricted


class DecisionTask(CaseTask):
    """The case and every agent's judgements, by the agent's name."""

    judgements: dict[str, tuple[Judgement, ...]]
    labels: LabelScheme = "binary"
    word_limit: int = WORD_LIMIT


class DecisionOutput(Lines):
    """The essential sentences, and the answer that rests on them."""

    essential: tuple[SentenceId, ...]


class DecisionAgent(Agent[DecisionTask, DecisionOutput]):
    """Consolidates all judgements into one essential set and one cited answer."""

    name = "decision"
    prompt = "decision/v2"
    task_type = DecisionTask
    output_type = DecisionOutput

    def check(self, task: DecisionTask, output: DecisionOutput) -> None:
        """The essential ids exist, and the answer cites exactly those."""
        essential = frozenset(output.essential)
        no_essential = "You name no essential sentence. Name those the answer rests on."
        reject_all(
            "" if essential else no_essential,
            invented_ids(essential, task.case, "You call essential"),
            *line_problems(task.case, output.as_answer(), essential),
        )

    def salvage(
        self, task: DecisionTask, output: DecisionOutput
    ) -> DecisionOutput | None:
        """The answer with citations of the note only; the cited sentences are the essential ones."""
        answer = restrict_citations(
            output.as_answer(), frozenset(task.case.sentence_ids)
        )
        if answer is None:
            return None
        lines = Lines.from_answer(answer)
        essential = task.case.in_note_order(answer.cited)
        return DecisionOutput(answer=lines.answer, essential=essential)


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
        too_long = (
            f"Your answer has {answer.words} words; at most {task.word_limit} are allowed. "
            "Keep every citation."
        )
        reject_all(
            *line_problems(task.case, answer, task.required_citations),
            too_long if answer.words > task.word_limit else "",
        )

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


def concatenate_question_and_evidence(
    case: Case, essential: frozenset[str]
) -> CitedAnswer:
    """The questions and the chosen sentences in full, with every id on the last line (paper Table
    2, first row).

    The scorer cuts the answer to 75 words and keeps the citations; the questions alone are often
    longer.
    """
    chosen = case.in_note_order(essential)
    sentences = [case.text_of[sentence_id] for sentence_id in chosen]
    texts = [case.patient_narrative, case.clinician_question, *sentences]
    claims = []
    for text in texts:
        # One line without pipes: the scorer reads the last pipe of a line as a citation mark.
        line = " ".join(text.replace("|", "/").split())
        if line:
            claims.append(Claim(text=line, citations=()))
    claims[-1] = Claim(text=claims[-1].text, citations=chosen)
    return CitedAnswer(claims=tuple(claims))
