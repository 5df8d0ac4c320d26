"""ArchEHR-QA 2025 (BioNLP at ACL 2025): cited answers to patients' questions from their own notes.

Official: soni-sarvesh/archehr-qa at 771b948, `evaluation/scoring.py`. Factuality is strict micro F1
of the citations; relevance is the mean of six text metrics; the overall score is the mean of both.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

from ..bleu import Bleu
from ..citations import (
    Average,
    CitationF1,
    CitationMetric,
    CitationPrecision,
    CitationRecall,
    Citations,
    Credit,
)
from ..errors import ScoringError
from ..id_lists import list_ids
from ..line_support import CitedLine, LineSupport
from ..lint import (
    QuestionOverlap,
    encodable,
    lint,
    number_id_warning,
    question_overlap_warning,
    surrogate_warning,
)
from ..metric import Metric
from ..reference_order import order_ids
from ..rouge import Rouge, Variant
from ..sari import Sari
from ..scores import Scores, add_metric
from ..submission import ParsedAnswer, parse_answer, read_submission
from ..texts import TextMetric, TextSample
from .models import model_metrics
from .selection import (
    OnMissing,
    add_combined_scores,
    check_case_coverage,
    rows_by_case,
    select_metrics,
)

TASK = "archehr-2025"
RELEVANCE = ("bleu", "rougeLsum", "sari", "bertscore", "alignscore", "medcon")
CREDITS: tuple[Credit, ...] = ("strict", "lenient")
AVERAGES: tuple[Average, ...] = ("macro", "micro")
ROUGE_VARIANTS: tuple[Variant, ...] = ("1", "2", "L", "Lsum")
COMBINED = {
    "overall_factuality_score": ("strict_micro_f1",),
    "overall_relevance_score": RELEVANCE,
    "overall_score": ("overall_factuality_score", "overall_relevance_score"),
}


@dataclass(frozen=True)
class Reference:
    """The gold of one case.

    sentences: note sentence id → text. labels: id → essential, supplementary or not-relevant, in
    the key's order; a case without labels is not scored. No official metric uses
    `clinician_answer`. undecided: ids whose citation counts neither way; no official key has any.
    """

    case_id: str
    question: str
    sentences: dict[str, str]
    labels: dict[str, str]
    narrative: str = ""
    clinician_question: str = ""
    clinician_answer: str = ""
    undecided: frozenset[str] = frozenset()

    def labelled(self, *labels: str) -> tuple[str, ...]:
        """The ids with one of these labels, in the key's order."""
        return tuple(sentence for sentence, label in self.labels.items() if label in labels)

    @property
    def both_questions(self) -> str:
        """The patient's narrative and the clinician's question: how official references begin."""
        patient_question = self.narrative.strip() or self.question.strip()
        return f"{patient_question}\n\n{self.clinician_question.strip()}"


