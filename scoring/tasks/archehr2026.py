"""ArchEHR-QA 2026 (CL4Health at LREC): four subtasks over the same cases, each with rules of its own.

Official: soni-sarvesh/archehr-qa-2026 at 344b67e. 1 question interpretation, 2 evidence identification, 3 answer
generation, 4 answer-evidence alignment. Unlike 2025, references no longer hold the question, words are split at any
whitespace and an id that the note does not have refuses the whole file.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from ..bleu import Bleu
from ..citations import (
    Citations,
    EvidenceF1,
    EvidencePrecision,
    EvidenceRecall,
    LinkF1,
    LinkPrecision,
    LinkRecall,
    Links,
)
from ..errors import ScoringError
from ..metric import Metric
from ..rouge import Rouge
from ..sari import Sari
from ..scores import Scores, add_metric
from ..submission import read_submission
from ..texts import ReferenceKind, TextSample
from .models import model_metrics
from .selection import (
    OnMissing,
    add_combined_scores,
    check_case_coverage,
    rows_by_case,
    select_metrics,
)

Subtask = Literal[1, 2, 3, 4]
SUBTASKS: dict[str, Subtask] = {
    "archehr-2026-st1": 1,
    "archehr-2026-st2": 2,
    "archehr-2026-st3": 3,
    "archehr-2026-st4": 4,
}
WORD_LIMITS = {1: 15, 3: 75}
OVERALL: dict[int, tuple[str, ...]] = {
    1: ("alignscore", "rougeLsum", "medcon", "bertscore"),
    2: ("strict_micro_f1",),
    3: ("bleu", "rougeLsum", "sari", "bertscore", "alignscore", "medcon"),
    4: ("micro_f1",),
}


@dataclass(frozen=True)
class Reference:
    """The gold of one case; a subtask needs only its own part (1 clinician_question, 2 labels, 3 clinician_answer, 4
    citations).

    sentences: note sentence id → text. labels: id → essential, supplementary, not-relevant. clinician_answer: without
    citations. citations: answer sentence id → the note sentence ids it rests on, as `parse_citations` returns them.
    """

    case_id: str
    sentences: dict[str, str] = field(default_factory=dict)
    labels: dict[str, str] = field(default_factory=dict)
    narrative: str = ""
    clinician_question: str = ""
    clinician_answer: str = ""
    citations: dict[str, tuple[str, ...]] = field(default_factory=dict)

    def labelled(self, label: str) -> frozenset[str]:
        """The ids with this label."""
        return frozenset(sentence for sentence, own in self.labels.items() if own == label)


@dataclass(frozen=True)
class Prediction:
    """One row of a submission; None where the key's case has no answer."""

    case_id: str
    value: Any


def parse_citations(value: object) -> tuple[str, ...]:
    """The ids of a key's `citations`, which were shipped as a list, as `"2,5"`, as `""` and as `"19-25"`.

    The published scorer walks over a string letter by letter; that is not copied. Raises ScoringError for anything
    else.
    """
    pieces = value.split(",") if isinstance(value, str) else value
    if not isinstance(pieces, list | tuple) or not all(
        isinstance(piece, str | int) for piece in pieces
    ):
        raise ScoringError(
            f"citations are a list of ids or a text like '2,5' or '19-25', not {value!r}."
        )
    ids = [each for piece in map(str, pieces) if piece.strip() for each in _range(piece.strip())]
    return tuple(dict.fromkeys(ids))


def score(
    submission: Sequence[Mapping[str, Any]],
    references: Sequence[Reference],
    *,
    subtask: Subtask,
    metrics: Sequence[str] | None = None,
    bootstrap: int = 1000,
    seed: int = 12345,
    quickumls_path: Any = None,
    alignscore_path: Any = None,
    bertscore_model: Any = None,
    on_missing: OnMissing = "floor",
) -> Scores:
    """The official scores (0 to 100) of `[{"case_id", "prediction"}, …]` of one subtask over the cases of the key.

    The settings are those of `archehr2025.score`. Raises ScoringError for a malformed submission, and, as officially,
    for sentence ids that a case does not have (subtasks 2 and 4).
    """
    known = _leaderboard(subtask, bootstrap, seed, quickumls_path, alignscore_path, bertscore_model)
    combined = {"overall_score": OVERALL[subtask]}
    wanted = select_metrics(metrics, known, combined)
    cases = {
        reference.case_id: reference for reference in references if _scorable(reference, subtask)
    }
    predictions = _read(submission, subtask, cases)
    warnings = _bare(references, cases, subtask)
    warnings += check_case_coverage(
        [prediction.case_id for prediction in predictions], list(cases), on_missing
    )
    rows = rows_by_case(predictions, cases, lambda case_id: Prediction(case_id, None))
    warnings += _over_limit(rows, subtask)
    scores = Scores(f"archehr-2026-st{subtask}", cases=len(rows), warnings=warnings)
    for name, metric in wanted.items():
        inputs = {
            row: _input(subtask, prediction, cases[prediction.case_id])
            for row, prediction in rows.items()
        }
        add_metric(name, metric, inputs, scores)
    add_combined_scores(metrics, combined, "overall_score", scores)
    return scores


