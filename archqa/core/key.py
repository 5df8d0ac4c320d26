"""The key of a case: every sentence's relevance and, where a release has it, the clinician's own
answer.
"""

import hashlib
from collections.abc import Iterable
from functools import cached_property

from archqa.core.judgement import Relevance
from archqa.core.value import FrozenModel


class ClinicianSentence(FrozenModel):
    """One sentence of the clinician's answer with the note sentences it rests on (2026 key)."""

    id: str
    text: str
    citations: tuple[str, ...] = ()


class KeyReview(FrozenModel):
    """How a case's labels came from reviews.

    runs, run_versions: what the reviewers had before them, empty if `blind`. disagreements: how
    many sentences have no label because reviewers differ.
    """

    reviewers: tuple[str, ...]
    runs: tuple[str, ...] = ()
    run_versions: tuple[str, ...] = ()
    blind: bool = False
    disagreements: int = 0


class CaseKey(FrozenModel):
    """The key to one case. `labels` maps sentence id to relevance.

    `review` says how the labels of a key made of reviews came about; None for any other key.
    """

    case_id: str
    labels: dict[str, Relevance] = {}
    clinician_answer: str = ""
    clinician_answer_without_citations: str = ""
    clinician_answer_sentences: tuple[ClinicianSentence, ...] = ()
    review: KeyReview | None = None

    @cached_property
    def essential(self) -> frozenset[str]:
        """Ids of the sentences that an answer must cite."""
        essential = set()
        for sentence_id, label in self.labels.items():
            if label is Relevance.ESSENTIAL:
                essential.add(sentence_id)
        return frozenset(essential)

    def without_label(self, sentence_ids: Iterable[str]) -> frozenset[str]:
        """The sentences of a reviewed case that have no label: they count neither way.

        Empty for every other key, in which a sentence without a label is not essential.
        """
        if self.review is None or not self.labels:
            return frozenset()
        return frozenset(sentence_ids) - self.labels.keys()


def record_version(line: bytes | str) -> str:
    """12 hex digits of the SHA-256 of the record's line in `cases.jsonl`, without the line end."""
    content = line.encode() if isinstance(line, str) else line
    return hashlib.sha256(content.rstrip(b"\r\n")).hexdigest()[:12]