def score(
    submission: Sequence[Mapping[str, Any]],
    references: Sequence[Reference],
    *,
    metrics: Sequence[str] | None = None,
    reference_order: str = "note",
    bootstrap: int = 1000,
    seed: int = 12345,
    quickumls_path: Any = None,
    alignscore_path: Any = None,
    bertscore_model: Any = None,
    on_missing: OnMissing = "floor",
) -> Scores:
    """All official scores (0 to 100) of `[{"case_id", "answer"}, …]` over the cases of the key.

    metrics: leaderboard names, signatures or `name(setting=value)`; None for all. reference_order:
    `note` or `hash:SEED`. quickumls_path: a QuickUMLS index; alignscore_path:
    `AlignScore-base.ckpt`; bertscore_model: the folder of an encoder, whose score is
    `bertscore_standin` unless it is distilbert-base-uncased. on_missing: `floor` gives an
    unanswered case the floor of all metrics, `refuse` raises. Raises ScoringError for a malformed
    submission, key, metric or order.
    """
    leaderboard = leaderboard_metrics(
        reference_order,
        bootstrap,
        seed,
        quickumls_path,
        alignscore_path,
        bertscore_model,
    )
    requested = select_metrics(metrics, leaderboard, COMBINED)
    cases = {reference.case_id: reference for reference in references if reference.labels}
    answers = [parse_answer(*row) for row in read_submission(submission)]
    warnings = _check_key(references) + number_id_warning(submission)
    for answer in answers:
        warnings += surrogate_warning(answer.case_id, answer.text)
    answered_ids = [answer.case_id for answer in answers]
    warnings += check_case_coverage(answered_ids, list(cases), on_missing)
    rows = rows_by_case(answers, cases, lambda case_id: ParsedAnswer(case_id, ()))
    scores = Scores(TASK, cases=len(rows), warnings=warnings)
    for name, metric in requested.items():
        inputs = _metric_inputs(metric, rows, cases)
        add_metric(name, metric, inputs, scores)
    add_combined_scores(metrics, COMBINED, "overall_relevance_score", scores)
    scored_answers = [answer for answer in answers if answer.case_id in cases]
    _add_warnings(scored_answers, cases, scores)
    return scores


def cited_lines(
    submission: Sequence[Mapping[str, Any]], references: Sequence[Reference]
) -> dict[str, tuple[CitedLine, ...]]:
    """Each row that `score` counts, and the lines of its answer with what they cite.

    Raises ScoringError for a malformed submission.
    """
    cases = {reference.case_id: reference for reference in references if reference.labels}
    answers = [parse_answer(*row) for row in read_submission(submission)]
    rows = rows_by_case(answers, cases, lambda case_id: ParsedAnswer(case_id, ()))
    return {row: _cited_lines(answer, cases[answer.case_id]) for row, answer in rows.items()}


def cite_everything(references: Sequence[Reference]) -> list[dict[str, str]]:
    """The submission that repeats and cites every sentence of each note: a trivial baseline."""
    return [_cite(reference, tuple(reference.sentences)) for reference in references]


def cite_essential(references: Sequence[Reference]) -> list[dict[str, str]]:
    """The submission that repeats and cites the essential sentences.

    From a second annotator's labels, its score against the key is a ceiling for systems.
    """
    return [_cite(reference, reference.labelled("essential")) for reference in references]


def leaderboard_metrics(
    order: str = "note",
    bs: int = 1000,
    seed: int = 12345,
    quickumls: Any = None,
    alignscore: Any = None,
    encoder: Any = None,
) -> dict[str, Metric[Any]]:
    """The official metrics by their leaderboard names, and our diagnostics."""
    common: dict[str, Any] = {"bs": bs, "seed": seed}
    text = {**common, "order": order}
    metrics = _citation_metrics(common)
    for variant in ROUGE_VARIANTS:
        metrics[f"rouge{variant}"] = Rouge(variant=variant, **text)
    metrics |= {"bleu": Bleu(**text), "sari": Sari(**text)}
    metrics |= model_metrics(text, quickumls, alignscore, encoder)
    metrics["question_overlap"] = QuestionOverlap(**common)
    metrics["line_support"] = LineSupport(**common)
    return metrics


def _citation_metrics(common: dict[str, Any]) -> dict[str, Metric[Any]]:
    families = {"precision": CitationPrecision, "recall": CitationRecall, "f1": CitationF1}
    metrics: dict[str, Metric[Any]] = {}
    for credit, avg in product(CREDITS, AVERAGES):
        for part, family in families.items():
            metrics[f"{credit}_{avg}_{part}"] = family(credit=credit, avg=avg, **common)
    return metrics


