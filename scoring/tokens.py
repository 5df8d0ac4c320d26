"""The `13a` tokenisation of machine translation (NIST mteval-v13a.pl), by sacrebleu."""

from __future__ import annotations

from functools import cache, lru_cache
from typing import Any


@lru_cache(maxsize=4096)
def tokenize_13a(text: str) -> tuple[str, ...]:
    """The tokens of a text; punctuation is split off, except in 1,000 or well-known."""
    return tuple(str(_tokenizer()(text)).split())


@cache
def _tokenizer() -> Any:
    from sacrebleu.tokenizers.tokenizer_13a import Tokenizer13a

    tokenizer: Any = Tokenizer13a  # sacrebleu has no annotations here.
    return tokenizer()
