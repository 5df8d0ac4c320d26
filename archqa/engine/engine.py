"""The embedded engine: judges sentences, selects evidence and composes a cited answer.

It needs no model server and no network. The glossary explains a case's terms and names specialties.
A logistic regression over feature columns judges sentences, gated by the note's style: in a typed
note all columns count, in a dictated one the cross-encoder's logit alone, because there the rest is
noise (training/engine-log.md, sixth round). Notes between the two styles get a mixture. A JSON file
holds all of it, so that every weight can be inspected.
"""

import hashlib
from collections import OrderedDict, defaultdict
from concurrent.futures import Future
from functools import cache
from threading import Lock
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from archqa.core.answer import WORD_LIMIT, CitedAnswer
from archqa.core.case import Case, case_digest
from archqa.core.judgement import Judgement, Relevance
from archqa.core.tables import read_rows
from archqa.core.value import FrozenModel
from archqa.engine import DATA_DIR, extractive
from archqa.engine.encoders import CrossEncoder, default_cross_encoder
from archqa.engine.evidence_selection import SelectionPrior, select_sentences
from archqa.engine.features import (
    FeatureTable,
    Matrix,
    cross_encoder_features,
    shared_concepts,
    text_features,
)
from archqa.engine.question import question_text
from archqa.errors import InputError
from archqa.notes.non_evidence import non_evidence_reasons
from archqa.notes.sections import MIN_TYPED_SHORTHAND
from archqa.terminology.glossary import GLOSSARY_SOURCE, explain_terms
from archqa.terminology.topics import load_topics, topics_of

MAX_TERMS = 24
NO_TERMS = "No term or abbreviation of this case is in the glossary."
QUESTION_WEIGHT, MESSAGE_WEIGHT, SENTENCE_WEIGHT = 4.0, 2.0, 0.5
"""Votes of a concept for its specialty, by where the concept is named."""
MAX_SPECIALTIES = 4
GENERALIST = "internal medicine"
OWN_FIELD, OTHER_FIELD = 0.5, -0.25
"""Log-odds that a specialist adds to sentences of the own and of another field; set, not fitted."""


def glossary_context(case: Case) -> str:
    """Explain one term a line, the question's terms first; the last line names the source."""
    lines: dict[str, None] = {}
    for text in _texts(case):
        lines |= dict.fromkeys(explain_terms(text))
    explanations = list(lines)[:MAX_TERMS] or [NO_TERMS]
    return "\n".join([*explanations, f"Source: {GLOSSARY_SOURCE}."])


def specialties(case: Case) -> tuple[str, ...]:
    """Return one to four specialties, the most likely first; a generalist without concepts."""
    terminology = load_topics()
    votes: dict[str, float] = defaultdict(float)
    question, message, *sentences = _texts(case)
    weighted_texts = [(question, QUESTION_WEIGHT), (message, MESSAGE_WEIGHT)]
    for sentence in sentences:
        weighted_texts.append((sentence, SENTENCE_WEIGHT))
    for text, weight in weighted_texts:
        for name in topics_of(text):
            votes[terminology[name].specialty] += weight
    max_votes = max(votes.values(), default=0.0)
    likely = [name for name in votes if votes[name] >= max_votes / 3]
    likely.sort(key=lambda name: (-votes[name], name))
    return tuple(likely[:MAX_SPECIALTIES]) or (GENERALIST,)


def specialty_log_odds(case: Case, specialty: str) -> NDArray[np.float64]:
    """Return the log-odds that a specialist adds to each sentence, of shape (sentences,)."""
    adjustments = np.zeros(len(case.sentences))
    for index, sentence in enumerate(case.sentences):
        concepts = topics_of(sentence.text)
        adjustments[index] = _specialty_adjustment(concepts, specialty)
    return adjustments


def _texts(case: Case) -> list[str]:
    """Return the question, the patient's message and the sentences."""
    sentences = [sentence.text for sentence in case.sentences]
    return [question_text(case), case.patient_narrative, *sentences]


