"""Decide by rules whether a reply to a FHIR-AgentBench question is right, where rules are sure.

The benchmark (glee4810/FHIR-AgentBench at bbb4290) asks a language model to judge every reply. The
judge's rules are applied here without a model to replies that are or contain a single value:
numbers are equal when rounded to integers, dates are compared by the day (and the minute where the
question asks for a time), yes and no by meaning; lists must be complete without extra values; null
references match "none", "0" and "no". The strict form compares numbers within 1e-6, times to the
second and lists as multisets.

The second half parses the values in a reply: numbers, dates, yes and no, lists, "no answer".
"""

import ast
import json
import math
import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from datetime import datetime, time
from itertools import product
from typing import Any, NamedTuple

from .errors import ScoringError

_ASKS_FOR_TIME = re.compile(
    r"\b(?:what|which|exact|admission|discharge|prescription|\w+ing) time\b|\btime of (?!day)",
    re.I,
)
_ASKS_FOR_VALUE = re.compile(
    r"\b(?:what|how|count|number|list|show|give|calculate|provide|tell me the)\b",
    re.IGNORECASE,
)
_SYNONYMS = {"m": "male", "f": "female"}
_FINAL = re.compile(r"the final answer is\s*:?", re.IGNORECASE)
_NUMBER = r"[-+]?(?:\d{1,3}(?:,\d{3})+|\d+)(?:\.\d*)?|[-+]?\.\d+"
_NUMBERS = re.compile(rf"(?<![\w.:/-])(?:{_NUMBER})(?![\w:/-]*\d)")
_NUMBER_WITH_UNIT = re.compile(rf"({_NUMBER})\s*%?(?:\s?[A-Za-zµ°][\w/.^-]*+){{0,3}}")
_ISO = (
    r"\d{4}-\d{2}-\d{2}(?:[T ]\d{2}:\d{2}(?::\d{2}(?:\.\d+)?)?(?:Z|[+-]\d{2}:?\d{2})?)?"
)
_AMERICAN = r"\d{1,2}/\d{1,2}/\d{4}(?: \d{1,2}:\d{2}(?::\d{2})?)?"
_IN_WORDS = r"[A-Z][a-z]{2,8} \d{1,2}, \d{4}(?:(?: at|,)? \d{1,2}:\d{2}(?::\d{2})?)?"
_DATES = re.compile(rf"(?<![\w/-])(?:{_ISO}|{_AMERICAN}|{_IN_WORDS})(?![\w/-])")
_NOTHING = re.compile(
    r"(?:no answer|none|null|nan|n/a|nothing|unknown"
    r"|not (?:found|available|applicable|known|recorded|documented)"
    r"|no (?:\w+ ){0,3}(?:data|records?|results?|information|entries|values?|matches|resources?)"
    r"(?: (?:was|were|is|are))?(?: (?:found|available|recorded))?"
    r"|(?:cannot|could not|can't) be (?:answered|determined|found))",
    re.IGNORECASE,
)
_DECLINES = re.compile(
    r"(?:there (?:is|are|was|were) no|no \w+|i (?:could|can) ?not find|unable to|none of)\b",
    re.IGNORECASE,
)
_NUMBER_WORDS = re.compile(
    r"\b(?:zero|once|one|twice|two|three|four|five|six|seven|eight|nine|ten|eleven|twelve"
    r"|\w+teen|twenty|\w+ty-\w+)\b",
    re.IGNORECASE,
)
_DATE_FORMATS = ("%Y-%m-%d", "%m/%d/%Y", "%B %d, %Y", "%b %d, %Y")
_TIME_FORMATS = ("", " %H:%M", " %H:%M:%S", " %H:%M:%S.%f")
_YES_NO = {
    "yes": True,
    "true": True,
    "no": False,
    "false": False,
}


class DateValue(NamedTuple):
    """A date in the writer's local time, and whether it has a time of day."""

    when: datetime
    has_time: bool


