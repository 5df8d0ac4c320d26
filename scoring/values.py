"""Parse the values in a reply: numbers, dates, yes and no, lists, "no answer"."""

from __future__ import annotations

import ast
import json
import math
import re
from collections.abc import Mapping
from contextlib import suppress
from datetime import datetime
from itertools import product
from typing import Any, NamedTuple

Value = float | datetime | bool | str | None


class DateValue(NamedTuple):
    """A date in the writer's local time, and whether it has a time of day."""

    when: datetime
    has_time: bool


_FINAL = re.compile(r"the final answer is\s*:?", re.IGNORECASE)
_NUMBER = r"[-+]?(?:\d{1,3}(?:,\d{3})+|\d+)(?:\.\d*)?|[-+]?\.\d+"
_NUMBERS = re.compile(rf"(?<![\w.:/-])(?:{_NUMBER})(?![\w:/-]*\d)")
_NUMBER_WITH_UNIT = re.compile(rf"({_NUMBER})\s*%?(?:\s?[A-Za-zµ°][\w/.^-]*){{0,3}}")
_ISO = r"\d{4}-\d{2}-\d{2}(?:[T ]\d{2}:\d{2}(?::\d{2}(?:\.\d+)?)?(?:Z|[+-]\d{2}:?\d{2})?)?"
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
_YES_NO = {"yes": True, "true": True, "no": False, "false": False}


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
    literal = _literal(text) if text[0] in "[({" else None
    if literal is not None:
        return list(map(parse_scalar, flatten_values(literal)))
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
    date = read_date(text)
    if date is not None:
        return date
    number = _NUMBER_WITH_UNIT.fullmatch(text)
    return read_number(number[1]) if number else text


def flatten_values(value: Any) -> list[Any]:
    """The scalars of nested lists, tuples and objects, in order."""
    if isinstance(value, Mapping):
        value = list(value.values())
    if not isinstance(value, list | tuple):
        return [value]
    scalars: list[Any] = []
    for part in value:
        scalars.extend(flatten_values(part))
    return scalars


def find_numbers(text: str) -> list[float]:
    """The numbers in a text, without dates, times and identifiers of seven or more digits."""
    without_dates = _DATES.sub(" ", text)
    numbers = []
    for match in _NUMBERS.finditer(without_dates):
        digits = match[0]
        if len(digits) < 7 or not digits.isdigit():
            numbers.append(read_number(digits))
    return numbers


def has_number_words(text: str) -> bool:
    """Whether a number up to about twenty is written as a word."""
    return bool(_NUMBER_WORDS.search(text))


def find_dates(text: str) -> list[DateValue]:
    """The dates in a text."""
    dates = []
    for match in _DATES.finditer(text):
        date = read_date(match[0])
        if date is not None:
            dates.append(date)
    return dates


def read_date(text: str) -> DateValue | None:
    """A date written as 2133-12-31, 12/31/2133 or December 31, 2133, with or without a time.

    The time zone is dropped.
    """
    if not _DATES.fullmatch(text):
        return None
    without_zone = re.sub(r"(?:Z|(?<=:\d\d)[+-]\d{2}:?\d{2})$", "", text)
    spaced = without_zone.replace(" at ", " ").replace("T", " ")
    plain = re.sub(r"(\d{4}), ", r"\1 ", spaced)
    for date, time in product(_DATE_FORMATS, _TIME_FORMATS):
        with suppress(ValueError):
            return DateValue(datetime.strptime(plain, date + time), bool(time))
    return None


def read_number(text: str) -> float:
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


def _literal(text: str) -> Any:
    # numpy prints rows on separate lines without commas, and nan for a missing value.
    with_commas = re.sub(r"\]\s*\n\s*\[", "],[", text).replace("\n", ",")
    python = re.sub(r"\bnan\b|\bnull\b", "None", with_commas)
    for read, written in ((json.loads, text), (ast.literal_eval, python)):
        with suppress(ValueError, SyntaxError, MemoryError, RecursionError):
            return read(written)
    return None
