"""ArchEHR-QA 2026 (CL4Health at LREC): four subtasks over the same cases, with different rules.

Official: soni-sarvesh/archehr-qa-2026 at 344b67e. Subtasks: 1 question interpretation, 2 evidence
identification, 3 answer generation, 4 answer-evidence alignment. Unlike 2025, references do not
include the question, words are split at any whitespace, and an id that the note does not have makes
the whole submission invalid.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product
from typing import Any, Literal, NamedTuple

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
from ..errors import ScoringError, list_ids
from ..line_support import CitedLine, CitedLines, LineSupport
from ..metric import Leaderboard
from ..rouge import Rouge
from ..sari import Sari
from ..scores import (
    OnMissing,
    Scores,
    add_combined_scores,
    add_metric,
    case_id_refusal,
    check_case_coverage,
    rows_by_case,
    select_metrics,
)
from ..submission import (
    Rows,
    encodable,
    encoding_refusals,
    number_id_warning,
    read_submission,
    surrogate_warning,
)
from ..texts import ReferenceKind, TextSample
from .archehr2025 import AVERAGES, CREDITS, ROUGE_VARIANTS, model_metrics

Subtask = Literal[1, 2, 3, 4]
OnUnknown = Literal["refuse", "count"]
SUBTASKS: dict[str, Subtask] = {
    "archehr-2026-st1": 1,
    "archehr-2026-st2": 2,
    "archehr-2026-st3": 3,
    "archehr-2026-st4": 4,
}
WORD_LIMITS = {1: 15, 3: 75}
"""Of the subtasks whose predictions are texts."""

OVERALL: dict[int, tuple[str, ...]] = {
    1: ("alignscore", "rougeLsum", "medcon", "bertscore"),
    2: ("strict_micro_f1",),
    3: ("bleu", "rougeLsum", "sari", "bertscore", "alignscore", "medcon"),
    4: ("micro_f1",),
}
_OFFICIALLY_REFUSED = "; the official script refuses the whole submission for that."
_NO_CITED_LINES = (
    "needs lines with citations: a run's answers (subtask 3) or links (subtask 4)."
)


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
        ids = set()
        for sentence, sentence_label in self.labels.items():
            if sentence_label == label:
                ids.add(sentence)
        return frozenset(ids)

    @property
    def sentence_ids(self) -> set[str]:
        """The ids that the note or the key has."""
        return self.sentences.keys() | self.labels.keys()


class Prediction(NamedTuple):
    """One row of a submission; the value is None for a case without an answer."""

    case_id: str
    value: Any

    def cut_text(self, limit: int) -> str:
        """The predicted text as it is, or its first words if it has more than the limit."""
        text = str(self.value or "")
        words = text.split()
        if len(words) <= limit:
            return text
        return " ".join(words[:limit])


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
        text = str(piece).strip()
        ends = re.fullmatch(r"(\d+)\s*-\s*(\d+)", text)
        if ends:
            start = int(ends[1])
            end = int(ends[2])
            ids.extend(map(str, range(start, end + 1)))
        elif text:
            ids.append(text)
    distinct = dict.fromkeys(ids)
    return tuple(distinct)


def _is_id(value: object) -> bool:
    return isinstance(value, str | int)


def score(
    submission: Rows,
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
    cited_lines: Mapping[str, CitedLines] | None = None,
) -> Scores:
    """The official scores (0 to 100) of `[{"case_id", "prediction"}, …]` for one subtask.

    Subtask 4 also has `line_support`: whether the linked sentences carry the clinician's sentence.

    The settings are those of `archehr2025.score`. on_unknown: what to do about sentence ids that a
    case does not have (subtasks 2 and 4): `refuse` raises, like the official script; `count` warns
    and counts them as wrong. cited_lines: case id → the answer's lines with what they cite,
    for `line_support` of subtask 3, whose predictions have no citations. Raises ScoringError for a
    malformed submission.
    """
    combined = {"overall_score": OVERALL[subtask]}
    leaderboard = leaderboard_metrics(
        subtask,
        bootstrap,
        seed,
        quickumls_path,
        alignscore_path,
        bertscore_model,
    )
    has_linked_lines = subtask == 4 and any(
        case.answer_sentences for case in references
    )
    if cited_lines is not None or has_linked_lines:
        leaderboard["line_support"] = LineSupport(bs=bootstrap, seed=seed)
    requested = select_metrics(metrics, leaderboard, combined)
    cases = scorable_cases(references, subtask)
    predictions = _read_predictions(submission, subtask)
    unknown = []
    for case_id, problem in _unknown_ids(predictions, cases, subtask):
        unknown.append(f"case {case_id}: {problem}")
    if unknown and on_unknown == "refuse":
        raise ScoringError.from_mistakes("submission refused, as officially", unknown)
    warnings = []
    without_gold = [case.case_id for case in references if case.case_id not in cases]
    if without_gold:
        problem = f"lack the gold of subtask {subtask} and are not scored"
        warnings.append(
            f"{len(without_gold)} cases {problem}: {list_ids(without_gold)}."
        )
    warnings += number_id_warning(submission)
    for mistake in unknown:
        warnings.append(f"{mistake}{_OFFICIALLY_REFUSED}")
    warnings += _text_warnings(predictions, subtask)
    predicted_ids = [prediction.case_id for prediction in predictions]
    warnings += check_case_coverage(predicted_ids, list(cases), on_missing)
    rows = rows_by_case(predictions, cases, _unanswered)
    warnings += _limit_warnings(rows, subtask)
    scores = Scores(f"archehr-2026-st{subtask}", cases=len(rows), warnings=warnings)
    inputs = {}
    for row, prediction in rows.items():
        reference = cases[prediction.case_id]
        inputs[row] = _metric_input(subtask, prediction, reference)
    if cited_lines is None and has_linked_lines:
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


def refusals(
    submission: Rows,
    references: Sequence[Reference],
    subtask: Subtask,
) -> Iterator[str]:
    """The messages for a submission to a subtask; the official scripts stop at the first error.

    They refuse empty texts (subtasks 1 and 3), cases that do not match the key, ids that answer or
    note do not have (2 and 4), and texts that cannot be encoded as UTF-8 (1 and 3). Of their
    messages only the types of the errors are known; the words are ours. Raises ScoringError for
    malformed rows.
    """
    cases = scorable_cases(references, subtask)
    predictions = _read_predictions(submission, subtask)
    texts = predictions if subtask in WORD_LIMITS else []
    for prediction in texts:
        if not prediction.value.split():
            yield f"ValueError: [case {prediction.case_id}]: Empty prediction."
    predicted_ids = [row["case_id"] for row in submission]
    refusal = case_id_refusal(predicted_ids, list(cases))
    if refusal:
        yield f"ValueError: {refusal}"
    for case_id, problem in _unknown_ids(predictions, cases, subtask):
        yield f"ValueError: [case {case_id}]: {problem}"
    for prediction in texts:
        text = prediction.cut_text(WORD_LIMITS[subtask])
        yield from encoding_refusals(text)


def linked_lines(
    submission: Rows, references: Sequence[Reference]
) -> dict[str, CitedLines]:
    """Each row of subtask 4 that `score` counts: the clinician's sentences with what is linked.

    Raises ScoringError for a malformed submission.
    """
    cases = scorable_cases(references, 4)
    predictions = _read_predictions(submission, 4)
    rows = rows_by_case(predictions, cases, _unanswered)
    return _linked_lines(rows, cases)


def _linked_lines(
    rows: Mapping[str, Prediction], cases: Mapping[str, Reference]
) -> dict[str, CitedLines]:
    lines_of = {}
    for row, prediction in rows.items():
        reference = cases[prediction.case_id]
        linked: dict[str, list[str]] = {}
        for link in prediction.value or ():
            ids = linked.setdefault(link["answer_id"], [])
            ids.extend(link["evidence_id"])
        lines = []
        for answer_id, text in reference.answer_sentences.items():
            ids = linked.get(answer_id, [])
            lines.append(CitedLine.citing(text, ids, reference.sentences))
        lines_of[row] = tuple(lines)
    return lines_of


def _unanswered(case_id: str) -> Prediction:
    return Prediction(case_id, None)


def scorable_cases(
    references: Sequence[Reference], subtask: Subtask
) -> dict[str, Reference]:
    """Case id → reference, for the cases that have the gold of the subtask.

    Raises ScoringError if there is none.
    """
    cases = {}
    for reference in references:
        gold = {
            1: reference.clinician_question,
            2: reference.labels,
            3: reference.clinician_answer,
            4: reference.citations,
        }
        if gold[subtask]:
            cases[reference.case_id] = reference
    if not cases:
        problem = f"no case has the gold of subtask {subtask}"
        raise ScoringError(f"{problem}, so that nothing can be scored.")
    return cases


def leaderboard_metrics(
    subtask: Subtask,
    bs: int = 1000,
    seed: int = 12345,
    quickumls: Any = None,
    alignscore: Any = None,
    encoder: Any = None,
) -> Leaderboard:
    """The official metrics of a subtask by their leaderboard names."""
    common: dict[str, Any] = {"bs": bs, "seed": seed}
    metrics: Leaderboard = {}
    if subtask == 2:
        for credit, avg in product(CREDITS, AVERAGES):
            evidence = {**common, "credit": credit, "avg": avg}
            metrics[f"{credit}_{avg}_precision"] = EvidencePrecision(**evidence)
            metrics[f"{credit}_{avg}_recall"] = EvidenceRecall(**evidence)
            metrics[f"{credit}_{avg}_f1"] = EvidenceF1(**evidence)
        return metrics
    if subtask == 4:
        for avg in AVERAGES:
            metrics[f"{avg}_precision"] = LinkPrecision(avg=avg, **common)
            metrics[f"{avg}_recall"] = LinkRecall(avg=avg, **common)
            metrics[f"{avg}_f1"] = LinkF1(avg=avg, **common)
        return metrics
    against: ReferenceKind = (
        "clinician_question" if subtask == 1 else "clinician_answer"
    )
    text = {**common, "against": against, "order": "-"}
    for variant in ROUGE_VARIANTS:
        metrics[f"rouge{variant}"] = Rouge(variant=variant, **text)
    if subtask == 3:
        metrics["bleu"] = Bleu(**text)
        metrics["sari"] = Sari(source="narrative", **text)
    return metrics | model_metrics(text, quickumls, alignscore, encoder)


def _read_predictions(submission: Rows, subtask: Subtask) -> list[Prediction]:
    """The rows of a submission, whose ids may be unknown to the key.

    Raises ScoringError that lists every prediction of another form than the subtask's.
    """
    kind = str if subtask in WORD_LIMITS else list
    predictions = []
    mistakes = []
    for case_id, value in read_submission(submission, "prediction", kind):
        if subtask == 2 and not _are_ids(value):
            problem = "the prediction must be a list of sentence ids as strings"
            mistakes.append(f"case {case_id}: {problem}")
        elif subtask == 4 and not all(map(_is_link, value)):
            link_format = '{"answer_id": "1", "evidence_id": ["2", "5"]}'
            mistakes.append(f"case {case_id}: a link is not of the form {link_format}")
        predictions.append(Prediction(case_id, value))
    if mistakes:
        raise ScoringError.from_mistakes("submission refused, as officially", mistakes)
    return predictions


def _is_link(value: object) -> bool:
    if not isinstance(value, Mapping):
        return False
    if not isinstance(value.get("answer_id"), str):
        return False
    return _are_ids(value.get("evidence_id"))


def _are_ids(value: object) -> bool:
    if not isinstance(value, list):
        return False
    return all(isinstance(sentence, str) for sentence in value)


def _unknown_ids(
    predictions: Sequence[Prediction],
    cases: Mapping[str, Reference],
    subtask: Subtask,
) -> Iterator[tuple[str, str]]:
    """(case id, problem) for the ids in predictions that the case's answer or note does not have.

    The official scripts refuse the whole submission for one of them.
    """
    if subtask in WORD_LIMITS:
        return
    for case_id, value in predictions:
        if case_id not in cases:
            continue
        sentence_ids = cases[case_id].sentence_ids
        if subtask == 2:
            unknown = [
                repr(sentence) for sentence in value if sentence not in sentence_ids
            ]
            if unknown:
                yield case_id, f"the note has no sentence {list_ids(unknown)}"
            continue
        for link in value:
            if link["answer_id"] not in cases[case_id].citations:
                yield case_id, f"the answer has no sentence {link['answer_id']!r}"
            for sentence in link["evidence_id"]:
                if sentence not in sentence_ids:
                    yield case_id, f"the note has no sentence {sentence!r}"


def _text_warnings(predictions: Sequence[Prediction], subtask: Subtask) -> list[str]:
    """Warnings about texts (subtasks 1 and 3) that the official script refuses."""
    if subtask not in WORD_LIMITS:
        return []
    warnings = []
    for prediction in predictions:
        if not prediction.value.split():
            warnings.append(
                f"case {prediction.case_id}: has no words{_OFFICIALLY_REFUSED}"
            )
    for prediction in predictions:
        text = prediction.cut_text(WORD_LIMITS[subtask])
        warnings += surrogate_warning(prediction.case_id, text)
    return warnings


def _limit_warnings(rows: Mapping[str, Prediction], subtask: Subtask) -> list[str]:
    """Warnings about texts (subtasks 1 and 3) that are longer than the subtask's limit."""
    if subtask not in WORD_LIMITS:
        return []
    limit = WORD_LIMITS[subtask]
    warnings = []
    for row, prediction in rows.items():
        text = str(prediction.value or "")
        count = len(text.split())
        if count > limit:
            warnings.append(
                f"case {row}: {count} words; what follows word {limit} is not scored."
            )
    return warnings


def _metric_input(
    subtask: Subtask,
    prediction: Prediction,
    reference: Reference,
) -> Citations | Links | TextSample:
    if subtask == 2:
        return Citations(
            cited=frozenset(prediction.value or ()) - reference.undecided,
            essential=reference.labelled("essential"),
            supplementary=reference.labelled("supplementary"),
        )
    if subtask == 4:
        predicted = set()
        for link in prediction.value or ():
            for sentence in link["evidence_id"]:
                predicted.add((link["answer_id"], sentence))
        gold = set()
        for answer_id, sentences in reference.citations.items():
            for sentence in sentences:
                gold.add((answer_id, sentence))
        return Links(frozenset(predicted), frozenset(gold))
    gold_text = (
        reference.clinician_question if subtask == 1 else reference.clinician_answer
    )
    text = prediction.cut_text(WORD_LIMITS[subtask])
    return TextSample(encodable(text), gold_text, reference.narrative)
