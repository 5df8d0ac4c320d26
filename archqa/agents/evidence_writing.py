"""Writes the panel's answer from the evidence that was chosen before, all of it and nothing else."""

from archqa.agents.agent import Agent, CaseTask
from archqa.agents.cited_lines import Line, Lines, check_citations, check_lines, restrict_citations
from archqa.core.answer import WORD_LIMIT
from archqa.terminology.words import stems


class EvidenceDecisionTask(CaseTask):
    """The sentences the answer has to rest on."""

    chosen: tuple[str, ...]
    word_limit: int = WORD_LIMIT


class EvidenceDecisionAgent(Agent[EvidenceDecisionTask, Lines]):
    """Writes the cited answer from the chosen sentences."""

    name = "decision"
    prompt = "decision_from_evidence/v2"
    task_type = EvidenceDecisionTask
    output_type = Lines

    def check(self, task: EvidenceDecisionTask, output: Lines) -> None:
        """The answer cites exactly the chosen sentences."""
        answer = output.as_answer()
        check_lines(task.case, answer)
        check_citations(answer, frozenset(task.chosen))

    def salvage(self, task: EvidenceDecisionTask, output: Lines) -> Lines | None:
        """The answer with citations of chosen sentences only; uncited ones are added to the line
        most like them.
        """
        answer = restrict_citations(output.as_answer(), frozenset(task.chosen))
        if answer is None:
            return None
        texts = [claim.text for claim in answer.claims]
        citations = [list(claim.citations) for claim in answer.claims]
        uncited = frozenset(task.chosen) - answer.cited
        for sentence_id in task.case.in_note_order(uncited):
            nearest = _most_similar(texts, task.case.text_of[sentence_id])
            citations[nearest].append(sentence_id)
        lines = []
        for text, ids in zip(texts, citations, strict=True):
            lines.append(Line(text=text, citations=tuple(ids)))
        return Lines(answer=tuple(lines))


def _most_similar(lines: list[str], sentence: str) -> int:
    """The index of the line that shares most word stems with the sentence, the first of several."""
    sentence_stems = set(stems(sentence))
    shared_counts = [len(sentence_stems & set(stems(line))) for line in lines]
    return shared_counts.index(max(shared_counts))
