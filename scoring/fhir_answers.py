"""Decide by rules whether a reply to a FHIR-AgentBench question is right, where rules are sure.

The benchmark (glee4810/FHIR-AgentBench at bbb4290) asks a language model to judge every reply. The
judge's rules are applied here without a model to replies that are or contain a single value:
numbers are equal when rounded to integers, dates are compared by the day (and the minute where the
question asks for a time), yes and no by meaning; lists must be complete without extra values; null
references match "none", "0" and "no". The strict form compares numbers within 1e-6, times to the
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
_SYNONYMS = {"m": "male", "f": "female"}


def parse_gold_answer(true_answer: str) -> list[Any]:
    """The values of a `true_answer`, a printed numpy array like `[[70.3]]` or `[]`.

    Raises ScoringError for a text that is not such an array.
    """
    with_commas = true_answer.replace("]\n [", "],[").replace("\n", ",")
    text = re.sub(r"\bnan\b", "None", with_commas)
    try:
        return _scalars(ast.literal_eval(text))
    except (SyntaxError, ValueError) as error:
        raise ScoringError(
            f"true_answer {true_answer!r} is not a printed array like [[70.3]]."
        ) from error


def is_correct(
    question: str,
    gold: Sequence[Any],
    reply: Any,
    *,
    no_answer: bool,
    strict: bool = False,
) -> bool | None:
    """Whether a reply (text or value) is right; None when no rule is sure.

    gold: from `parse_gold_answer`. no_answer: the question has no gold resources, and the benchmark
    expects "no answer"; the strict form still expects a 0 where the gold has one.
    """
    if reply is None:
        return False
    text = ""
    values: list[Any] | None
    if isinstance(reply, str):
        text = final_answer_text(reply)
        values = parse_values(text)
    else:
        values = _scalars(reply)
    if no_answer or all(value is None for value in gold):
        zero_expected = strict and 0.0 in gold
        return _says_nothing(text, values, zero_expected)
    if values is not None:
        return _same_values(question, gold, values, strict)
    return _correct_in_sentence(question, gold, text, strict)


def same(question: str, gold: Any, value: Any, strict: bool) -> bool:
    """Whether two values are the same by the benchmark's rules, or strictly."""
    if isinstance(gold, DateValue) and isinstance(value, DateValue):
        return _same_date(question, gold, value, strict)
    if isinstance(gold, float) and isinstance(value, float | bool):
        return _same_number(gold, value, strict)
    if isinstance(gold, str) and isinstance(value, str):
        return _normalise(gold) == _normalise(value)
    return False


def _scalars(value: Any) -> list[Any]:
    return list(map(parse_scalar, flatten_values(value)))


def _says_nothing(
    text: str,
    values: Sequence[Any] | None,
    zero_expected: bool,
) -> bool | None:
    """Whether a reply gives no answer, or 0 or no, which are the only right ones if expected."""
    if values is None:
        declines = states_no_answer(text) and not find_numbers(text)
        return True if declines else None
    if zero_expected and not values:
        return False
    accepted = (0.0, False) if zero_expected else (None, 0.0, False)
    return all(value in accepted for value in values)


def _same_values(question: str, gold: Sequence[Any], values: list[Any], strict: bool) -> bool:
    """Whether two lists have the same values in any order.

    By the benchmark's rules a repeated value counts once; strictly, lists are multisets.
    """
    unmatched = list(values)
    for expected in gold:
        index = _index_of_same(question, expected, unmatched, strict)
        if index is None:
            return False
        del unmatched[index]
    if strict:
        return not unmatched
    return all(_is_in(question, gold, value) for value in unmatched)


def _index_of_same(
    question: str,
    expected: Any,
    values: Sequence[Any],
    strict: bool,
) -> int | None:
    for index, value in enumerate(values):
        if same(question, expected, value, strict):
            return index
    return None


def _is_in(question: str, gold: Sequence[Any], value: Any) -> bool:
    return any(same(question, expected, value, strict=False) for expected in gold)


def _correct_in_sentence(
    question: str,
    gold: Sequence[Any],
    text: str,
    strict: bool,
) -> bool | None:
    if all(isinstance(value, str) for value in gold):
        return _names_in_sentence(question, gold, text, strict)
    if len(gold) > 1:
        return None
    expected = gold[0]
    if expected in (0.0, 1.0) and not _ASKS_FOR_VALUE.search(question):
        meaning = leading_yes_no(text)
        return None if meaning is None else meaning == bool(expected)
    candidates: list[Any] = []
    if isinstance(expected, DateValue):
        candidates.extend(find_dates(text))
    else:
        candidates.extend(find_numbers(text))
    distinct = list(dict.fromkeys(candidates))
    return _only_value(question, expected, distinct, text, strict)


def _names_in_sentence(
    question: str,
    gold: Sequence[Any],
    text: str,
    strict: bool,
) -> bool | None:
    """True when the sentence is the list of names, or one name; otherwise no rule is sure."""
    parts = map(str.strip, re.split(r"[,;\n]|\band\b", text))
    listed_names = [part for part in parts if part]
    for names in (listed_names, [text]):
        if _same_values(question, gold, names, strict):
            return True
    return None


def _only_value(
    question: str,
    gold: Any,
    candidates: Sequence[Any],
    text: str,
    strict: bool,
) -> bool | None:
    """Whether the values in a sentence decide it.

    A single right value is right, and only wrong values are wrong. Without any value, or with the
    right value among wrong ones, no rule is sure.
    """
    if not candidates:
        wrongly_declines = states_no_answer(text) and gold != 0.0
        return False if wrongly_declines else None
    if any(same(question, gold, value, strict) for value in candidates):
        return True if len(candidates) == 1 else None
    may_be_in_words = isinstance(gold, float) and has_number_words(text)
    return None if may_be_in_words else False


def _same_number(gold: float, value: float, strict: bool) -> bool:
    if strict:
        return abs(gold - value) <= 1e-6
    # A number of thousands of digits is parsed as infinity, which cannot be rounded.
    if not math.isfinite(value):
        return False
    return round(gold) == round(value)


def _same_date(
    question: str,
    gold: DateValue,
    value: DateValue,
    strict: bool,
) -> bool:
    gold_is_midnight = gold.when.time().isoformat() == "00:00:00"
    if strict:
        has_required_time = value.has_time or gold_is_midnight
        return has_required_time and value.when.replace(microsecond=0) == gold.when
    if _ASKS_FOR_TIME.search(question) and not gold_is_midnight:
        seconds_apart = abs((gold.when - value.when).total_seconds())
        return value.has_time and seconds_apart <= 60
    return gold.when.date() == value.when.date()


def _normalise(text: str) -> str:
    spaced = " ".join(text.lower().split())
    stripped = spaced.strip(" .\"'")
    return _SYNONYMS.get(stripped, stripped)
