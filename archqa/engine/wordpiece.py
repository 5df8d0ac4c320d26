"""Text as the pieces a BERT encoder reads.

The vocabulary is `bert-base-uncased`'s, as all-MiniLM-L6-v2 ships it (Apache-2.0, LICENSE-apache-2.0.txt).
"""

from functools import cache
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from tokenizers import BertWordPieceTokenizer

VOCABULARY = Path(__file__).parent / "data" / "vocab.txt"


class Pieces(NamedTuple):
    """A batch of piece ids and its mask, both of shape (texts, longest), padded with 0."""

    ids: NDArray[np.int64]
    mask: NDArray[np.int64]


@cache
def tokenizer() -> BertWordPieceTokenizer:
    """The one tokenizer of the process: lower-cased, accents stripped, no truncation of its own."""
    return BertWordPieceTokenizer(str(VOCABULARY), lowercase=True)


def tokenize_text(text: str) -> list[int]:
    """The ids of `text` without the special tokens."""
    ids: list[int] = tokenizer().encode(_printable(text), add_special_tokens=False).ids
    return ids


def tokenize_batch(texts: list[str], longest: int) -> Pieces:
    """`texts` framed by [CLS] and [SEP], each cut to `longest` pieces, and padded to the longest of them."""
    rows = [[101, *tokenize_text(text)[: longest - 2], 102] for text in texts]
    return padded(rows)


def padded(rows: list[list[int]]) -> Pieces:
    """Rows of ids as one rectangle with its mask."""
    width = max((len(row) for row in rows), default=1)
    ids = np.zeros((len(rows), width), dtype=np.int64)
    mask = np.zeros((len(rows), width), dtype=np.int64)
    for place, row in enumerate(rows):
        ids[place, : len(row)] = row
        mask[place, : len(row)] = 1
    return Pieces(ids, mask)


def _printable(text: str) -> str:
    """Lone surrogates, which damaged files carry, cannot cross into the tokenizer: they become question marks."""
    return text.encode("utf-8", "replace").decode("utf-8")
