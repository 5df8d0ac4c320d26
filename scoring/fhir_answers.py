"""Is a reply to a FHIR-AgentBench question right? Decided by rules where rules are sure, left open where only a
reader can tell.

The benchmark (glee4810/FHIR-AgentBench at bbb4290) asks a language model about every reply. Its judge's rules, for
replies that are or hold one value, are applied here without a model: numbers are equal when rounded to whole ones,
dates by the day (and the minute where the question asks for a time), yes and no by meaning, lists complete and with
nothing more, null references match "none", "0" and "no". The strict form wants numbers within 1e-6, times to the
second and lists as multisets.
"""

from __future__ import annotations

import ast
import math
import re
from collections.abc import Sequence
from typing import Any

from .errors import ScoringError
from .values import (
    DateValue,
    final_answer_text,
    find_dates,
    find_numbers,
    flatten_values,
    has_number_words,
    leading_yes_no,
    parse_scalar,
    parse_values,
    states_no_answer,
)

_ASKS_FOR_TIME = re.compile(
    r"\b(?:what|which|exact|admission|discharge|prescription|\w+ing) time\b|\btime of (?!day)", re.I
)
_ASKS_FOR_VALUE = re.compile(
    r"\b(?:what|how|count|number|list|show|give|calculate|provide|tell me the)\b", re.IGNORECASE
)
_SAME_WORDS = {"m": "male", "f": "female"}


def parse_gold_answer(true_answer: str) -> list[Any]:
    """The values of a `true_answer`, which is a printed numpy array: `[[70.3]]`, `[]`, `[['a']` line break ` ['b']]`.

    Raises ScoringError for a text that is no such array.
    """
    text = re.sub(r"\bnan\b", "None", true_answer.replace("]\n [", "],[").replace("\n", ","))
    try:
        return list(map(parse_scalar, flatten_values(ast.literal_eval(text))))
    except (SyntaxError, ValueError) as error:
        raise ScoringError(
            f"true_answer {true_answer!r} is not a printed array like [[70.3]]."
        ) from error


def is_correct(
    question: str, gold: Sequence[Any], reply: Any, *, no_answer: bool, strict: bool = False
) -> bool | None:
    """Whether a reply (text or value) is right; None when no rule is sure.

    gold: from `parse_gold_answer`. no_answer: the question has no gold resources, for which the benchmark expects "no
    answer"; the strict form then still wants a 0 where the gold has one.
    """
    if reply is None:
        return False
    text = final_answer_text(reply) if isinstance(reply, str) else ""
    values = (
        parse_values(text)
        if isinstance(reply, str)
        else list(map(parse_scalar, flatten_values(reply)))
    )
    if no_answer or not [value for value in gold if value is not None]:
        return _says_nothing(text, values, gold if strict else [])
    if values is not None:
        return _same_values(question, gold, values, strict)
    return _in_sentence(question, gold, text, strict)


def same(question: str, gold: Any, value: Any, strict: bool) -> bool:
    """Whether two values are the same by the benchmark's rules, or strictly."""
    if isinstance(gold, DateValue):
        return isinstance(value, DateValue) and _same_moment(question, gold, value, strict)
    if isinstance(gold, float) and isinstance(value, float | bool):
        # A number of thousands of digits is read as infinite, which cannot be rounded.
        return (
            abs(gold - value) <= 1e-6
            if strict
            else math.isfinite(value) and round(gold) == round(value)
        )
    return isinstance(gold, str) and isinstance(value, str) and _words(gold) == _words(value)


def _says_nothing(text: str, values: list[Any] | None, gold: Sequence[Any]) -> bool | None:
    if values is None:
        return True if states_no_answer(text) and not find_numbers(text) else None
    if 0.0 in gold:
        return bool(values) and all(value in (0.0, False) for value in values)
    return all(value is None or value in (0.0, False) for value in values)


def _same_values(question: str, gold: Sequence[Any], values: list[Any], strict: bool) -> bool:
    left = list(values)
    for wanted in gold:
        place = next(
            (at for at, value in enumerate(left) if same(question, wanted, value, strict)), None
        )
        if place is None:
            return False
        del left[place]
    # By the benchmark's rules a value said twice is no further value; strictly, lists are multisets.
    return not left or (
        not strict and all(any(same(question, one, more, strict) for one in gold) for more in left)
    )


def _in_sentence(question: str, gold: Sequence[Any], text: str, strict: bool) -> bool | None:
    if all(isinstance(value, str) for value in gold):
        parts = [part.strip() for part in re.split(r"[,;\n]|\band\b", text) if part.strip()]
        named = (_same_values(question, gold, list(whole), strict) for whole in (parts, [text]))
        return True if any(named) else None
    if len(gold) > 1:
        return None
    if gold[0] in (0.0, 1.0) and not _ASKS_FOR_VALUE.search(question):
        meaning = leading_yes_no(text)
        return None if meaning is None else meaning == bool(gold[0])
    found = find_dates(text) if isinstance(gold[0], DateValue) else find_numbers(text)
    return _only_value(question, gold[0], list(dict.fromkeys(found)), text, strict)


def _only_value(
    question: str, gold: Any, found: Sequence[Any], text: str, strict: bool
) -> bool | None:
    """Sure when a sentence holds one value, or only wrong ones; open when it holds none, or the right among others."""
    if not found:
        return False if states_no_answer(text) and gold != 0.0 else None
    if any(same(question, gold, value, strict) for value in found):
        return True if len(found) == 1 else None
    return None if isinstance(gold, float) and has_number_words(text) else False


def _same_moment(question: str, gold: DateValue, value: DateValue, strict: bool) -> bool:
    midnight = gold.when.time().isoformat() == "00:00:00"
    if strict:
        return value.when.replace(microsecond=0) == gold.when and (value.has_time or midnight)
    if _ASKS_FOR_TIME.search(question) and not midnight:
        return value.has_time and abs((gold.when - value.when).total_seconds()) <= 60
    return gold.when.date() == value.when.date()


def _words(text: str) -> str:
    plain = " ".join(text.lower().split()).strip(" .\"'")
    return _SAME_WORDS.get(plain, plain)
