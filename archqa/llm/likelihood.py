"""What the tokens of a reply say of a choice made in it: the probability of each word that could have stood there.

Source: the OpenAI API reference, `logprobs` and `top_logprobs` of a chat completion; vLLM and llama.cpp give the same.
"""

import math
import re
from collections.abc import Sequence
from typing import Any

from archqa.core.value import FrozenModel
from archqa.llm.model import Reply, Token

_LEAST_SEEN = 0.5
"""Probability that the choices must have together; below it, the tokens tell of something else."""


class _Place(FrozenModel):
    """Where a chosen word begins: the token that holds its first letter, and what of it comes before."""

    token: int
    before: str


def label_probabilities(
    reply: Reply, field: str, choices: Sequence[str]
) -> list[dict[str, float] | None]:
    """For each time `field` is filled in a JSON reply, in order: choice to probability; None where it cannot be told.

    Empty if the server gave no token probabilities.
    """
    if not reply.tokens:
        return []
    return [
        _told(reply.tokens[place.token], place.before, choices)
        for place in _places(reply.tokens, field)
    ]


def parse_logprobs(choice: Any) -> tuple[Token, ...]:
    """The tokens in a choice of a chat completion; empty if it has none or they are of another form."""
    try:
        rows = choice["logprobs"]["content"]
        return tuple(Token(text=row["token"], likely=_likely(row)) for row in rows)
    except (AttributeError, KeyError, TypeError, ValueError):
        return ()


def _likely(row: Any) -> dict[str, float]:
    """Alternatives of one place by probability; those below 1 % are dropped, since replies are kept."""
    rows = [*(row.get("top_logprobs") or ()), row]
    found = {each["token"]: math.exp(min(0.0, float(each["logprob"]))) for each in rows}
    return {text: round(chance, 4) for text, chance in found.items() if chance >= 0.01}


def _places(tokens: Sequence[Token], field: str) -> list[_Place]:
    text = "".join(token.text for token in tokens)
    starts, at = list[int](), 0
    for token in tokens:
        starts.append(at)
        at += len(token.text)
    ends = [match.end() for match in re.finditer(rf'"{re.escape(field)}"\s*:\s*"', text)]
    holding = [
        (end, max(at for at, start in enumerate(starts) if start <= end))
        for end in ends
        if end < len(text)
    ]
    return [_Place(token=at, before=text[starts[at] : end]) for end, at in holding]


def _told(token: Token, before: str, choices: Sequence[str]) -> dict[str, float] | None:
    mass = dict.fromkeys(choices, 0.0)
    for text, chance in token.likely.items():
        rest = text.removeprefix(before)
        fitting = (
            [each for each in choices if rest and _begins(each, rest)]
            if text.startswith(before)
            else []
        )
        if len(fitting) == 1:
            mass[fitting[0]] += chance
    seen = sum(mass.values())
    return {each: chance / seen for each, chance in mass.items()} if seen >= _LEAST_SEEN else None


def _begins(choice: str, rest: str) -> bool:
    """Whether a token goes on as this choice does, or says all of it and closes the quotes."""
    return choice.startswith(rest) or rest.startswith(f'{choice}"')
