"""Finds the sentences of a note that answer a short question, and how likely the note answers it.

The contest's evidence selection (`engine.py`) expects five to ten sentences that an answer to a
patient's message needs; a short question is answered by one or two, or not at all. The network is
the cross-encoder less two layers, trained on such questions by the top-level package `training`.
"""

import json
from collections.abc import Callable, Sequence
from functools import cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from archqa.core.case import Case
from archqa.core.value import FrozenModel
from archqa.engine import DATA_DIR
from archqa.engine.encoders import CROSS_ENCODER_FILE, CrossEncoder, OnProgress
from archqa.engine.networks import files_sha256
from archqa.engine.question import question_text
from archqa.engine.windows import (
    CLS,
    MARKER,
    SEP,
    Span,
    Tokens,
    TokenWindow,
    tokenize_with_offsets,
)
from archqa.notes.assertion import (
    Judgement,
    Mismatch,
    Naming,
    Passage,
    judge,
    read_passages,
)
from archqa.notes.focus import (
    Focus,
    network_question,
    question_focus,
)
from archqa.terminology.concepts import is_kind_of

MAX_QUESTION_TOKENS = 60
MAX_WINDOW_TOKENS = 320
"""Longer windows take longer, since attention grows with the square of their length."""
MAX_WINDOWS = 112
"""Windows that are read of a note of more than some 120,000 characters: 11 s on one core."""
MAX_PIECE_TOKENS = 72
OVERLAP_TOKENS = 48
"""Tokens at the end of a window that the next window may repeat, in whole pieces."""
MAX_SINGLE_WINDOW_TOKENS = 160
"""Above it, two windows on two cores are faster than one."""
ROOM_STEP = 4
CLAUSE_ENDS = frozenset(",;:.")


class Piece(NamedTuple):
    """A sentence, or a part of a long one: characters `start` to `end` of its text."""

    sentence_index: int
    start: int
    end: int
    token_ids: tuple[int, ...]


def sentence_pieces(texts: list[str]) -> list[Piece]:
    """Return the pieces of every sentence in note order; a sentence without tokens has one."""
    pieces = []
    for sentence_index, text in enumerate(texts):
        tokens = tokenize_with_offsets(text)
        start = 0
        for token_start, token_end in _cuts(text, tokens):
            end = (
                len(text)
                if token_end == len(tokens.ids)
                else tokens.offsets[token_end - 1][1]
            )
            token_ids = tuple(tokens.ids[token_start:token_end])
            pieces.append(Piece(sentence_index, start, end, token_ids))
            start = end
    return pieces


