"""Tokenization into the word pieces of a BERT encoder.

The vocabulary is `bert-base-uncased`'s, as all-MiniLM-L6-v2 ships it (Apache-2.0,
LICENSE-apache-2.0.txt).
"""

from functools import cache
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from tokenizers import BertWordPieceTokenizer

VOCABULARY = Path(__file__).parent / "data" / "vocab.txt"
PAD, UNK, CLS, SEP = 0, 100, 101, 102
"""Ids of the special tokens."""
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
    ids: list[int] = tokenizer().encode(_without_surrogates(text), add_special_tokens=False).ids
    return ids


def tokenize_with_offsets(text: str) -> Tokens:
    """Return the tokens of `text` without the special tokens."""
    encoding = tokenizer().encode(_without_surrogates(text), add_special_tokens=False)
    return Tokens(encoding.ids, encoding.offsets)


def tokenize_batch(texts: list[str], max_length: int) -> TokenBatch:
    """Return `texts` between [CLS] and [SEP], truncated to `max_length` tokens and padded."""
    rows = []
    for text in texts:
        tokens = tokenize_text(text)[: max_length - 2]
        rows.append([CLS, *tokens, SEP])
    return _padded(rows)


def _padded(rows: list[list[int]]) -> TokenBatch:
    width = max((len(row) for row in rows), default=1)
    ids = np.zeros((len(rows), width), dtype=np.int64)
    mask = np.zeros((len(rows), width), dtype=np.int64)
    for index, row in enumerate(rows):
        ids[index, : len(row)] = row
        mask[index, : len(row)] = 1
    return TokenBatch(ids, mask)


def _without_surrogates(text: str) -> str:
    """Replace lone surrogates, which damaged files contain and the tokenizer rejects, by `?`."""
    return text.encode("utf-8", "replace").decode("utf-8")
