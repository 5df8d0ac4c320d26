"""Worked examples for a prompt: cases whose answer is known, the likest first, never the case itself.

The guard is by content: a case with the same digest, the same message or the same note is left out, whatever its id.
Source of the idea: LAMAR and Yale at ArchEHR-QA 2025 and 2026 (few-shots from dev).
"""

import hashlib
from collections.abc import Iterable, Sequence
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


class _Kept(NamedTuple):
    exemplar: Exemplar
    sameness: frozenset[str]


class ExemplarIndex:
    """Cases with their keys, ready to be looked through. Encoding them takes some 10 ms a case, once."""

    def __init__(
        self, pairs: Iterable[tuple[Case, CaseKey]], encoder: SentenceEncoder | None = None
    ) -> None:
        pairs = [(case, key) for case, key in pairs if key.essential]
        self._encoder = encoder or default_encoder()
        self._kept = [_Kept(_exemplar(case, key), _sameness(case)) for case, key in pairs]
        self._vectors = self._encoder.encode([_topic(case) for case, _ in pairs])

    def __len__(self) -> int:
        return len(self._kept)

    def nearest(self, case: Case, count: int) -> tuple[Exemplar, ...]:
        """At most `count` exemplars, the likest to the case last, where a model remembers it best."""
        if not self._kept or count < 1:
            return ()
        own: Vectors = self._encoder.encode([_topic(case)])
        order = (-(self._vectors @ own[0])).argsort(kind="stable").tolist()
        own_sameness = _sameness(case)
        others = [
            self._kept[at].exemplar for at in order if not self._kept[at].sameness & own_sameness
        ]
        return tuple(reversed(others[:count]))


def _exemplar(case: Case, key: CaseKey) -> Exemplar:
    mattering = [
        each
        for each in case.sentences
        if key.labels.get(each.id, Relevance.NOT_RELEVANT) != "not-relevant"
    ]
    return Exemplar(
        digest=case_digest(case),
        question=question_text(case),
        sentences=tuple(
            ExemplarSentence(mark=mark, text=each.text, label=key.labels[each.id])
            for mark, each in zip(_marks_for(mattering), mattering, strict=True)
        ),
        others=len(case.sentences) - len(mattering),
        answer=_renumbered(key, [each.id for each in mattering]),
    )


def _renumbered(key: CaseKey, shown: Sequence[str]) -> CitedAnswer:
    """The clinician's answer, citing the shown sentences by mark: their own ids would be mistaken for the note's."""
    mark = dict(zip(shown, _marks_for(shown), strict=True))
    rows = [(each.text, each.citations) for each in key.clinician_answer_sentences] or _lines(
        key.clinician_answer
    )
    cited = [(text, tuple(mark[each] for each in ids if each in mark)) for text, ids in rows]
    return CitedAnswer(claims=tuple(Claim(text=text, citations=marks) for text, marks in cited))


def _lines(answer: str) -> list[tuple[str, tuple[str, ...]]]:
    """Lines that end in `|ids|`, as 2025 keys of ours write the clinician's answer."""
    pieces = (
        line.rstrip().rstrip("|").rpartition("|") for line in answer.splitlines() if line.strip()
    )
    return [(text.strip() or ids, tuple(ids.split(",")) if text else ()) for text, _, ids in pieces]


def _topic(case: Case) -> str:
    return f"{question_text(case)} {case.patient_narrative}".strip()


def _marks_for(sentences: Sequence[object]) -> list[str]:
    """E1, E2, …: nothing a note's own id is likely to be."""
    return [f"E{at}" for at, _ in enumerate(sentences, start=1)]


def _sameness(case: Case) -> frozenset[str]:
    """What makes two cases the same for this purpose: the whole, the message, the note."""
    parts = {
        "message": case.patient_narrative,
        "note": " ".join(each.text for each in case.sentences),
    }
    said = {name: " ".join(text.lower().split()) for name, text in parts.items()}
    hashed = {
        hashlib.sha256(f"{name}:{text}".encode()).hexdigest() for name, text in said.items() if text
    }
    return frozenset(hashed | {case_digest(case)})