def _specialty_adjustment(concepts: frozenset[str], specialty: str) -> float:
    terminology = load_topics()
    fields = {terminology[name].specialty.casefold() for name in concepts}
    if not fields:
        return 0.0
    if specialty.casefold() in fields:
        return OWN_FIELD
    return OTHER_FIELD


CROSS_ENCODER_COLUMN = "reader.logit"
"""The one column that counts in dictated notes."""
STYLE_COLUMN = "shape.telegraphic"
"""The share of shorthand in the note."""
STYLE_TRANSITION_WIDTH = 0.05
"""Distance from `MIN_TYPED_SHORTHAND` at which a note is wholly of one style."""


class StyleGatedRegression(FrozenModel):
    """Weights for standardised columns.

    `typed` are the weights of all columns in typed notes, `dictated` that of the cross-encoder's
    logit in dictated ones, `style` that of the style itself.
    """

    columns: tuple[str, ...]
    centre: tuple[float, ...]
    scale: tuple[float, ...]
    typed: tuple[float, ...]
    dictated: float
    style: float
    bias: float

    def contributions(self, rows: Matrix) -> Matrix:
        """Return what each column adds to the log-odds, of the shape of `rows` (rows, columns)."""
        weights = np.array([*self.typed, self.dictated, self.style])
        design = design_matrix(
            rows, self.columns, np.array(self.centre), np.array(self.scale)
        )
        weighted = design * weights
        by_column: Matrix = weighted[:, : len(self.columns)]
        by_column[:, self.columns.index(CROSS_ENCODER_COLUMN)] += weighted[:, -2]
        by_column[:, self.columns.index(STYLE_COLUMN)] += weighted[:, -1]
        return by_column


def design_matrix(
    rows: Matrix, columns: tuple[str, ...], centre: Matrix, scale: Matrix
) -> Matrix:
    """Return the columns times how typed the note is, the logit times how dictated, and the style.

    The style is 0 in dictated notes, 1 in typed ones. `centre` and `scale` standardise the columns.
    """
    shorthand = rows[:, [columns.index(STYLE_COLUMN)]]
    distance = (shorthand - MIN_TYPED_SHORTHAND) / STYLE_TRANSITION_WIDTH
    typed = (np.clip(distance, -1.0, 1.0) + 1) / 2
    standardised = (rows - centre) / scale
    logit = standardised[:, [columns.index(CROSS_ENCODER_COLUMN)]]
    return np.hstack([standardised * typed, logit * (1 - typed), typed])


class Model(FrozenModel):
    """A regression over feature columns; `expected_f1` and `mass` are the selection's prior.

    `fitted_on` are the digests of the cases it was fitted on, `reader_further` those that only the
    cross-encoder was trained on.
    """

    schema_version: int = 4
    linear: StyleGatedRegression
    expected_f1: float
    mass: float
    fitted_on: tuple[str, ...] = ()
    seed: int = 0
    reader_sha256: str = ""
    reader_further: tuple[str, ...] = ()
    made_by: str = ""

    def contributions(self, table: FeatureTable) -> Matrix:
        """Return what each column adds to each log-odds, of shape (sentences, columns)."""
        return self.linear.contributions(table.matrix(self.columns))

    @property
    def columns(self) -> tuple[str, ...]:
        """The names of the columns."""
        return self.linear.columns


class LoadedModel(NamedTuple):
    """A model and the sha256 of its file."""

    model: Model
    sha256: str


def load_model(name: str = "default") -> LoadedModel:
    """Read `data/<name>.json`. Raises InputError when it is absent or invalid."""
    path = DATA_DIR / f"{name}.json"
    try:
        content = path.read_bytes()
        return LoadedModel(
            Model.model_validate_json(content), hashlib.sha256(content).hexdigest()
        )
    except OSError as absent:
        raise InputError(
            path,
            [": there is no such engine."],
            f"Engines shipped: {', '.join(available_models())}.",
        ) from absent
    except ValueError as malformed:
        raise InputError(
            path,
            [": is not a fitted model."],
            "Install archqa again.",
        ) from malformed


def available_models() -> tuple[str, ...]:
    """Return the names of the models in this installation."""
    return tuple(sorted(path.stem for path in DATA_DIR.glob("*.json")))


