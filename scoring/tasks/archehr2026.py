"""ArchEHR-QA 2026 (CL4Health at LREC): four subtasks over the same cases, with different rules.

Official: soni-sarvesh/archehr-qa-2026 at 344b67e. Subtasks: 1 question interpretation, 2 evidence
identification, 3 answer generation, 4 answer-evidence alignment. Unlike 2025, references do not
include the question, words are split at any whitespace, and an id that the note does not have makes
the whole submission invalid.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product
from typing import Any, Literal

from ..bleu import Bleu
from ..citations import (
    Average,
    Citations,
    Credit,
    EvidenceF1,
    EvidencePrecision,
    EvidenceRecall,
    LinkF1,
    LinkPrecision,
    LinkRecall,
    Links,
)
from ..errors import ScoringError
from ..id_lists import list_ids
from ..line_support import CitedLine, LineSupport
from ..lint import encodable, number_id_warning
from ..metric import Metric
from ..rouge import Rouge, Variant
from ..sari import Sari
from ..scores import Scores, add_metric
from ..texts import ReferenceKind, TextSample
from .archehr2026_predictions import (
    OFFICIALLY_REFUSED,
    WORD_LIMITS,
    Prediction,
    cut_text,
    limit_warnings,
    read_predictions,
    text_warnings,
    unknown_ids,
)
from .models import model_metrics
from .selection import (
    OnMissing,
    add_combined_scores,
    check_case_coverage,
    rows_by_case,
    select_metrics,
)

Subtask = Literal[1, 2, 3, 4]
OnUnknown = Literal["refuse", "count"]
SUBTASKS: dict[str, Subtask] = {
    "archehr-2026-st1": 1,
    "archehr-2026-st2": 2,
    "archehr-2026-st3": 3,
    "archehr-2026-st4": 4,
}
CREDITS: tuple[Credit, ...] = ("strict", "lenient")
AVERAGES: tuple[Average, ...] = ("macro", "micro")
ROUGE_VARIANTS: tuple[Variant, ...] = ("1", "2", "L", "Lsum")
OVERALL: dict[int, tuple[str, ...]] = {
    1: ("alignscore", "rougeLsum", "medcon", "bertscore"),
    2: ("strict_micro_f1",),
    3: ("bleu", "rougeLsum", "sari", "bertscore", "alignscore", "medcon"),
    4: ("micro_f1",),
}


_NO_CITED_LINES = "needs lines with citations: a run's answers (subtask 3) or links (subtask 4)."


@dataclass(frozen=True)
class Reference:
    """The gold of one case.

    Subtask 1 needs only `clinician_question`, 2 `labels`, 3 `clinician_answer`, 4 `citations`.
    sentences: note sentence id → text. labels: id → essential, supplementary, not-relevant.
    clinician_answer: without citations. citations: answer sentence id → ids of the note sentences
    that support it, as `parse_citations` returns them. answer_sentences: their ids → their text,
    for `line_support` of subtask 4. undecided: ids whose citation counts neither way in subtask 2;
    no official key has any.
    """

    case_id: str
    sentences: dict[str, str] = field(default_factory=dict)
    labels: dict[str, str] = field(default_factory=dict)
    narrative: str = ""
    clinician_question: str = ""
    clinician_answer: str = ""
    citations: dict[str, tuple[str, ...]] = field(default_factory=dict)
    answer_sentences: dict[str, str] = field(default_factory=dict)
    undecided: frozenset[str] = frozenset()

    def labelled(self, label: str) -> frozenset[str]:
        """The ids with this label."""
        ids = [sentence for sentence in self.labels if self.labels[sentence] == label]
        return frozenset(ids)


def parse_citations(value: object) -> tuple[str, ...]:
    """The ids of a key's `citations`: published as a list, as `"2,5"`, as `""` and as `"19-25"`.

    The published scorer iterates over the characters of a string, a mistake that is not copied.
    Raises ScoringError for any other value.
    """
    pieces = value.split(",") if isinstance(value, str) else value
    if not isinstance(pieces, list | tuple) or not all(map(_is_id, pieces)):
        formats = "a list of ids or a text like '2,5' or '19-25'"
        raise ScoringError(f"citations are {formats}, not {value!r}.")
    ids: list[str] = []
    for piece in pieces:
        ids.extend(_expand_range(str(piece).strip()))
    distinct = dict.fromkeys(ids)
    return tuple(distinct)


def _is_id(value: object) -> bool:
    return isinstance(value, str | int)


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
    on_unknown: OnUnknown = "refuse",
    cited_lines: Mapping[str, tuple[CitedLine, ...]] | None = None,
) -> Scores:
    """The official scores (0 to 100) of `[{"case_id", "prediction"}, …]` for one subtask.

    Subtask 4 also has `line_support`: whether the linked sentences carry the clinician's sentence.

    The settings are those of `archehr2025.score`. on_unknown: what to do about sentence ids that a
    case does not have (subtasks 2 and 4): `refuse` raises, like the official script; `count` warns
    and counts them as wrong. cited_lines: case id → the answer's lines with what they cite,
    for `line_support` of subtask 3, whose predictions have no citations. Raises ScoringError for a
    malformed submission.
    """
    leaderboard = _leaderboard(
        subtask,
        bootstrap,
        seed,
        quickumls_path,
        alignscore_path,
        bertscore_model,
    )
    combined = {"overall_score": OVERALL[subtask]}
    if cited_lines is not None or _has_linked_lines(references, subtask):
        leaderboard["line_support"] = LineSupport(bs=bootstrap, seed=seed)
    requested = select_metrics(metrics, leaderboard, combined)
    cases = scorable_cases(references, subtask)
    predictions = read_predictions(submission, subtask)
    unknown = [f"case {case}: {what}" for case, what in unknown_ids(predictions, cases, subtask)]
    if unknown and on_unknown == "refuse":
        raise ScoringError.from_mistakes("submission refused, as officially", unknown)
    warnings = _warn_without_gold(references, cases, subtask)
    warnings += number_id_warning(submission)
    warnings += [f"{mistake}{OFFICIALLY_REFUSED}" for mistake in unknown]
    warnings += text_warnings(predictions, subtask)
    predicted_ids = [prediction.case_id for prediction in predictions]
    warnings += check_case_coverage(predicted_ids, list(cases), on_missing)
    rows = rows_by_case(predictions, cases, lambda case_id: Prediction(case_id, None))
    warnings += limit_warnings(rows, subtask)
    scores = Scores(f"archehr-2026-st{subtask}", cases=len(rows), warnings=warnings)
    inputs = _metric_inputs(subtask, rows, cases)
    if cited_lines is None and _has_linked_lines(references, subtask):
        cited_lines = _linked_lines(rows, cases)
    for name, metric in requested.items():
        if not isinstance(metric, LineSupport):
            add_metric(name, metric, inputs, scores)
        elif cited_lines is None:
            scores.missing[name] = _NO_CITED_LINES
        else:
            lines = {row: cited_lines.get(row, ()) for row in rows}
            add_metric(name, metric, lines, scores)
    add_combined_scores(metrics, combined, "overall_score", scores)
    return scores


def linked_lines(
    submission: Sequence[Mapping[str, Any]], references: Sequence[Reference]
) -> dict[str, tuple[CitedLine, ...]]:
    """Each row of subtask 4 that `score` counts: the clinician's sentences with what is linked.

    Raises ScoringError for a malformed submission.
    """
    cases = scorable_cases(references, 4)
    predictions = read_predictions(submission, 4)
    rows = rows_by_case(predictions, cases, lambda case_id: Prediction(case_id, None))
    return _linked_lines(rows, cases)


def _has_linked_lines(references: Sequence[Reference], subtask: Subtask) -> bool:
    return subtask == 4 and any(reference.answer_sentences for reference in references)


def _linked_lines(
    rows: Mapping[str, Prediction], cases: Mapping[str, Reference]
) -> dict[str, tuple[CitedLine, ...]]:
    lines = {}
    for row, prediction in rows.items():
        reference = cases[prediction.case_id]
        linked: dict[str, list[str]] = {}
        for link in prediction.value or ():
            linked.setdefault(link["answer_id"], []).extend(link["evidence_id"])
        lines[row] = tuple(
            CitedLine.citing(text, linked.get(answer_id, ()), reference.sentences)
            for answer_id, text in reference.answer_sentences.items()
        )
    return lines


def _leaderboard(
    subtask: Subtask,
    bs: int,
    seed: int,
    quickumls: Any,
    alignscore: Any,
    encoder: Any,
) -> dict[str, Metric[Any]]:
    common: dict[str, Any] = {"bs": bs, "seed": seed}
    if subtask == 2:
        return _evidence_metrics(common)
    if subtask == 4:
        return _link_metrics(common)
    against: ReferenceKind = "clinician_question" if subtask == 1 else "clinician_answer"
    text = {**common, "against": against, "order": "-"}
    metrics: dict[str, Metric[Any]] = {}
    for variant in ROUGE_VARIANTS:
        metrics[f"rouge{variant}"] = Rouge(variant=variant, **text)
    if subtask == 3:
        metrics["bleu"] = Bleu(**text)
        metrics["sari"] = Sari(source="narrative", **text)
    return metrics | model_metrics(text, quickumls, alignscore, encoder)


def _evidence_metrics(common: dict[str, Any]) -> dict[str, Metric[Any]]:
    families = {"precision": EvidencePrecision, "recall": EvidenceRecall, "f1": EvidenceF1}
    metrics: dict[str, Metric[Any]] = {}
    for credit, avg in product(CREDITS, AVERAGES):
        for part, family in families.items():
            metrics[f"{credit}_{avg}_{part}"] = family(credit=credit, avg=avg, **common)
    return metrics


def _link_metrics(common: dict[str, Any]) -> dict[str, Metric[Any]]:
    families = {"precision": LinkPrecision, "recall": LinkRecall, "f1": LinkF1}
    metrics: dict[str, Metric[Any]] = {}
    for avg in AVERAGES:
        for part, family in families.items():
            metrics[f"{avg}_{part}"] = family(avg=avg, **common)
    return metrics


def scorable_cases(references: Sequence[Reference], subtask: Subtask) -> dict[str, Reference]:
    """Case id → reference, for the cases that have the gold of the subtask.

    Raises ScoringError if there is none.
    """
    cases = {}
    for reference in references:
        if _has_gold(reference, subtask):
            cases[reference.case_id] = reference
    if not cases:
        problem = f"no case has the gold of subtask {subtask}"
        raise ScoringError(f"{problem}, so that nothing can be scored.")
    return cases


def _has_gold(reference: Reference, subtask: Subtask) -> bool:
    gold = {
        1: reference.clinician_question,
        2: reference.labels,
        3: reference.clinician_answer,
        4: reference.citations,
    }
    return bool(gold[subtask])


def _warn_without_gold(
    references: Sequence[Reference],
    cases: Mapping[str, Reference],
    subtask: Subtask,
) -> list[str]:
    lacking = [reference.case_id for reference in references if reference.case_id not in cases]
    if not lacking:
        return []
    problem = f"{len(lacking)} cases lack the gold of subtask {subtask} and are not scored"
    return [f"{problem}: {list_ids(lacking)}."]


def _metric_inputs(
    subtask: Subtask,
    rows: Mapping[str, Prediction],
    cases: Mapping[str, Reference],
) -> dict[str, Any]:
    inputs = {}
    for row, prediction in rows.items():
        reference = cases[prediction.case_id]
        inputs[row] = _metric_input(subtask, prediction, reference)
    return inputs


def _metric_input(
    subtask: Subtask,
    prediction: Prediction,
    reference: Reference,
) -> Citations | Links | TextSample:
    if subtask == 2:
        cited = frozenset(prediction.value or ()) - reference.undecided
        essential = reference.labelled("essential")
        supplementary = reference.labelled("supplementary")
        return Citations(cited, essential, supplementary)
    if subtask == 4:
        predicted = _predicted_links(prediction.value or ())
        return Links(predicted, _gold_links(reference))
    gold_text = reference.clinician_question if subtask == 1 else reference.clinician_answer
    text = cut_text(prediction.value or "", WORD_LIMITS[subtask])
    return TextSample(encodable(text), gold_text, reference.narrative)


def _predicted_links(links: Sequence[Mapping[str, Any]]) -> frozenset[tuple[str, str]]:
    pairs = set()
    for link in links:
        for sentence in link["evidence_id"]:
            pairs.add((link["answer_id"], sentence))
    return frozenset(pairs)


def _gold_links(reference: Reference) -> frozenset[tuple[str, str]]:
    pairs = set()
    for answer, sentences in reference.citations.items():
        for sentence in sentences:
            pairs.add((answer, sentence))
    return frozenset(pairs)


def _expand_range(piece: str) -> list[str]:
    """The ids of `19-25`, of `19`, or of nothing."""
    if not piece:
        return []
    ends = re.fullmatch(r"(\d+)\s*-\s*(\d+)", piece)
    if ends is None:
        return [piece]
    start = int(ends[1])
    end = int(ends[2])
    return [str(number) for number in range(start, end + 1)]
