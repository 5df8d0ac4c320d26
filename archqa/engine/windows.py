"""A case as the reader sees it: the question, then as much of the note as fits, each sentence behind a mark.

A long note is read in several windows that overlap, so that nothing is read without what came before.
"""

from typing import NamedTuple

from archqa.core.case import Case
from archqa.engine.question import question_text
from archqa.engine.wordpiece import tokenize_text

PAD, UNK, CLS, SEP, MARK = 0, 100, 101, 102, 1
MAX_WINDOW_TOKENS = 894
"""Pieces of one window: an excerpt of a note fits, so that all of it is seen at once."""
MAX_QUESTION_TOKENS = 110
"""Pieces of the question part: the clinician's question, the patient's phrases, then the message as far as it goes."""
SENTENCE = 90
"""Pieces of one sentence that are read."""
SHARED = 3
"""Sentences at the end of a window that the next one reads again."""


class Span(NamedTuple):
    """Where a sentence stands in a window: its place in the note, its mark, and the piece after its last."""

    sentence: int
    start: int
    end: int


class TokenWindow(NamedTuple):
    """The pieces of one window, how many of them are the question, and its sentences."""

    pieces: list[int]
    question: int
    spans: list[Span]


def build_windows(case: Case) -> list[TokenWindow]:
    """All windows of a case, in note order; every sentence is in at least one."""
    head = [CLS, *question(case), SEP]
    sentences = [tokenize_text(each.text[: SENTENCE * 12])[:SENTENCE] for each in case.sentences]
    found, start = [], 0
    while start < len(sentences):
        window = _window(head, sentences, start)
        found.append(window)
        end = window.spans[-1].sentence + 1
        if end >= len(sentences):
            break
        start = max(start + 1, end - SHARED)
    return found


def question(case: Case) -> list[int]:
    """The pieces that say what is asked."""
    phrases = " ".join(phrase.text for phrase in case.patient_question)
    pieces = tokenize_text(question_text(case)) + (
        [SEP, *tokenize_text(phrases)] if phrases else []
    )
    pieces = pieces[:MAX_QUESTION_TOKENS]
    room = MAX_QUESTION_TOKENS - len(pieces)
    return pieces + ([SEP, *tokenize_text(case.patient_narrative)[: room - 1]] if room > 5 else [])


def _window(head: list[int], sentences: list[list[int]], start: int) -> TokenWindow:
    pieces, at = list(head), start
    spans: list[Span] = []
    while at < len(sentences) and (
        not spans or len(pieces) + len(sentences[at]) + 2 <= MAX_WINDOW_TOKENS
    ):
        spans.append(Span(at, len(pieces), len(pieces) + 1 + len(sentences[at])))
        pieces += [MARK, *sentences[at]]
        at += 1
    return TokenWindow([*pieces, SEP], len(head), spans)
