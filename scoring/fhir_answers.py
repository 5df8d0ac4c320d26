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
_SYNONYMS = {"m": "male", "f": "female"}


def parse_gold_answer(true_answer: str) -> list[Any]:
    """The values of a `true_answer`, which is a printed numpy array: `[[70.3]]`, `[]`, `[['a']` line break ` ['b']]`.

    Raises ScoringError for a text that is no such array.
    """
    text = re.sub(r"\bnan\b", "None", true_answer.replace("]\n [", "],[").replace("\n", ","))
    try:
        return _scalars(ast.literal_eval(text))
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
    values = parse_values(text) if isinstance(reply, str) else _scalars(reply)
    if no_answer or all(value is None for value in gold):
        return _says_nothing(text, values, gold if strict else [])
    if values is not None:
        return _same_values(question, gold, values, strict)
    return _correct_in_sentence(question, gold, text, strict)


def same(question: str, gold: Any, value: Any, strict: bool) -> bool:
    """Whether two values are the same by the benchmark's rules, or strictly."""
    if isinstance(gold, DateValue):
        return isinstance(value, DateValue) and _same_date(question, gold, value, strict)
    if isinstance(gold, float) and isinstance(value, float | bool):
        return _same_number(gold, value, strict)
    both_text = isinstance(gold, str) and isinstance(value, str)
    return both_text and _normalise(gold) == _normalise(value)


def _scalars(value: Any) -> list[Any]:
    return list(map(parse_scalar, flatten_values(value)))


def _says_nothing(text: str, values: list[Any] | None, gold: Sequence[Any]) -> bool | None:
    if values is None:
        declines = states_no_answer(text) and not find_numbers(text)
        return True if declines else None
    if 0.0 in gold:
        return bool(values) and all(value in (0.0, False) for value in values)
    return all(value is None or value in (0.0, False) for value in values)


def _same_values(question: str, gold: Sequence[Any], values: list[Any], strict: bool) -> bool:
    """Whether lists agree in any order.

    By the benchmark's rules a value said twice is no further value; strictly, lists are multisets.
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


def _index_of_same(question: str, expected: Any, values: Sequence[Any], strict: bool) -> int | None:
    for index, value in enumerate(values):
        if same(question, expected, value, strict):
            return index
    return None


def _is_in(question: str, gold: Sequence[Any], value: Any) -> bool:
    return any(same(question, expected, value, strict=False) for expected in gold)


def _correct_in_sentence(
    question: str, gold: Sequence[Any], text: str, strict: bool
) -> bool | None:
    if all(isinstance(value, str) for value in gold):
        return _names_in_sentence(question, gold, text, strict)
    if len(gold) > 1:
        return None
    if gold[0] in (0.0, 1.0) and not _ASKS_FOR_VALUE.search(question):
        meaning = leading_yes_no(text)
        return None if meaning is None else meaning == bool(gold[0])
    candidates = find_dates(text) if isinstance(gold[0], DateValue) else find_numbers(text)
    return _only_value(question, gold[0], list(dict.fromkeys(candidates)), text, strict)


def _names_in_sentence(question: str, gold: Sequence[Any], text: str, strict: bool) -> bool | None:
    """True when the sentence is the list of names, or one name; otherwise no rule is sure."""
    parts = [part.strip() for part in re.split(r"[,;\n]|\band\b", text) if part.strip()]
    for names in (parts, [text]):
        if _same_values(question, gold, list(names), strict):
            return True
    return None


def _only_value(
    question: str, gold: Any, candidates: Sequence[Any], text: str, strict: bool
) -> bool | None:
    """Sure when a sentence holds one value, or only wrong ones; open when it holds none, or the right among others."""
    if not candidates:
        return False if states_no_answer(text) and gold != 0.0 else None
    if any(same(question, gold, value, strict) for value in candidates):
        return True if len(candidates) == 1 else None
    may_be_in_letters = isinstance(gold, float) and has_number_words(text)
    return None if may_be_in_letters else False


def _same_number(gold: float, value: float, strict: bool) -> bool:
    if strict:
        return abs(gold - value) <= 1e-6
    # A number of thousands of digits is read as infinite, which cannot be rounded.
    return math.isfinite(value) and round(gold) == round(value)


def _same_date(question: str, gold: DateValue, value: DateValue, strict: bool) -> bool:
    midnight = gold.when.time().isoformat() == "00:00:00"
    if strict:
        return value.when.replace(microsecond=0) == gold.when and (value.has_time or midnight)
    if _ASKS_FOR_TIME.search(question) and not midnight:
        return value.has_time and abs((gold.when - value.when).total_seconds()) <= 60
    return gold.when.date() == value.when.date()


def _normalise(text: str) -> str:
    stripped = " ".join(text.lower().split()).strip(" .\"'")
    return _SYNONYMS.get(stripped, stripped)