MAX_FOR, MAX_AGAINST = 3, 2
"""Reasons shown for and against a sentence."""
MIN_CONTRIBUTION = 0.08
"""Log-odds below which a feature is not mentioned."""

NOTE_COLUMNS = ("shape.note", "shape.telegraphic")
"""Columns that are equal for all sentences of a note, and so no reason for one of them."""


def rationale(
    columns: tuple[str, ...],
    contributions: NDArray[np.float64],
    shared_concepts: frozenset[str] = frozenset(),
) -> str:
    """Explain one sentence by what each column added to its log-odds, the largest first.

    `shared_concepts` are those the sentence shares with the question. Contributions without a
    phrase in `data/reasons.tsv`, such as not being a heading, are left out.
    """
    # Columns that share a phrase are added up.
    by_group: dict[str, float] = {}
    for column, contribution in zip(columns, contributions.tolist(), strict=True):
        if column not in NOTE_COLUMNS:
            group = phrase_group(column)
            by_group[group] = by_group.get(group, 0.0) + contribution
    ranked = sorted(by_group.items(), key=lambda group_and_sum: -group_and_sum[1])
    supporting = []
    for group, contribution in ranked:
        phrase, _ = _phrases()[group]
        if group == "topic" and shared_concepts:
            phrase = f"names {', '.join(sorted(shared_concepts))}, as the question does"
        if contribution > MIN_CONTRIBUTION and phrase:
            supporting.append(phrase)
    opposing = []
    for group, contribution in ranked[::-1][:MAX_AGAINST]:
        if contribution < -MIN_CONTRIBUTION:
            opposing.append(_phrases()[group][1])
    parts = []
    if supporting:
        parts.append(f"For: {'; '.join(supporting[:MAX_FOR])}.")
    if opposing:
        parts.append(f"Against: {'; '.join(opposing)}.")
    return " ".join(parts) or "Nothing about it stands out."


@cache
def phrase_group(column: str) -> str:
    """Return the longest prefix of a column's name that `data/reasons.tsv` has phrases for."""
    prefixes = [prefix for prefix in _phrases() if column.startswith(prefix)]
    return max(prefixes, key=len)


@cache
def _phrases() -> dict[str, tuple[str, str]]:
    """Return the phrases for and against by group."""
    phrases = {}
    for group, supporting, opposing in read_rows("engine/data/reasons.tsv", 3):
        phrases[group] = (supporting, opposing)
    return phrases


NON_EVIDENCE_LOG_ODDS = -6.0
"""Upper bound of the log-odds of a sentence that is not about the patient."""
MAX_CACHED_ASSESSMENTS = 64
"""Cases whose assessment is cached: several stages ask for the assessment of the same case."""
PROBABILITY_OF_ESSENTIAL, PROBABILITY_OF_NOT_ESSENTIAL = 0.9, 0.1
"""Probabilities of labels that come without one."""


class Assessment(NamedTuple):
    """The model's view of one case: log-odds and a rationale for every sentence."""

    logits: NDArray[np.float64]
    rationales: tuple[str, ...]


