"""The cross-encoder's input: the question, then as much of the note as fits.

A marker token precedes every sentence. A long note is split into windows that overlap, so that
every sentence is read with some of its context.
"""

import re
from functools import cache
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from tokenizers import BertWordPieceTokenizer

from archqa.core.case import Case
from archqa.engine.question import question_text

VOCABULARY = Path(__file__).parent / "data" / "vocab.txt"
PAD, UNK, CLS, SEP = 0, 100, 101, 102
"""Ids of the special tokens."""
_NO_WORD = re.compile(r"[!-~]{400,}|(?:(?:[^\w\s]|_)\s?){200,}")
MARKER = 1
"""Id of an unused token, which marks the start of a sentence."""


class TokenBatch(NamedTuple):
    """Token ids and their mask, both of shape (texts, longest text), padded with 0."""

    ids: NDArray[np.int64]
    mask: NDArray[np.int64]


class Tokens(NamedTuple):
    """Token ids of a text and, for each, the characters it stands for; ends are exclusive."""

    ids: list[int]
    offsets: list[tuple[int, int]]


@cache
def tokenizer() -> BertWordPieceTokenizer:
    """Return the tokenizer of the process: lower-cased, accents stripped, no truncation."""
    return BertWordPieceTokenizer(str(VOCABULARY), lowercase=True)


def tokenize_text(text: str) -> list[int]:
    """Return the token ids of `text` without the special tokens."""
    return tokenize_with_offsets(text).ids


def tokenize_with_offsets(text: str) -> Tokens:
    """Return the tokens of `text` without the special tokens."""
    encoding = tokenizer().encode(_readable(text), add_special_tokens=False)
    return Tokens(encoding.ids, encoding.offsets)


def tokenize_batch(texts: list[str], max_length: int) -> TokenBatch:
    """Return `texts` between [CLS] and [SEP], truncated to `max_length` tokens and padded."""
    rows = []
    for text in texts:
        tokens = tokenize_text(text)[: max_length - 2]
        rows.append([CLS, *tokens, SEP])
    width = max(map(len, rows), default=1)
    ids = np.zeros((len(rows), width), dtype=np.int64)
    mask = np.zeros((len(rows), width), dtype=np.int64)
    for index, row in enumerate(rows):
        ids[index, : len(row)] = row
        mask[index, : len(row)] = 1
    return TokenBatch(ids, mask)


def _readable(text: str) -> str:
    """Return `text`, as long as before, without lone surrogates and what is no word.

    Damaged files contain surrogates, and the tokenizer rejects them. A stretch like base64 data
    or a long line of underscores becomes one letter, over and over: one unknown token, not hundreds.
    """
    text = text.encode("utf-8", "replace").decode("utf-8")
    return _NO_WORD.sub(lambda stretch: "x" * len(stretch[0]), text)


MAX_WINDOW_TOKENS = 894
"""Tokens of one window: enough for the excerpt of a note."""
MAX_QUESTION_TOKENS = 110
"""Tokens of the question part: the question, the patient's phrases, then the truncated message."""
MIN_MESSAGE_TOKENS = 6
"""Tokens, separator included, that must be free for the message to be added."""
MAX_SENTENCE_TOKENS = 90
MAX_CHARACTERS_PER_TOKEN = 12
"""Bounds the characters of a sentence that are tokenized."""
OVERLAP = 3
"""Sentences at the end of a window that the next window repeats."""


class Span(NamedTuple):
    """The tokens of a sentence in a window: `start` is its marker, `end` is exclusive."""

    sentence_index: int
    start: int
    end: int


class TokenWindow(NamedTuple):
    """The tokens of one window, how many of them are the question part, and its sentences."""

    token_ids: list[int]
    question_length: int
    spans: list[Span]


def build_windows(case: Case) -> list[TokenWindow]:
    """Return all windows of a case in note order; every sentence is in at least one."""
    prefix = [CLS, *question_tokens(case), SEP]
    sentences = []
    for sentence in case.sentences:
        excerpt = sentence.text[: MAX_SENTENCE_TOKENS * MAX_CHARACTERS_PER_TOKEN]
        sentences.append(tokenize_text(excerpt)[:MAX_SENTENCE_TOKENS])
    windows = []
    start = 0
    while start < len(sentences):
        window = _build_window(prefix, sentences, start)
        windows.append(window)
        end = window.spans[-1].sentence_index + 1
        if end >= len(sentences):
            break
        start = max(start + 1, end - OVERLAP)
    return windows


def question_tokens(case: Case) -> list[int]:
    """Return the tokens of the question, the patient's phrases and as much message as fits."""
    token_ids = tokenize_text(question_text(case))
    phrases = " ".join(phrase.text for phrase in case.patient_question)
    if phrases:
        token_ids += [SEP, *tokenize_text(phrases)]
    token_ids = token_ids[:MAX_QUESTION_TOKENS]
    free = MAX_QUESTION_TOKENS - len(token_ids)
    if free < MIN_MESSAGE_TOKENS:
        return token_ids
    message = tokenize_text(case.patient_narrative)
    return [*token_ids, SEP, *message[: free - 1]]


def _build_window(
    prefix: list[int], sentences: list[list[int]], start: int
) -> TokenWindow:
    """Fill a window from sentence `start` on; it has at least one sentence."""
    token_ids = list(prefix)
    spans: list[Span] = []
    for index in range(start, len(sentences)):
        sentence = sentences[index]
        length_with_sentence = (
            len(token_ids) + 1 + len(sentence) + 1
        )  # marker and final [SEP]
        if spans and length_with_sentence > MAX_WINDOW_TOKENS:
            break
        marker = len(token_ids)
        spans.append(Span(index, marker, marker + 1 + len(sentence)))
        token_ids += [MARKER, *sentence]
    return TokenWindow([*token_ids, SEP], len(prefix), spans)