def parse_gold_answer(true_answer: str) -> list[Any]:
    """The values of a `true_answer`, a printed numpy array like `[[70.3]]` or `[]`.

    Raises ScoringError for a text that is not such an array.
    """
    with_commas = true_answer.replace("]\n [", "],[").replace("\n", ",")
    text = re.sub(r"\bnan\b", "None", with_commas)
    try:
        return _parse_scalars(ast.literal_eval(text))
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
        values = _parse_scalars(reply)
    if no_answer or all(value is None for value in gold):
        zero_expected = strict and 0.0 in gold
        return _says_nothing(text, values, zero_expected)
    if values is not None:
        return _same_values(question, gold, values, strict)
    if all(isinstance(value, str) for value in gold):
        # Right is the list of names, or one name; otherwise no rule is sure.
        parts = map(str.strip, re.split(r"[,;\n]|\band\b", text))
        listed_names = [part for part in parts if part]
        for names in (listed_names, [text]):
            if _same_values(question, gold, names, strict):
                return True
        return None
    if len(gold) > 1:
        return None
    return _correct_in_sentence(question, gold[0], text, strict)


def same(
    question: str,
    gold: Any,
    value: Any,
    strict: bool,
) -> bool:
    """Whether two values are the same by the benchmark's rules, or strictly."""
    if isinstance(gold, DateValue) and isinstance(value, DateValue):
        gold_is_midnight = gold.when.time() == time.min
        if strict:
            if not value.has_time and not gold_is_midnight:
                return False
            return value.when.replace(microsecond=0) == gold.when
        if _ASKS_FOR_TIME.search(question) and not gold_is_midnight:
            difference = gold.when - value.when
            return value.has_time and abs(difference.total_seconds()) <= 60
        return gold.when.date() == value.when.date()
    if isinstance(gold, float) and isinstance(value, float | bool):
        if strict:
            return abs(gold - value) <= 1e-6
        # A number of thousands of digits is parsed as infinity, which cannot be rounded.
        return math.isfinite(value) and round(gold) == round(value)
    if isinstance(gold, str) and isinstance(value, str):
        return _normalise(gold) == _normalise(value)
    return False


def _normalise(text: str) -> str:
    spaced = " ".join(text.lower().split())
    stripped = spaced.strip(" .\"'")
    return _SYNONYMS.get(stripped, stripped)


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


def _same_values(
    question: str,
    gold: Sequence[Any],
    values: Sequence[Any],
    strict: bool,
) -> bool:
    """Whether two lists have the same values in any order.

    By the benchmark's rules a repeated value counts once; strictly, lists are multisets.
    """
    unmatched = list(values)
    for expected in gold:
        for index, value in enumerate(unmatched):
            if same(question, expected, value, strict):
                del unmatched[index]
                break
        else:
            return False
    if strict:
        return not unmatched
    for value in unmatched:
        is_in_gold = [same(question, expected, value, strict) for expected in gold]
        if not any(is_in_gold):
            return False
    return True


def _correct_in_sentence(
    question: str,
    gold: Any,
    text: str,
    strict: bool,
) -> bool | None:
    """Whether the values in a sentence decide it.

    A single right value is right, and only wrong values are wrong. Without any value, or with the
    right value among wrong ones, no rule is sure.
    """
    if gold in (0.0, 1.0) and not _ASKS_FOR_VALUE.search(question):
        meaning = leading_yes_no(text)
        return None if meaning is None else meaning == bool(gold)
    candidates: set[Any] = set()
    if isinstance(gold, DateValue):
        candidates.update(find_dates(text))
    else:
        candidates.update(find_numbers(text))
    if not candidates:
        wrongly_declines = states_no_answer(text) and gold != 0.0
        return False if wrongly_declines else None
    if any(same(question, gold, value, strict) for value in candidates):
        return True if len(candidates) == 1 else None
    if isinstance(gold, float) and _NUMBER_WORDS.search(text):
        return None
    return False


def final_answer_text(reply: str) -> str:
    """The text after the last "the final answer is", or the whole reply.

    Markdown markup and the final full stop are removed.
    """
    answer = _FINAL.split(reply)[-1]
    return answer.strip(" \t\r\n*`").rstrip(" .*`")