class Engine:
    """Judges, selects and answers. Use `Engine.load`; an engine is safe to share among threads."""

    def __init__(self, loaded_model: LoadedModel, cross_encoder: CrossEncoder) -> None:
        self._model = loaded_model.model
        self.fingerprint = loaded_model.sha256
        self._cross_encoder = cross_encoder
        self._assessments: OrderedDict[str, Future[Assessment]] = OrderedDict()
        self._lock = Lock()

    @staticmethod
    def load(name: str = "default") -> "Engine":
        """Return the engine of that name, loaded once. Raises InputError for an unknown name."""
        return _load_engine(name)

    def judge(
        self, case: Case, *, specialty: str | None = None
    ) -> tuple[Judgement, ...]:
        """Return a judgement for every sentence in note order, with a calibrated probability.

        With `specialty`, sentences of that field weigh more. A sentence is labelled essential
        where `select` would select it at the operating point "f1".
        """
        if not case.sentences:
            return ()
        assessment = self._assess(case)
        logits = assessment.logits
        if specialty:
            logits = logits + specialty_log_odds(case, specialty)
        probabilities = 1 / (1 + np.exp(-logits))
        selected = set(select_sentences(probabilities, self._prior()).tolist())
        judgements = []
        for index, sentence in enumerate(case.sentences):
            is_selected = index in selected
            judgement = Judgement(
                sentence_id=sentence.id,
                label=Relevance.ESSENTIAL if is_selected else Relevance.NOT_RELEVANT,
                rationale=assessment.rationales[index],
                probability=float(probabilities[index]),
            )
            judgements.append(judgement)
        return tuple(judgements)

    def select(
        self, judgements: tuple[Judgement, ...], operating_point: str = "f1"
    ) -> frozenset[str]:
        """Return the ids of the set with the highest expected F1 (or F0.5, F2).

        It has at least one id when there is a judgement. Raises CallerError for an unknown
        operating point.
        """
        probabilities = np.zeros(len(judgements))
        for index, judgement in enumerate(judgements):
            if judgement.probability is not None:
                probabilities[index] = judgement.probability
            elif judgement.label is Relevance.ESSENTIAL:
                probabilities[index] = PROBABILITY_OF_ESSENTIAL
            else:
                probabilities[index] = PROBABILITY_OF_NOT_ESSENTIAL
        selected = select_sentences(probabilities, self._prior(), operating_point)
        return frozenset(judgements[index].sentence_id for index in selected)

    def context(self, case: Case) -> str:
        """Explain the terms and abbreviations of question and note, and name the source."""
        return glossary_context(case)

    def specialties(self, case: Case) -> tuple[str, ...]:
        """Return one to four specialties that the case calls for, the most likely first."""
        return specialties(case)

    def compose(
        self,
        case: Case,
        chosen: frozenset[str],
        *,
        word_limit: int = WORD_LIMIT,
    ) -> CitedAnswer:
        """Compose an extractive answer of at most `word_limit` words, every line cited.

        `chosen` are the sentence ids of the evidence. Raises CallerError below 10 words.
        """
        evidence = frozenset(case.in_note_order(chosen))
        if not evidence:
            return CitedAnswer(claims=())
        probabilities = 1 / (1 + np.exp(-self._assess(case).logits))
        relevance = dict(zip(case.sentence_ids, probabilities.tolist(), strict=True))
        return extractive.compose(case, evidence, relevance, word_limit)

    def _assess(self, case: Case) -> Assessment:
        """Return the cached assessment, or compute it.

        Threads that ask for the same case wait for the one that computes it; other cases proceed.
        A failure is passed to the waiting threads and not cached.
        """
        digest = case_digest(case)
        with self._lock:
            is_new = digest not in self._assessments
            assessment = self._assessments.setdefault(digest, Future())
            while len(self._assessments) > MAX_CACHED_ASSESSMENTS:
                self._assessments.popitem(last=False)
        if is_new:
            try:
                assessment.set_result(self._compute_assessment(case))
            except BaseException as error:
                with self._lock:
                    self._assessments.pop(digest, None)
                assessment.set_exception(error)
        return assessment.result()

    def _compute_assessment(self, case: Case) -> Assessment:
        wait_for_logits = self._cross_encoder.start_logits(case)
        other_features = text_features(case)  # computed while the cross-encoder runs
        features = FeatureTable(
            cross_encoder_features(wait_for_logits()) | other_features
        )
        contributions = self._model.contributions(features)
        logits = contributions.sum(1) + self._model.linear.bias
        rationales = [
            rationale(self._model.columns, row, concepts)
            for row, concepts in zip(contributions, shared_concepts(case), strict=True)
        ]
        for index, reason in non_evidence_reasons(case).items():
            logits[index] = min(logits[index], NON_EVIDENCE_LOG_ODDS)
            rationales[index] = reason
        return Assessment(logits, tuple(rationales))

    def _prior(self) -> SelectionPrior:
        return SelectionPrior(self._model.expected_f1, self._model.mass)


@cache
def _load_engine(name: str) -> Engine:
    return Engine(load_model(name), default_cross_encoder())
