"""ArchEHR-QA 2025 (BioNLP at ACL 2025): cited answers to patients' questions from their own notes.

Official: soni-sarvesh/archehr-qa at 771b948, `evaluation/scoring.py`. Factuality is strict micro F1
of the citations; relevance is the mean of six text metrics; the overall score is the mean of both.
"""

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import product
from typing import Any

from ..alignscore import AlignScore
from ..bertscore import BertScore
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
from ..errors import ScoringError, list_ids
from ..line_support import CitedLine, CitedLines, LineSupport
from ..medcon import Medcon, installed_spacy_model
from ..metric import Leaderboard, Metric, RatioMetric, Tally
from ..rouge import Rouge, Variant, rouge_tokens
from ..sari import Sari, ngrams
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
    ParsedAnswer,
    Rows,
    encodable,
    encoding_refusals,
    lint,
    number_id_warning,
    parse_answer,
    read_submission,
    surrogate_warning,
)
from ..texts import TextMetric, TextSample

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
# Reference answers to the 28 dev cases reach 0.3; with the clinician's question before them, 13.
OVERLAP_WARNING_THRESHOLD = 10.0


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
        ids = []
        for sentence, label in self.labels.items():
            if label in labels:
                ids.append(sentence)
        return tuple(ids)

    @property
    def both_questions(self) -> str:
        """The patient's narrative and the clinician's question: how official references begin."""
        patient_question = self.narrative.strip() or self.question.strip()
        return f"{patient_question}\n\n{self.clinician_question.strip()}"


@dataclass(frozen=True, kw_only=True)
class QuestionOverlap(RatioMetric[TextSample]):
    """The percentage of the answers' word n-grams that are in the question (the sample's source).

    Not an official score. Five of the six relevance metrics have the question in their reference,
    so that repeating it raises them. Answers that do not repeat it reach a few percent.
    """

    name = "question_overlap"
    scale = 100.0
    n: int = 3

    def tally(self, case: TextSample) -> Tally:
        """(n-grams of the answer that are in the question, n-grams of the answer)."""
        answer_ngrams = ngrams(rouge_tokens(case.prediction), self.n)
        question_ngrams = ngrams(rouge_tokens(case.source), self.n)
        repeated = 0
        for ngram, count in answer_ngrams.items():
            if ngram in question_ngrams:
                repeated += count
        return float(repeated), float(answer_ngrams.total())


