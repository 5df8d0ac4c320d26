"""The key of a case: every sentence's relevance and, where a release has it, the clinician's own
answer.
"""

from functools import cached_property

from archqa.core.judgement import Relevance
from archqa.core.value import FrozenModel


class ClinicianSentence(FrozenModel):
    """One sentence of the clinician's answer with the note sentences it rests on (2026 key)."""

    id: str
    text: str
    citations: tuple[str, ...] = ()


class CaseKey(FrozenModel):
    """The organisers' key to one case. `labels` maps sentence id to relevance."""

    case_id: str
    labels: dict[str, Relevance] = {}
    clinician_answer: str = ""
    clinician_answer_without_citations: str = ""
    clinician_answer_sentences: tuple[ClinicianSentence, ...] = ()

    @cached_property
    def essential(self) -> frozenset[str]:
        """Ids of the sentences that an answer must cite."""
        essential = set()
        for sentence_id, label in self.labels.items():
            if label is Relevance.ESSENTIAL:
                essential.add(sentence_id)
        return frozenset(essential)
