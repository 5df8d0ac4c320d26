"""The panel's decision: the evidence is chosen; this writes the answer that rests on all of it and nothing else."""

from archqa.agents.agent import Agent, CaseTask
from archqa.agents.cited_lines import Line, Lines, check_citations, check_lines, restrict_citations
from archqa.core.answer import WORD_LIMIT
from archqa.notes.tokens import stems


class EvidenceDecisionTask(CaseTask):
    """The sentences the answer has to rest on."""

    chosen: tuple[str, ...]
    word_limit: int = WORD_LIMIT


class EvidenceDecisionAgent(Agent[EvidenceDecisionTask, Lines]):
    """Writes the cited answer from the chosen sentences."""

    name = "decision"
    prompt = "decision_from_evidence/v1"
    task_type = EvidenceDecisionTask
    output_type = Lines

    def check(self, task: EvidenceDecisionTask, output: Lines) -> None:
        """The answer cites the chosen sentences, all and only those."""
        answer = output.as_answer()
        check_lines(task.case, answer)
        check_citations(answer, frozenset(task.chosen))

    def salvage(self, task: EvidenceDecisionTask, output: Lines) -> Lines | None:
        """Drop citations of other sentences; a chosen one that no line cites goes to the line most like it."""
        answer = restrict_citations(output.as_answer(), frozenset(task.chosen))
        if answer is None:
            return None
        lines = [(claim.text, list(claim.citations)) for claim in answer.claims]
        for each in task.case.in_note_order(frozenset(task.chosen) - answer.cited):
            max(lines, key=lambda line: _shared(line[0], task.case.text_of[each]))[1].append(each)
        return Lines(answer=tuple(Line(text=text, citations=tuple(ids)) for text, ids in lines))


def _shared(one: str, other: str) -> int:
    return len(set(stems(one)) & set(stems(other)))
