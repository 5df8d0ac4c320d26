"""The `13a` tokenisation of machine translation (NIST mteval-v13a.pl), by sacrebleu."""

from __future__ import annotations

from functools import cache
from typing import Any


def tokenize_13a(text: str) -> list[str]:
    """The tokens of a text, case kept: punctuation apart, but 1,000 and 6.2 and well-known whole."""
    return str(_tokenizer()(text)).split()


@cache
def _tokenizer() -> Any:
    from sacrebleu.tokenizers.tokenizer_13a import Tokenizer13a

    tokenizer: Any = Tokenizer13a  # sacrebleu has no annotations here.
    return tokenizer()
