"""Finds the sentences of a note that answer a short question, and how likely the note answers it.

The contest's evidence selection (`engine.py`) expects five to ten sentences that an answer to a
patient's message needs; a short question is answered by one or two, or not at all. The network is
the cross-encoder less two layers, trained on such questions by the top-level package `training`.
"""

import json
import re
from functools import cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from archqa.core.case import Case
from archqa.core.tables import read_rows
from archqa.core.value import FrozenModel
from archqa.engine import DATA_DIR
from archqa.engine.encoders import CROSS_ENCODER_FILE, CrossEncoder
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

_YES_OR_NO = re.compile(
    r"\W*(?:is|are|was|were|am|does|do|did|has|have|had|can|could|any|ever)\b",
    re.IGNORECASE,
)


def lacks_asked_kind(question: str, sentence: str) -> bool:
    """Whether the question asks for a number, a time or a reason, and the sentence has none."""
    if _YES_OR_NO.match(question):
        return False
    for in_question, in_sentence in _kind_patterns():
        if in_question.search(question) and not in_sentence.search(sentence):
            return True
    return False


@cache
def _kind_patterns() -> tuple[tuple[re.Pattern[str], re.Pattern[str]], ...]:
    """Return pairs of patterns: of the question, and of a sentence that can answer it."""
    patterns: dict[str, dict[str, re.Pattern[str]]] = {}
    for kind, role, pattern in read_rows("engine/data/asked_kinds.tsv", 3):
        patterns.setdefault(kind, {})[role] = re.compile(pattern, re.IGNORECASE)
    return tuple((roles["question"], roles["sentence"]) for roles in patterns.values())


MAX_QUESTION_TOKENS = 60
MAX_WINDOW_TOKENS = 320
"""Longer windows take longer, since attention grows with the square of their length."""
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

Logits = NDArray[np.float64]


class AnswerFinderSettings(FrozenModel):
    """What was fitted and chosen after the network was trained.

    The log-odds that the note answers are `slope` times the highest logit plus `bias`, less
    `lacking` where the best sentence has no expression of the kind that is asked for
    (`lacks_asked_kind`); it is answered from `min_answerable` on. Selected are at most `max_selected`
    sentences whose logit is at most `margin` below the highest, and at least `min_logit`.
    """

    slope: float
    bias: float
    lacking: float
    min_answerable: float
    margin: float
    min_logit: float
    max_selected: int
    provenance: str = ""


class ClauseScore(NamedTuple):
    """Characters `start` to `end` of a sentence, and the logit that they answer."""

    start: int
    end: int
    logit: float


class Finding(NamedTuple):
    """What the engine finds about one question in one note.

    `probabilities` (sentences,) that a sentence carries the answer or a part of it; `answerable`,
    calibrated, that the note answers at all; `selected` are the indices of the sentences that
    answer best, the best one at the front, whether or not the note is likely to answer;
    `is_answered` whether `answerable` passes the threshold. `clauses` are those of long sentences.
    """

    probabilities: NDArray[np.float64]
    answerable: float
    selected: tuple[int, ...]
    is_answered: bool
    clauses: dict[int, list[ClauseScore]]

    def clauses_of(self, sentence_index: int) -> list[ClauseScore]:
        """Return the scored clauses of a sentence; none of a short one."""
        return self.clauses.get(sentence_index, [])


class SentenceScores(NamedTuple):
    """The logits that sentences answer, of shape (sentences,), and the clauses of long ones."""

    logits: Logits
    clauses: dict[int, list[ClauseScore]]


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

    def scores(
        self, case: Case, excluded: frozenset[int] = frozenset()
    ) -> SentenceScores:
        """Return how well each sentence answers, as the network says."""
        return SentenceScores(*sentence_logits(self._cross_encoder, case, excluded))

    def find(self, case: Case, excluded: frozenset[int] = frozenset()) -> Finding:
        """Find the answer to the case's question; sentences at `excluded` indices are no evidence."""
        logits, clauses = sentence_logits(self._cross_encoder, case, excluded)
        texts = [sentence.text for sentence in case.sentences]
        answerable = answerable_probability(
            question_text(case), texts, logits, self._settings
        )
        return Finding(
            probabilities=_sigmoid(logits),
            answerable=answerable,
            selected=select_sentences(logits, self._settings),
            is_answered=answerable >= self._settings.min_answerable,
            clauses=clauses,
        )


def sentence_logits(
    cross_encoder: CrossEncoder, case: Case, excluded: frozenset[int]
) -> tuple[Logits, dict[int, list[ClauseScore]]]:
    """Return the logits of the sentences that they answer, and of the clauses of long ones.

    The logit of a sentence is the highest of its clauses.
    """
    texts = [sentence.text for sentence in case.sentences]
    pieces = sentence_pieces(texts)
    windows = build_answer_windows(question_text(case), pieces)
    piece_logits = cross_encoder.start_window_logits(windows, len(pieces))()
    logits = np.full(len(texts), EXCLUDED_LOGIT)
    clauses: dict[int, list[ClauseScore]] = {}
    for piece, logit in zip(pieces, piece_logits.tolist(), strict=True):
        index = piece.sentence_index
        logits[index] = max(logits[index], logit)
        clauses.setdefault(index, []).append(ClauseScore(piece.start, piece.end, logit))
    logits[list(excluded)] = EXCLUDED_LOGIT
    return logits, {
        index: scores for index, scores in clauses.items() if len(scores) > 1
    }


def answerable_probability(
    question: str, texts: list[str], logits: Logits, settings: AnswerFinderSettings
) -> float:
    """Return how likely a note of these sentences answers."""
    if not texts:
        return 0.0
    best = int(logits.argmax())
    log_odds = settings.slope * logits[best] + settings.bias
    if lacks_asked_kind(question, texts[best]):
        log_odds -= settings.lacking
    return float(_sigmoid(log_odds))


def select_sentences(logits: Logits, settings: AnswerFinderSettings) -> tuple[int, ...]:
    """Return the indices of the sentences that answer best, the best one at the front."""
    selected: list[int] = []
    for index in np.argsort(-logits, kind="stable")[: settings.max_selected].tolist():
        is_near = logits[index] >= logits.max() - settings.margin
        if not selected or (is_near and logits[index] >= settings.min_logit):
            selected.append(index)
    return tuple(selected)


def _sigmoid(logits: Logits) -> Logits:
    probabilities: Logits = 1 / (1 + np.exp(-np.asarray(logits)))
    return probabilities


@cache
def _load_default() -> AnswerFinder:
    settings_text = SETTINGS_FILE.read_bytes()
    settings = AnswerFinderSettings.model_validate(json.loads(settings_text))
    return AnswerFinder(CrossEncoder(NETWORK_FILE), settings, files_sha256(*FILES))