def score(
    submission: Rows,
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
    cases = _labelled_cases(references)
    answers = _parse_answers(submission)
    warnings = _check_key(references)
    warnings += number_id_warning(submission)
    for answer in answers:
        warnings += surrogate_warning(answer.case_id, answer.text)
    answered_ids = [answer.case_id for answer in answers]
    warnings += check_case_coverage(answered_ids, list(cases), on_missing)
    rows = rows_by_case(answers, cases, _unanswered)
    scores = Scores(TASK, cases=len(rows), warnings=warnings)
    for name, metric in requested.items():
        inputs = _metric_inputs(metric, rows, cases)
        add_metric(name, metric, inputs, scores)
    add_combined_scores(metrics, COMBINED, "overall_relevance_score", scores)
    scored_answers = [answer for answer in answers if answer.case_id in cases]
    sentence_ids = {}
    for case_id, case in cases.items():
        sentence_ids[case_id] = set(case.sentences)
    scores.warnings.extend(lint(scored_answers, sentence_ids))
    overlap = scores.scores.get("question_overlap", 0.0)
    if overlap >= OVERLAP_WARNING_THRESHOLD:
        share = f"{overlap:.0f} % of the answers' word runs are the question's own"
        scores.warnings.append(f"{share}; all relevance metrics but SARI reward it.")
    return scores


def refusals(submission: Rows, references: Sequence[Reference]) -> Iterator[str]:
    """The messages of the official script, in the order of its checks; it stops at the first.

    It refuses answers without citations, cases that do not match the key (ids are texts, so that
    the number 3 is not case "3"), and answers that are empty or cannot be encoded as UTF-8. Its
    words are known of the first three and of Python's error of encoding; the message about cases
    that the key does not have is ours. Raises ScoringError for malformed rows.
    """
    answers = _parse_answers(submission)
    for answer in answers:
        if not answer.citations:
            yield f"AssertionError: [case {answer.case_id}]: No citations found."
    cases = _labelled_cases(references)
    answered_ids = [row["case_id"] for row in submission]
    refusal = case_id_refusal(answered_ids, list(cases))
    if refusal:
        yield f"ValueError: {refusal}"
    for answer in answers:
        if not answer.text:
            yield "ZeroDivisionError: float division by zero"
        yield from encoding_refusals(answer.text)


def cited_lines(
    submission: Rows, references: Sequence[Reference]
) -> dict[str, CitedLines]:
    """Each row that `score` counts, and the lines of its answer with what they cite.

    Raises ScoringError for a malformed submission.
    """
    cases = _labelled_cases(references)
    answers = _parse_answers(submission)
    lines_of = {}
    for row, answer in rows_by_case(answers, cases, _unanswered).items():
        lines_of[row] = _cited_lines(answer, cases[answer.case_id])
    return lines_of


def cite_sentences(
    references: Sequence[Reference], *labels: str
) -> list[dict[str, str]]:
    """The submission that repeats and cites the sentences with one of these labels.

    Without labels it cites every sentence of each note: a trivial baseline. With those that a
    second annotator labels essential, its score against the key is a ceiling for systems.
    """
    rows = []
    for reference in references:
        lines = []
        for sentence in reference.labelled(*labels) if labels else reference.sentences:
            text = " ".join(reference.sentences[sentence].split())
            lines.append(f"{text} |{sentence}|")
        rows.append({"case_id": reference.case_id, "answer": "\n".join(lines)})
    return rows


def leaderboard_metrics(
    order: str = "note",
    bs: int = 1000,
    seed: int = 12345,
    quickumls: Any = None,
    alignscore: Any = None,
    encoder: Any = None,
) -> Leaderboard:
    """The official metrics by their leaderboard names, and our diagnostics."""
    common: dict[str, Any] = {"bs": bs, "seed": seed}
    text = {**common, "order": order}
    metrics: Leaderboard = {}
    for credit, avg in product(CREDITS, AVERAGES):
        citation = {**common, "credit": credit, "avg": avg}
        metrics[f"{credit}_{avg}_precision"] = CitationPrecision(**citation)
        metrics[f"{credit}_{avg}_recall"] = CitationRecall(**citation)
        metrics[f"{credit}_{avg}_f1"] = CitationF1(**citation)
    for variant in ROUGE_VARIANTS:
        metrics[f"rouge{variant}"] = Rouge(variant=variant, **text)
    metrics["bleu"] = Bleu(**text)
    metrics["sari"] = Sari(**text)
    metrics |= model_metrics(text, quickumls, alignscore, encoder)
    metrics["question_overlap"] = QuestionOverlap(**common)
    metrics["line_support"] = LineSupport(**common)
    return metrics


def model_metrics(
    text: dict[str, Any],
    quickumls: Any,
    alignscore: Any,
    encoder: Any,
) -> Leaderboard:
    """The text metrics that need models or licences, with the settings `text`.

    They are alignscore, bertscore and medcon; an encoder other than the official one adds
    `bertscore_standin`.
    """
    checkpoint = str(alignscore or "")
    index = str(quickumls or "")
    spacy_model = installed_spacy_model()
    metrics: Leaderboard = {
        "alignscore": AlignScore(checkpoint=checkpoint, **text),
        "bertscore": BertScore(**text),
        "medcon": Medcon(index=index, spacy_model=spacy_model, **text),
    }
    if encoder:
        metric = BertScore(model=str(encoder), **text)
        name = "bertscore" if metric.official else "bertscore_standin"
        metrics[name] = metric
    return metrics


def order_ids(ids: Mapping[str, Sequence[str]], order: str) -> dict[str, list[str]]:
    """Case id → the ids of its essential sentences in the order of the reference.

    The official script iterates over a Python set of ids, whose order changes with every process
    and changes BLEU, SARI, ROUGE-L and the neural metrics. `note` keeps the key's order and is
    reproducible; `hash:SEED` is the order of the script when PYTHONHASHSEED is SEED (the same in
    CPython 3.11 and later). Raises ScoringError for any other order.
    """
    if order == "note":
        return {case_id: list(ids[case_id]) for case_id in ids}
    seed = re.fullmatch(r"hash:(\d{1,10})", order)
    if not seed or int(seed[1]) >= 2**32:
        remedy = "use note, or hash:SEED with SEED from 0 to 4294967295"
        raise ScoringError(f"reference order {order!r} is not known; {remedy}.")
    sentence_ids = tuple(map(tuple, ids.values()))
    orders = _set_orders(sentence_ids, seed[1])
    return dict(zip(ids, orders, strict=True))


@lru_cache(maxsize=8)
def _set_orders(
    ids: tuple[tuple[str, ...], ...],
    seed: str,
) -> list[list[str]]:
    # A process fixes its hash seed when it starts, so another process must compute the order.
    program = "import json, sys; json.dump([list(set(ids)) for ids in json.load(sys.stdin)], sys.stdout)"
    process = subprocess.run(
        [sys.executable, "-S", "-c", program],
        input=json.dumps(ids),
        env={**os.environ, "PYTHONHASHSEED": seed},
        capture_output=True,
        text=True,
        check=True,
    )
    orders: list[list[str]] = json.loads(process.stdout)
    return orders


def _labelled_cases(references: Sequence[Reference]) -> dict[str, Reference]:
    """Case id → reference, for the cases that are scored."""
    cases = {}
    for reference in references:
        if reference.labels:
            cases[reference.case_id] = reference
    return cases


def _parse_answers(submission: Rows) -> list[ParsedAnswer]:
    """The answers of a submission. Raises ScoringError that lists every malformed row."""
    answers = []
    for case_id, text in read_submission(submission):
        answers.append(parse_answer(case_id, text))
    return answers


def _unanswered(case_id: str) -> ParsedAnswer:
    return ParsedAnswer(case_id, ())


def _check_key(references: Sequence[Reference]) -> list[str]:
    """A warning about cases without labels.

    Raises ScoringError when the key labels sentences that a note does not have, or no case has
    labels.
    """
    mistakes = []
    unlabelled = []
    for reference in references:
        unknown = reference.labels.keys() - reference.sentences.keys()
        if unknown:
            listed = list_ids(sorted(unknown))
            problem = f"the key labels {listed}, which the note does not have"
            mistakes.append(f"case {reference.case_id}: {problem}")
        if not reference.labels:
            unlabelled.append(reference.case_id)
    if mistakes:
        raise ScoringError.from_mistakes(
            "the key and the cases do not belong together", mistakes
        )
    if len(unlabelled) == len(references):
        raise ScoringError(
            "no case has labels, so that nothing can be scored; give the key with --key."
        )
    if not unlabelled:
        return []
    count = len(unlabelled)
    return [
        f"{count} cases have no labels in the key and are not scored: {list_ids(unlabelled)}."
    ]


def _metric_inputs(
    metric: Metric[Any],
    rows: Mapping[str, ParsedAnswer],
    cases: Mapping[str, Reference],
) -> dict[str, Any]:
    """Row → the metric's input: citations, cited lines, or an answer with reference and source."""
    if isinstance(metric, TextMetric):
        essential_ids = {}
        for case_id, case in cases.items():
            essential_ids[case_id] = case.labelled("essential")
        ordered_ids = order_ids(essential_ids, metric.order)
        narrative_is_source = getattr(metric, "source", "question") == "narrative"
        samples = {}
        for row, answer in rows.items():
            case_id = answer.case_id
            case = cases[case_id]
            sentences = []
            for sentence_id in ordered_ids[case_id]:
                sentences.append(case.sentences[sentence_id].strip())
            essential = "\n".join(sentences)
            reference_texts = {
                "question+essential": f"{case.both_questions}\n\n{essential}",
                "essential": essential,
                "clinician_question": case.clinician_question,
                "clinician_answer": parse_answer(case_id, case.clinician_answer).text,
            }
            samples[row] = TextSample(
                prediction=encodable(answer.text),
                reference=reference_texts[metric.against],
                source=case.narrative if narrative_is_source else case.both_questions,
            )
        return samples
    inputs: dict[str, Any] = {}
    for row, answer in rows.items():
        reference = cases[answer.case_id]
        if isinstance(metric, CitationMetric):
            inputs[row] = Citations(
                cited=answer.citations - reference.undecided,
                essential=frozenset(reference.labelled("essential")),
                supplementary=frozenset(reference.labelled("supplementary")),
            )
        elif isinstance(metric, LineSupport):
            inputs[row] = _cited_lines(answer, reference)
        else:
            inputs[row] = TextSample(answer.text, "", reference.both_questions)
    return inputs


def _cited_lines(answer: ParsedAnswer, reference: Reference) -> CitedLines:
    """Each line with the sentences it cites."""
    lines = []
    for line in answer.lines:
        ids = [cited.strip() for cited in line.citations]
        lines.append(CitedLine.citing(line.text, ids, reference.sentences))
    return tuple(lines)