def _cuts(text: str, tokens: Tokens) -> list[tuple[int, int]]:
    """Return ranges of tokens, cut after the last end of a clause that fits."""
    cuts = []
    start = 0
    while len(tokens.ids) - start > MAX_PIECE_TOKENS:
        end = start + MAX_PIECE_TOKENS
        for position in range(end, start + MAX_PIECE_TOKENS // 2, -1):
            first, last = tokens.offsets[position - 1]
            if text[first:last] in CLAUSE_ENDS:
                end = position
                break
        cuts.append((start, end))
        start = end
    cuts.append((start, len(tokens.ids)))
    return cuts


def build_answer_windows(
    question: str, pieces: list[Piece], max_tokens: int = MAX_WINDOW_TOKENS
) -> list[TokenWindow]:
    """Return windows of the pieces in note order; spans count pieces, not sentences."""
    question_ids = tokenize_with_offsets(question).ids[:MAX_QUESTION_TOKENS]
    prefix = [CLS, *question_ids, SEP]
    lengths = [1 + len(piece.token_ids) for piece in pieces]
    windows = []
    for indices in _even_ranges(lengths, max_tokens - len(prefix) - 1):
        token_ids = list(prefix)
        spans = []
        for index in indices:
            marker = len(token_ids)
            spans.append(Span(index, marker, marker + lengths[index]))
            token_ids += [MARKER, *pieces[index].token_ids]
        windows.append(TokenWindow([*token_ids, SEP], len(prefix), spans))
    return windows


def _even_ranges(lengths: list[int], room: int) -> list[range]:
    """Return ranges of pieces for windows of about equal length, an even number of them or one."""
    count = len(_ranges(lengths, room))
    if count == 1 and sum(lengths) <= MAX_SINGLE_WINDOW_TOKENS:
        return _ranges(lengths, room)
    count += count % 2
    smallest = sum(lengths) // count
    for smaller_room in range(smallest, room, ROOM_STEP):
        ranges = _ranges(lengths, smaller_room)
        if len(ranges) <= count:
            return ranges
    return _ranges(lengths, room)


def _ranges(lengths: list[int], room: int) -> list[range]:
    """Return overlapping ranges of pieces, each as long as fits into `room` tokens."""
    ranges = []
    start = 0
    while start < len(lengths):
        end = start + 1
        total = lengths[start]
        while end < len(lengths) and total + lengths[end] <= room:
            total += lengths[end]
            end += 1
        ranges.append(range(start, end))
        if end == len(lengths):
            break
        # The next range repeats some pieces before `end`, but starts after this one.
        next_start = end
        repeated = lengths[next_start - 1]
        while next_start - 1 > start and repeated <= OVERLAP_TOKENS:
            next_start -= 1
            repeated += lengths[next_start - 1]
        start = next_start
    return ranges


NETWORK_FILE = DATA_DIR / "answer_finder.onnx"
SETTINGS_FILE = DATA_DIR / "answer_finder.json"
FILES = (
    SETTINGS_FILE,
    NETWORK_FILE,
    NETWORK_FILE.with_suffix(".npz"),
    CROSS_ENCODER_FILE.with_suffix(".npz"),
)
"""What the results depend on; the last file has the weights that both networks share."""
EXCLUDED_LOGIT = -20.0
"""Of a sentence that is no evidence."""
NEAREST = 3
"""Passages that are shown where nothing answers."""

Logits = NDArray[np.float64]


class JudgementWeights(FrozenModel):
    """What a sentence gains, in log-odds, by what it says of what the question is about.

    `named` where it names the thing: not directly, directly (`Judgement.is_direct`). The other
    pairs are for questions in general and for those that yes or no answers: `in_context` where
    only its heading or the sentence before names the thing, `absent` where it names none, `other`
    where it names another thing of that kind; `absent_finding` and `other_finding` where the thing
    is a finding, which one can tell of in other words. `mismatch` for each way in which it does not
    answer, `missing_attribute` where that is the attribute that is asked for, `has_attribute` where
    it has it. `coverage` for the share of the question's other words that it repeats, from half of
    them on.

    A sentence that answers directly has log-odds of at least `least_direct` before it gains.
    """

    named: tuple[float, float]
    in_context: tuple[float, float]
    absent: tuple[float, float]
    absent_finding: tuple[float, float]
    other: float
    other_finding: tuple[float, float]
    mismatch: float
    missing_attribute: float
    has_attribute: float
    coverage: float
    least_direct: float


class AnswerFinderSettings(FrozenModel):
    """What was fitted and chosen after the network was trained.

    The log-odds that a sentence answers are `slope` times its logit plus `bias` and what
    `judgement` adds; a note answers if its best sentence has a probability of at least
    `min_answerable`. Selected are at most `max_selected` such sentences, whose log-odds are at
    most `margin` below the best.
    """

    slope: float
    bias: float
    judgement: JudgementWeights
    min_answerable: float
    margin: float
    max_selected: int
    provenance: str = ""

    @property
    def threshold(self) -> float:
        """The log-odds of `min_answerable`."""
        return float(np.log(self.min_answerable / (1 - self.min_answerable)))

    def network_log_odds(self, logits: Logits) -> Logits:
        """Return the log-odds that sentences answer, by the network alone."""
        return self.slope * logits + self.bias


class ClauseScore(NamedTuple):
    """Characters `start` to `end` of a sentence, and the logit that they answer."""

    start: int
    end: int
    logit: float


SentenceRelevance = Callable[[], Sequence[float]]
"""Returns how much each sentence has to do with the question, for notes too long to be read whole."""


class Finding(NamedTuple):
    """What the engine finds about one question in one note.

    `probabilities` (sentences,) that a sentence answers. `selected` are the indices of the
    sentences that answer best, the best one at the front, empty where none reaches the threshold;
    `nearest` are those that come nearest, whether or not they answer. `judgements` are by index,
    `clauses` those of long sentences. `unread` counts the sentences of a long note that were not
    read.
    """

    probabilities: NDArray[np.float64]
    selected: tuple[int, ...]
    nearest: tuple[int, ...]
    judgements: dict[int, Judgement]
    clauses: dict[int, list[ClauseScore]]
    unread: int = 0

    @property
    def is_answered(self) -> bool:
        """Whether a sentence answers."""
        return bool(self.selected)

    def clauses_of(self, sentence_index: int) -> list[ClauseScore]:
        """Return the scored clauses of a sentence; none of a short one."""
        return self.clauses.get(sentence_index, [])


class SentenceScores(NamedTuple):
    """The logits that sentences answer, of shape (sentences,), and the clauses of long ones.

    `unread` counts the sentences that were not read.
    """

    logits: Logits
    clauses: dict[int, list[ClauseScore]]
    unread: int


class JudgedSentences(NamedTuple):
    """The log-odds that sentences answer, of shape (sentences,), and the judgements by index."""

    log_odds: Logits
    judgements: dict[int, Judgement]


class AnswerFinder:
    """Reads a question and a note. Use `AnswerFinder.load`; safe to share among threads."""

    def __init__(
        self,
        cross_encoder: CrossEncoder,
        settings: AnswerFinderSettings,
        fingerprint: str = "",
    ) -> None:
        self._cross_encoder = cross_encoder
        self._settings = settings
        self.fingerprint = fingerprint

    @staticmethod
    def load() -> "AnswerFinder":
        """Return the shipped one, loaded once."""
        return _load_default()

    def judge(
        self, case: Case, focus: Focus, passages: Sequence[Passage]
    ) -> tuple[JudgedSentences, dict[int, list[ClauseScore]]]:
        """Judge the sentences of a case, which are `passages`; also return its scored clauses."""
        scores = sentence_logits(self._cross_encoder, case, frozenset())
        judged = judge_sentences(focus, passages, scores.logits, self._settings)
        return judged, scores.clauses

    def find(
        self,
        case: Case,
        excluded: frozenset[int] = frozenset(),
        relevance: SentenceRelevance | None = None,
        on_progress: OnProgress = lambda _done, _total: None,
    ) -> Finding:
        """Find the answer to the case's question; sentences at `excluded` indices are no evidence.

        Of a long note the `MAX_WINDOWS` windows with the most relevant sentences are read; all
        without `relevance`.
        """
        question = question_text(case)
        asking = {"clinician_question": network_question(question)}
        logits, clauses, unread = sentence_logits(
            self._cross_encoder,
            case.model_copy(update=asking),
            excluded,
            relevance,
            on_progress,
        )
        focus = question_focus(question)
        judged = judge_sentences(focus, read_passages(case), logits, self._settings)
        log_odds = judged.log_odds
        selected = select_sentences(log_odds, self._settings)
        # A sentence that says the thing of another person comes nearer than one on other things.
        nearness = np.maximum(log_odds, self._settings.network_log_odds(logits))
        ranked = np.argsort(-nearness, kind="stable")[:NEAREST].tolist()
        return Finding(
            probabilities=_sigmoid(log_odds),
            selected=complete_selection(focus, judged, selected, self._settings),
            nearest=tuple(index for index in ranked if index not in excluded),
            judgements=judged.judgements,
            clauses=clauses,
            unread=unread,
        )


def sentence_logits(
    cross_encoder: CrossEncoder,
    case: Case,
    excluded: frozenset[int],
    relevance: SentenceRelevance | None = None,
    on_progress: OnProgress = lambda _done, _total: None,
) -> SentenceScores:
    """Return the logits of the sentences that they answer, and of the clauses of long ones.

    The logit of a sentence is the highest of its clauses.
    """
    texts = [sentence.text for sentence in case.sentences]
    pieces = sentence_pieces(texts)
    windows = build_answer_windows(question_text(case), pieces)
    if relevance is not None and len(windows) > MAX_WINDOWS:
        windows = _most_relevant(windows, pieces, relevance())
    piece_logits = cross_encoder.start_window_logits(
        windows, len(pieces), on_progress
    )()
    read = {span.sentence_index for window in windows for span in window.spans}
    logits = np.full(len(texts), EXCLUDED_LOGIT)
    clauses: dict[int, list[ClauseScore]] = {}
    for number in sorted(read):
        piece, logit = pieces[number], float(piece_logits[number])
        index = piece.sentence_index
        logits[index] = max(logits[index], logit)
        clauses.setdefault(index, []).append(ClauseScore(piece.start, piece.end, logit))
    logits[list(excluded)] = EXCLUDED_LOGIT
    return SentenceScores(
        logits,
        {index: scores for index, scores in clauses.items() if len(scores) > 1},
        unread=len(texts) - len(clauses),
    )


def _most_relevant(
    windows: list[TokenWindow], pieces: list[Piece], relevance: Sequence[float]
) -> list[TokenWindow]:
    """Return `MAX_WINDOWS` windows, those with the most relevant sentence at the front."""

    def best(window: TokenWindow) -> float:
        return max(
            relevance[pieces[span.sentence_index].sentence_index]
            for span in window.spans
        )

    return sorted(windows, key=best, reverse=True)[:MAX_WINDOWS]


def judge_sentences(
    focus: Focus,
    passages: Sequence[Passage],
    logits: Logits,
    settings: AnswerFinderSettings,
) -> JudgedSentences:
    """Judge each sentence by its logit and by what it says of what the question is about."""
    weights = settings.judgement
    log_odds = settings.network_log_odds(logits)
    judgements = {}
    for index, passage in enumerate(passages):
        if logits[index] <= EXCLUDED_LOGIT:
            continue
        judgement = judgements[index] = judge(focus, passage)._replace(
            is_backed=log_odds[index] >= settings.threshold
        )
        if judgement.is_direct:
            log_odds[index] = max(log_odds[index], weights.least_direct)
        log_odds[index] += judgement_gain(focus, judgement, weights)
    return JudgedSentences(log_odds, judgements)


def judgement_gain(
    focus: Focus, judgement: Judgement, weights: JudgementWeights
) -> float:
    """Return what a sentence gains or loses, in log-odds, by what it says of the thing."""
    gain = weights.coverage * (judgement.coverage - 0.5)
    match judgement.naming:
        case Naming.NAMED:
            gain += weights.named[judgement.is_direct]
        case Naming.IN_CONTEXT:
            gain += weights.in_context[focus.is_yes_no]
        case Naming.ABSENT if focus.is_about_finding:
            gain += weights.absent_finding[focus.is_yes_no]
        case Naming.ABSENT:
            gain += weights.absent[focus.is_yes_no]
        case Naming.OTHER if focus.is_about_finding:
            gain += weights.other_finding[focus.is_yes_no]
        case Naming.OTHER:
            gain += weights.other
    for mismatch in judgement.mismatches:
        is_attribute = mismatch is Mismatch.ATTRIBUTE
        gain += weights.missing_attribute if is_attribute else weights.mismatch
    has_attribute = focus.attributes and Mismatch.ATTRIBUTE not in judgement.mismatches
    if has_attribute and judgement.naming is Naming.NAMED:
        gain += weights.has_attribute
    return gain


def select_sentences(
    log_odds: Logits, settings: AnswerFinderSettings
) -> tuple[int, ...]:
    """Return the indices of the sentences that answer, the best one at the front; empty for none."""
    selected: list[int] = []
    for index in np.argsort(-log_odds, kind="stable")[: settings.max_selected].tolist():
        is_near = log_odds[index] >= log_odds.max() - settings.margin
        if is_near and log_odds[index] >= settings.threshold:
            selected.append(index)
    return tuple(selected)


def complete_selection(
    focus: Focus,
    judged: JudgedSentences,
    selected: tuple[int, ...],
    settings: AnswerFinderSettings,
) -> tuple[int, ...]:
    """Return the selected sentences with the best one for each further thing that is asked for."""
    completed = list(selected)
    for thing in focus.concepts_asked_together:
        naming = [
            index
            for index, judgement in judged.judgements.items()
            if any(is_kind_of(one.concept, thing) for one in judgement.mentions)
        ]
        best = max(naming, key=lambda index: judged.log_odds[index], default=None)
        if best is None or not selected or not set(naming).isdisjoint(completed):
            continue
        if judged.log_odds[best] >= settings.threshold:
            completed.append(best)
    return tuple(completed)


def _sigmoid(logits: Logits) -> Logits:
    probabilities: Logits = 1 / (1 + np.exp(-np.asarray(logits)))
    return probabilities


@cache
def _load_default() -> AnswerFinder:
    settings_text = SETTINGS_FILE.read_bytes()
    settings = AnswerFinderSettings.model_validate(json.loads(settings_text))
    return AnswerFinder(CrossEncoder(NETWORK_FILE), settings, files_sha256(*FILES))
