"""The `13a` tokenisation of machine translation (NIST mteval-v13a.pl), by sacrebleu."""

from __future__ import annotations

from functools import cache, lru_cache
from itertools import chain
from typing import Any


def tokenize_13a(text: str) -> tuple[str, ...]:
    """The tokens of a text; punctuation is split off, except in 1,000 or well-known.

    The rules look at a sign and its neighbour, and no sign of a rule but the space itself is
    a space: what stands between two spaces has the same tokens alone, and is split once for all
    texts.
    """
    return tuple(chain.from_iterable(map(_tokens_between_spaces, text.split(" "))))


@lru_cache(maxsize=65536)
def _tokens_between_spaces(text: str) -> tuple[str, ...]:
    return tuple(str(_tokenizer()(text)).split())


@cache
def _tokenizer() -> Any:
    from sacrebleu.tokenizers.tokenizer_13a import Tokenizer13a

    tokenizer: Any = Tokenizer13a  # sacrebleu has no annotations here.
    return tokenizer()