def parse_values(text: str) -> list[Any] | None:
    """The values of a text that is a list (of Python, JSON or numpy) or a single value.

    Empty for "no answer"; None for any other text, such as a sentence or a name.
    """
    if not text or _NOTHING.fullmatch(text):
        return []
    literal = parse_literal(text) if text[0] in "[({" else None
    if literal is not None:
        return _parse_scalars(literal)
    value = parse_scalar(text)
    return None if isinstance(value, str) else [value]


def parse_scalar(value: Any) -> Any:
    """A scalar as a bool, float, DateValue, None or text."""
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, int | float):
        return float(value) if math.isfinite(value) else None
    text = str(value).strip()
    if text.lower() in _YES_NO:
        return _YES_NO[text.lower()]
    date = parse_date(text)
    if date is not None:
        return date
    number = _NUMBER_WITH_UNIT.fullmatch(text)
    return parse_number(number[1]) if number else text


def _parse_scalars(value: Any) -> list[Any]:
    """The parsed scalars of nested lists, tuples and objects, in order."""
    if isinstance(value, Mapping):
        value = list(value.values())
    if not isinstance(value, list | tuple):
        return [parse_scalar(value)]
    scalars: list[Any] = []
    for part in value:
        scalars.extend(_parse_scalars(part))
    return scalars


def find_numbers(text: str) -> list[float]:
    """The numbers in a text, without dates, times and identifiers of seven or more digits."""
    without_dates = _DATES.sub(" ", text)
    numbers = []
    for match in _NUMBERS.finditer(without_dates):
        digits = match[0]
        if len(digits) < 7 or not digits.isdigit():
            numbers.append(parse_number(digits))
    return numbers


def find_dates(text: str) -> list[DateValue]:
    """The dates in a text."""
    dates = []
    for match in _DATES.finditer(text):
        date = parse_date(match[0])
        if date is not None:
            dates.append(date)
    return dates


def parse_date(text: str) -> DateValue | None:
    """A date written as 2133-12-31, 12/31/2133 or December 31, 2133, with or without a time.

    The time zone is dropped.
    """
    if not _DATES.fullmatch(text):
        return None
    without_zone = re.sub(r"(?:Z|(?<=:\d\d)[+-]\d{2}:?\d{2})$", "", text)
    spaced = without_zone.replace(" at ", " ").replace("T", " ")
    plain = re.sub(r"(\d{4}), ", r"\1 ", spaced)
    for date_format, time_format in product(_DATE_FORMATS, _TIME_FORMATS):
        with suppress(ValueError):
            when = datetime.strptime(plain, date_format + time_format)
            return DateValue(when, has_time=bool(time_format))
    return None


def parse_number(text: str) -> float:
    """A number, with or without commas between thousands."""
    return float(text.replace(",", ""))


def leading_yes_no(text: str) -> bool | None:
    """Whether a sentence begins with yes or no; None when it begins otherwise."""
    opening = re.match(r"\W*(\w+)\b", text)
    if opening is None or not re.match(r"\W*\w+\s*(?:[,.;:!]|$|-)", text):
        return None
    return _YES_NO.get(opening[1].lower())


def states_no_answer(text: str) -> bool:
    """Whether a text says that there is no answer, or begins with no."""
    if _NOTHING.fullmatch(text) or _DECLINES.match(text):
        return True
    return leading_yes_no(text) is False


def parse_literal(text: str) -> Any:
    """The value of a text in JSON, or printed by Python or numpy; None for any other text."""
    # numpy prints rows on separate lines without commas, and nan for a missing value.
    rows_with_commas = re.sub(r"\][^\S\n]*+\n\s*+\[", "],[", text)
    with_commas = rows_with_commas.replace("\n", ",")
    python = re.sub(r"\bnan\b|\bnull\b", "None", with_commas)
    with suppress(ValueError, RecursionError):
        return json.loads(text)
    with suppress(ValueError, SyntaxError, MemoryError, RecursionError):
        return ast.literal_eval(python)
    return None
