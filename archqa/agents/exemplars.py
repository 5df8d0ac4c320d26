"""Worked examples for a prompt: the most similar cases with a known answer, never the case itself.

Sameness is by content: a case with the same digest, message or note is left out, whatever its id.
Source of the idea: LAMAR and Yale at ArchEHR-QA 2025 and 2026 (few-shots from dev).
"""

import hashlib
from collections.abc import Iterable
from typing import NamedTuple

from archqa.core.answer import CitedAnswer, Claim
from archqa.core.case import Case
from archqa.core.judgement import Relevance
from archqa.core.key import CaseKey
from archqa.core.value import FrozenModel
from archqa.engine import case_digest
from archqa.engine.question import question_text
from archqa.engine.sentence_encoder import SentenceEncoder, Vectors, default_encoder


class ExemplarSentence(FrozenModel):
    """A sentence that mattered to an exemplar's answer, and how much."""

    mark: str
    text: str
    label: Relevance


class Exemplar(FrozenModel):
    """A case as it is shown to a model: what was asked, the evidence, and the answer with what each line rests on."""

    digest: str
    question: str
    sentences: tuple[ExemplarSentence, ...]
    others: int
    answer: CitedAnswer = CitedAnswer(claims=())


class _IndexedExemplar(NamedTuple):
    exemplar: Exemplar
    identities: frozenset[str]


class ExemplarIndex:
    """Cases with their keys, searchable by similarity. Encoding takes about 10 ms a case, once."""

    def __init__(
        self, cases: Iterable[tuple[Case, CaseKey]], encoder: SentenceEncoder | None = None
    ) -> None:
        self._encoder = encoder or default_encoder()
        self._entries: list[_IndexedExemplar] = []
        topics = []
        for case, key in cases:
            if key.essential:
                entry = _IndexedExemplar(_exemplar(case, key), _identities(case))
                self._entries.append(entry)
                topics.append(_topic(case))
        self._vectors = self._encoder.encode(topics)

    def __len__(self) -> int:
        return len(self._entries)

    def nearest(self, case: Case, count: int) -> tuple[Exemplar, ...]:
        """At most `count` exemplars, the most similar last, where a model remembers it best."""
        if not self._entries or count < 1:
            return ()
        query: Vectors = self._encoder.encode([_topic(case)])
        similarities = self._vectors @ query[0]
        excluded = _identities(case)
        nearest: list[Exemplar] = []
        for index in (-similarities).argsort(kind="stable").tolist():
            entry = self._entries[index]
            if not entry.identities & excluded:
                nearest.append(entry.exemplar)
        return tuple(reversed(nearest[:count]))


def _exemplar(case: Case, key: CaseKey) -> Exemplar:
    evidence: list[ExemplarSentence] = []
    mark_by_id: dict[str, str] = {}
    for sentence in case.sentences:
        label = key.labels.get(sentence.id, Relevance.NOT_RELEVANT)
        if label is Relevance.NOT_RELEVANT:
            continue
        mark = f"E{len(evidence) + 1}"  # unlikely to be an id of a note
        mark_by_id[sentence.id] = mark
        evidence.append(ExemplarSentence(mark=mark, text=sentence.text, label=label))
    return Exemplar(
        digest=case_digest(case),
        question=question_text(case),
        sentences=tuple(evidence),
        others=len(case.sentences) - len(evidence),
        answer=_answer_with_marks(key, mark_by_id),
    )


def _answer_with_marks(key: CaseKey, mark_by_id: dict[str, str]) -> CitedAnswer:
    """The clinician's answer with marks for ids: its own ids would be mistaken for those of the
    note in question.
    """
    lines = [(sentence.text, sentence.citations) for sentence in key.clinician_answer_sentences]
    claims: list[Claim] = []
    for text, ids in lines or _parse_lines(key.clinician_answer):
        marks = [mark_by_id[sentence_id] for sentence_id in ids if sentence_id in mark_by_id]
        claims.append(Claim(text=text, citations=tuple(marks)))
    return CitedAnswer(claims=tuple(claims))


def _parse_lines(answer: str) -> list[tuple[str, tuple[str, ...]]]:
    """The lines of an answer that end in `|ids|`, as archqa's own 2025 keys have it."""
    return [_parse_line(line) for line in answer.splitlines() if line.strip()]


def _parse_line(line: str) -> tuple[str, tuple[str, ...]]:
    text, _, ids = line.rstrip().rstrip("|").rpartition("|")
    if not text:
        return ids, ()
    return text.strip() or ids, tuple(ids.split(","))


def _topic(case: Case) -> str:
    return f"{question_text(case)} {case.patient_narrative}".strip()


def _identities(case: Case) -> frozenset[str]:
    """Digests by which two cases are the same: of the whole case, of the message, of the note."""
    note = " ".join(sentence.text for sentence in case.sentences)
    identities = {case_digest(case)}
    for name, text in (("message", case.patient_narrative), ("note", note)):
        normalised = " ".join(text.lower().split())
        if normalised:
            content = f"{name}:{normalised}".encode()
            identities.add(hashlib.sha256(content).hexdigest())
    return frozenset(identities)