def _check_key(references: Sequence[Reference]) -> list[str]:
    """A warning about cases without labels.

    Raises ScoringError when the key labels sentences that a note does not have, or no case has
    labels.
    """
    mistakes = []
    for reference in references:
        unknown = reference.labels.keys() - reference.sentences.keys()
        if unknown:
            problem = f"the key labels {list_ids(sorted(unknown))}, which the note does not have"
            mistakes.append(f"case {reference.case_id}: {problem}")
    if mistakes:
        raise ScoringError.from_mistakes("the key and the cases do not belong together", mistakes)
    unlabelled = [reference.case_id for reference in references if not reference.labels]
    if len(unlabelled) == len(references):
        raise ScoringError(
            "no case has labels, so that nothing can be scored; give the key with --key."
        )
    if not unlabelled:
        return []
    count = len(unlabelled)
    return [f"{count} cases have no labels in the key and are not scored: {list_ids(unlabelled)}."]


def _metric_inputs(
    metric: Metric[Any],
    rows: Mapping[str, ParsedAnswer],
    cases: Mapping[str, Reference],
) -> dict[str, Any]:
    """Row → the metric's input: citations, or an answer with the metric's reference and source."""
    if isinstance(metric, TextMetric):
        return _text_samples(metric, rows, cases)
    inputs: dict[str, Any] = {}
    for row, answer in rows.items():
        reference = cases[answer.case_id]
        if isinstance(metric, CitationMetric):
            inputs[row] = _citations(answer, reference)
        elif isinstance(metric, LineSupport):
            inputs[row] = _cited_lines(answer, reference)
        else:
            inputs[row] = TextSample(answer.text, "", reference.both_questions)
    return inputs


def _cited_lines(answer: ParsedAnswer, reference: Reference) -> tuple[CitedLine, ...]:
    """Each line with the sentences it cites."""
    lines = []
    for line in answer.lines:
        ids = [cited.strip() for cited in line.citations]
        lines.append(CitedLine.citing(line.text, ids, reference.sentences))
    return tuple(lines)


def _text_samples(
    metric: TextMetric,
    rows: Mapping[str, ParsedAnswer],
    cases: Mapping[str, Reference],
) -> dict[str, TextSample]:
    essential = {case_id: case.labelled("essential") for case_id, case in cases.items()}
    order = order_ids(essential, metric.order)
    samples = {}
    for row, answer in rows.items():
        case_id = answer.case_id
        samples[row] = _text_sample(metric, answer, cases[case_id], order[case_id])
    return samples


def _citations(answer: ParsedAnswer, reference: Reference) -> Citations:
    essential = frozenset(reference.labelled("essential"))
    supplementary = frozenset(reference.labelled("supplementary"))
    return Citations(answer.citations - reference.undecided, essential, supplementary)


def _text_sample(
    metric: TextMetric,
    answer: ParsedAnswer,
    reference: Reference,
    order: Sequence[str],
) -> TextSample:
    essential_sentences = [reference.sentences[sentence].strip() for sentence in order]
    essential = "\n".join(essential_sentences)
    reference_texts = {
        "question+essential": f"{reference.both_questions}\n\n{essential}",
        "essential": essential,
        "clinician_question": reference.clinician_question,
        "clinician_answer": parse_answer(reference.case_id, reference.clinician_answer).text,
    }
    narrative_is_source = getattr(metric, "source", "question") == "narrative"
    source = reference.narrative if narrative_is_source else reference.both_questions
    return TextSample(encodable(answer.text), reference_texts[metric.against], source)


def _add_warnings(
    answers: Sequence[ParsedAnswer],
    cases: Mapping[str, Reference],
    scores: Scores,
) -> None:
    sentence_ids = {case_id: set(case.sentences) for case_id, case in cases.items()}
    scores.warnings.extend(lint(answers, sentence_ids))
    overlap = scores.scores.get("question_overlap", 0.0)
    warning = question_overlap_warning(overlap)
    if warning:
        scores.warnings.append(warning)


def _cite(reference: Reference, sentences: Sequence[str]) -> dict[str, str]:
    lines = []
    for sentence in sentences:
        text = " ".join(reference.sentences[sentence].split())
        lines.append(f"{text} |{sentence}|")
    return {"case_id": reference.case_id, "answer": "\n".join(lines)}
