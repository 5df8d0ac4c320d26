"""Stage 5 of 6: weighs all judgements, chooses the essential sentences, writes the answer (paper
§3.2, Consensus).
"""

from archqa.agents.agent import Agent, CaseTask, Rejected, check_ids
from archqa.agents.cited_lines import Lines, check_citations, check_lines, restrict_citations
from archqa.core.answer import WORD_LIMIT
from archqa.core.judgement import Judgement, LabelScheme
from archqa.llm.structured import SentenceId


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
        if not output.essential:
            raise Rejected("You name no essential sentence. Name those the answer rests on.")
        check_ids(output.essential, task.case, "You call essential")
        answer = output.as_answer()
        check_lines(task.case, answer)
        check_citations(answer, frozenset(output.essential))

    def salvage(self, task: DecisionTask, output: DecisionOutput) -> DecisionOutput | None:
        """The answer with citations of the note only; the cited sentences are the essential ones."""
        answer = restrict_citations(output.as_answer(), frozenset(task.case.sentence_ids))
        if answer is None:
            return None
        lines = Lines.from_answer(answer)
        essential = task.case.in_note_order(answer.cited)
        return DecisionOutput(answer=lines.answer, essential=essential)
