"""Which note sentences each sentence of a given answer rests on (ArchEHR-QA 2026, subtask 4)."""

from collections import Counter
from typing import Annotated

from pydantic import Field

from archqa.agents.agent import Agent, CaseTask, invented_ids, join_ids, reject_all
from archqa.core.value import FrozenModel
from archqa.llm.structured import AllowedValues, SentenceId


class AlignmentTask(CaseTask):
    """A case whose `answer_sentences` are to be linked."""

    @property
    def answer_ids(self) -> tuple[str, ...]:
        """Ids of the answer's sentences, in order."""
        return tuple(sentence.id for sentence in self.case.answer_sentences)


class AnswerLinks(FrozenModel):
    """One answer sentence and the note sentences that support it; the reason comes first."""

    rationale: str
    answer_id: Annotated[str, Field(json_schema_extra={"choices": "answer"})]
    evidence_id: tuple[SentenceId, ...]


class EvidenceLinks(FrozenModel):
    """The links of every answer sentence."""

    links: tuple[AnswerLinks, ...]

    def as_pairs(self) -> frozenset[tuple[str, str]]:
        """(answer id, sentence id) of every link."""
        pairs = set()
        for link in self.links:
            for sentence_id in link.evidence_id:
                pairs.add((link.answer_id, sentence_id))
        return frozenset(pairs)


class AlignmentAgent(Agent[AlignmentTask, EvidenceLinks]):
    """Links each answer sentence to its evidence."""

    name = "alignment"
    prompt = "alignment/v1"
    task_type = AlignmentTask
    output_type = EvidenceLinks

    def choices(self, task: AlignmentTask) -> AllowedValues:
        """The note's ids, and the answer's."""
        return {"sentence": task.case.sentence_ids, "answer": task.answer_ids}

    def check(self, task: AlignmentTask, output: EvidenceLinks) -> None:
        """Every answer sentence is linked once, to sentences that the note has."""
        counts = Counter(link.answer_id for link in output.links)
        is_complete = counts == Counter(set(task.answer_ids))
        order = f"Give each answer sentence exactly once: {join_ids(task.answer_ids)}."
        linked_ids = {sentence_id for _, sentence_id in output.as_pairs()}
        reject_all(
            "" if is_complete else order,
            invented_ids(linked_ids, task.case, "You link"),
        )

    def salvage(
        self, task: AlignmentTask, output: EvidenceLinks
    ) -> EvidenceLinks | None:
        """The first links of each answer sentence, restricted to sentences that the note has."""
        by_answer_id: dict[str, AnswerLinks] = {}
        for link in output.links:
            if link.answer_id in task.answer_ids:
                ids = task.case.in_note_order(set(link.evidence_id))
                existing_ids = link.model_copy(update={"evidence_id": ids})
                by_answer_id.setdefault(link.answer_id, existing_ids)
        if not by_answer_id:
            return None
        return EvidenceLinks(links=tuple(by_answer_id.values()))
