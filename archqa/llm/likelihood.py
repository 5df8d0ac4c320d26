"""Token probabilities of a choice in a reply: how probable each of the allowed values was.

Source: the OpenAI API reference, `logprobs` and `top_logprobs` of a chat completion; vLLM and
llama.cpp give the same.
"""

import math
import re
from bisect import bisect_right
from collections.abc import Sequence
from itertools import accumulate
from typing import Any, NamedTuple

from archqa.llm.model import Reply, Token

_MIN_TOTAL = 0.5
"""Minimal sum of the choices' probabilities; below it, the token is not about the choice."""

_MIN_PROBABILITY = 0.01
"""Alternatives below it are dropped: replies are stored."""


class _ValueStart(NamedTuple):
    """Where a value begins: the index of the token with its first letter, and the token's text
    before it.
    """

    token_index: int
    prefix: str


def label_probabilities(
    reply: Reply,
    field: str,
    choices: Sequence[str],
) -> list[dict[str, float] | None]:
    """Choice to probability for each time a JSON reply fills `field`, in order; None where it
    cannot be told.

    Empty if the server gave no token probabilities.
    """
    if not reply.tokens:
        return []
    probabilities = []
    for start in _value_starts(reply.tokens, field):
        token = reply.tokens[start.token_index]
        probabilities.append(_choice_probabilities(token, start.prefix, choices))
    return probabilities


def parse_logprobs(choice: Any) -> tuple[Token, ...]:
    """The tokens in a choice of a chat completion; empty if they are absent or malformed."""
    try:
        rows = choice["logprobs"]["content"]
        return tuple(Token(text=row["token"], likely=_alternatives(row)) for row in rows)
    except (AttributeError, KeyError, OverflowError, TypeError, ValueError):
        return ()


def _alternatives(row: Any) -> dict[str, float]:
    """The alternatives of one token, and the token itself, by probability."""
    probabilities = {}
    for alternative in [*(row.get("top_logprobs") or ()), row]:
        logprob = float(alternative["logprob"])
        if math.isnan(logprob):
            raise ValueError("a probability is no number")
        logprob = min(0.0, logprob)
        probabilities[alternative["token"]] = math.exp(logprob)
    alternatives = {}
    for text, probability in probabilities.items():
        if probability >= _MIN_PROBABILITY:
            alternatives[text] = round(probability, 4)
    return alternatives


def _value_starts(tokens: Sequence[Token], field: str) -> list[_ValueStart]:
    lengths = [len(token.text) for token in tokens]
    token_starts = list(accumulate(lengths[:-1], initial=0))
    text = "".join(token.text for token in tokens)
    value_starts = []
    for match in re.finditer(rf'"{re.escape(field)}"\s*:\s*"', text):
        start = match.end()
        if start < len(text):
            index = bisect_right(token_starts, start) - 1
            prefix = text[token_starts[index] : start]
            value_starts.append(_ValueStart(index, prefix))
    return value_starts


def _choice_probabilities(
    token: Token,
    prefix: str,
    choices: Sequence[str],
) -> dict[str, float] | None:
    totals = dict.fromkeys(choices, 0.0)
    for text, probability in token.likely.items():
        if not text.startswith(prefix) or text == prefix:
            continue
        beginning = text.removeprefix(prefix)
        matches = [choice for choice in choices if _is_beginning(beginning, choice)]
        if len(matches) == 1:
            totals[matches[0]] += probability
    total = sum(totals.values())
    if total < _MIN_TOTAL:
        return None
    return {choice: probability / total for choice, probability in totals.items()}


def _is_beginning(text: str, choice: str) -> bool:
    """Whether a token's text is the beginning of a choice, or all of it with the closing quote."""
    return choice.startswith(text) or text.startswith(f'{choice}"')