def _leaderboard(
    subtask: Subtask, bs: int, seed: int, quickumls: Any, alignscore: Any, encoder: Any
) -> dict[str, Metric[Any]]:
    common: dict[str, Any] = {"bs": bs, "seed": seed}
    if subtask == 2:
        return _evidence_metrics(common)
    if subtask == 4:
        return _link_metrics(common)
    against: ReferenceKind = "clinician_question" if subtask == 1 else "clinician_answer"
    text = {**common, "against": against, "order": "-"}
    metrics: dict[str, Metric[Any]] = {
        f"rouge{kind}": Rouge(variant=kind, **text) for kind in ("1", "2", "L", "Lsum")
    }
    if subtask == 3:
        metrics |= {"bleu": Bleu(**text), "sari": Sari(source="narrative", **text)}
    return metrics | model_metrics(text, quickumls, alignscore, encoder)


def _evidence_metrics(common: dict[str, Any]) -> dict[str, Metric[Any]]:
    families = {"precision": EvidencePrecision, "recall": EvidenceRecall, "f1": EvidenceF1}
    return {
        f"{credit}_{avg}_{part}": family(credit=credit, avg=avg, **common)
        for credit in ("strict", "lenient")
        for avg in ("macro", "micro")
        for part, family in families.items()
    }


def _link_metrics(common: dict[str, Any]) -> dict[str, Metric[Any]]:
    families = {"precision": LinkPrecision, "recall": LinkRecall, "f1": LinkF1}
    return {
        f"{avg}_{part}": family(avg=avg, **common)
        for avg in ("macro", "micro")
        for part, family in families.items()
    }


def _scorable(reference: Reference, subtask: Subtask) -> bool:
    gold = (
        reference.clinician_question,
        reference.labels,
        reference.clinician_answer,
        reference.citations,
    )
    return bool(gold[subtask - 1])


def _bare(
    references: Sequence[Reference], cases: Mapping[str, Reference], subtask: Subtask
) -> list[str]:
    bare = [reference.case_id for reference in references if reference.case_id not in cases]
    if not cases:
        raise ScoringError(
            f"no case has the gold of subtask {subtask}, so that nothing can be scored."
        )
    return (
        [
            f"{len(bare)} cases lack the gold of subtask {subtask} and are not scored: {', '.join(bare)}."
        ]
        if bare
        else []
    )


def _read(
    submission: Sequence[Mapping[str, Any]], subtask: Subtask, cases: Mapping[str, Reference]
) -> list[Prediction]:
    kind = str if subtask in WORD_LIMITS else list
    rows = [Prediction(*row) for row in read_submission(submission, "prediction", kind)]
    check = {2: _evidence_mistakes, 4: _link_mistakes}.get(subtask)
    mistakes = [
        mistake
        for row in rows
        if check and row.case_id in cases
        for mistake in check(row, cases[row.case_id])
    ]
    if mistakes:
        raise ScoringError.from_mistakes("submission refused, as officially", mistakes)
    return rows


def _evidence_mistakes(row: Prediction, reference: Reference) -> list[str]:
    if not all(isinstance(sentence, str) for sentence in row.value):
        return [f"case {row.case_id}: the prediction must be a list of sentence ids as strings"]
    unknown = [sentence for sentence in row.value if sentence not in _sentence_ids(reference)]
    return (
        [f"case {row.case_id}: the note has no sentence {', '.join(map(repr, unknown))}"]
        if unknown
        else []
    )


def _link_mistakes(row: Prediction, reference: Reference) -> list[str]:
    mistakes = []
    for link in row.value:
        if not isinstance(link, Mapping) or not isinstance(link.get("evidence_id"), list):
            mistakes.append(
                f'case {row.case_id}: a link is not of the form {{"answer_id": "1", "evidence_id": ["2", "5"]}}'
            )
            continue
        if link.get("answer_id") not in reference.citations:
            mistakes.append(
                f"case {row.case_id}: the answer has no sentence {link.get('answer_id')!r}"
            )
        unknown = [
            sentence for sentence in link["evidence_id"] if sentence not in _sentence_ids(reference)
        ]
        mistakes += [
            f"case {row.case_id}: the note has no sentence {sentence!r}" for sentence in unknown
        ]
    return mistakes


def _sentence_ids(reference: Reference) -> set[str]:
    return reference.sentences.keys() | reference.labels.keys()


def _over_limit(rows: Mapping[str, Prediction], subtask: Subtask) -> list[str]:
    limit = WORD_LIMITS.get(subtask)
    words = {row: len(str(prediction.value or "").split()) for row, prediction in rows.items()}
    return [
        f"case {row}: {count} words; what follows word {limit} is not scored."
        for row, count in words.items()
        if limit and count > limit
    ]


def _input(
    subtask: Subtask, prediction: Prediction, reference: Reference
) -> Citations | Links | TextSample:
    if subtask == 2:
        cited = frozenset(prediction.value or ())
        return Citations(
            cited, reference.labelled("essential"), reference.labelled("supplementary")
        )
    if subtask == 4:
        links = prediction.value or ()
        predicted = frozenset(
            (link["answer_id"], sentence) for link in links for sentence in link["evidence_id"]
        )
        gold = (
            (answer, sentence)
            for answer, sentences in reference.citations.items()
            for sentence in sentences
        )
        return Links(predicted, frozenset(gold))
    gold_text = reference.clinician_question if subtask == 1 else reference.clinician_answer
    return TextSample(
        _cut(prediction.value or "", WORD_LIMITS[subtask]), gold_text, reference.narrative
    )


def _cut(text: str, limit: int) -> str:
    words = text.split()
    return text if len(words) <= limit else " ".join(words[:limit])


def _range(piece: str) -> list[str]:
    ends = re.fullmatch(r"(\d+)\s*-\s*(\d+)", piece)
    return [str(number) for number in range(int(ends[1]), int(ends[2]) + 1)] if ends else [piece]
