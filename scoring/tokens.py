"""The `13a` tokenisation of machine translation (NIST mteval-v13a.pl), on which BLEU and SARI stand.

Written from the rules of the NIST script as sacrebleu 2 documents them (`tokenizer_13a`); a differential test holds
the two equal.
"""

from __future__ import annotations

import re

_ENTITIES = (("&quot;", '"'), ("&amp;", "&"), ("&lt;", "<"), ("&gt;", ">"))
# ASCII punctuation but for the apostrophe, comma, hyphen and full stop, which depend on their neighbours.
_PUNCTUATION = re.compile(r"([!-&(-+/:-@\[-`{-~])")
_AFTER_NON_DIGIT = re.compile(r"([^0-9])([.,])")
_BEFORE_NON_DIGIT = re.compile(r"([.,])([^0-9])")
_HYPHEN_AFTER_DIGIT = re.compile(r"([0-9])(-)")


def tokenize_13a(text: str) -> list[str]:
    """The tokens of a text, case kept: punctuation apart, but 1,000 and 6.2 and well-known whole."""
    text = text.replace("<skipped>", "").replace("-\n", "").replace("\n", " ")
    for entity, letter in _ENTITIES:
        text = text.replace(entity, letter)
    text = _PUNCTUATION.sub(r" \1 ", f" {text} ")
    text = _AFTER_NON_DIGIT.sub(r"\1 \2 ", text)
    text = _BEFORE_NON_DIGIT.sub(r" \1 \2", text)
    return _HYPHEN_AFTER_DIGIT.sub(r"\1 \2 ", text).split()
