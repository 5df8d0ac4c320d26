"""Which note sentences each sentence of a given answer rests on (ArchEHR-QA 2026, subtask 4)."""

from collections import Counter
from typing import Annotated

from pydantic import Field

from archqa.agents.agent import Agent, CaseTask, Rejected, check_ids, join_ids
from archqa.core.value import FrozenModel
from archqa.llm.structured import AllowedValues, SentenceId


class AlignmentTask(CaseTask):
    """A case whose `answer_sentences` are to be linked."""

    @property
    def answer_ids(self) -> tuple[str, ...]:
        """Ids of the answer's sentences, in order."""
        return tuple(each.id for each in self.case.answer_sentences)


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
        return frozenset((each.answer_id, one) for each in self.links for one in each.evidence_id)


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
        """Every answer sentence once; only ids that there are."""
        counts = Counter(each.answer_id for each in output.links)
        if set(counts) != set(task.answer_ids) or max(counts.values()) > 1:
            raise Rejected(f"Give each answer sentence exactly once: {join_ids(task.answer_ids)}.")
        check_ids((one for _, one in output.as_pairs()), task.case, "You link")

    def salvage(self, task: AlignmentTask, output: EvidenceLinks) -> EvidenceLinks | None:
        """The first entry of each answer sentence, with the ids the note has."""
        first: dict[str, AnswerLinks] = {}
        for each in output.links:
            if each.answer_id in task.answer_ids:
                ids = task.case.in_note_order(set(each.evidence_id))
                first.setdefault(each.answer_id, each.model_copy(update={"evidence_id": ids}))
        return EvidenceLinks(links=tuple(first.values())) if first else None
