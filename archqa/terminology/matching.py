"""How things are written, in one notation for all tables, and the matcher that finds them.

Forms stand between bars:

    heart attack          in any case
    MS                    with a capital: only as written
    =arb                  exactly these letters, in any case, also where words are read by stems
    fever*  *ectomy       letters may follow, or precede
    lost .. pounds        up to three words between
    (high/elevated) bp    one of these
    temp[s]  [the] pill   may be left out; `[a/b]` one of these or none
    stage #  interact?*   a digit; a letter

Which words a form stands for depends on the text that is read: see `Reading`.
"""

import itertools
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator
from enum import Enum
from typing import Generic, NamedTuple, TypeVar

from archqa.core.tables import split_cell
from archqa.terminology.words import Word, common_forms, read_words

Value = TypeVar("Value")


class Reading(Enum):
    """How the forms of a matcher are read."""

    QUESTION = "question"
    """By stems, so `statin` is "statins" too; signs such as `-` may join words, a comma may not."""

    DISPLAY = "display"
    """By stems, whatever signs stand between the words: `insulin regular` is "insulin, regular"."""

    SENTENCE = "sentence"
    """Letter by letter; a space is a hyphen too; no part of a hyphenated word but its first."""

    FITTED = "fitted"
    """Letter by letter, one space as one space, any part of a hyphenated word.

    The features of the engine were fitted so.
    """


class Match(NamedTuple, Generic[Value]):
    """Characters of a text, the end exclusive, and what they name."""

    start: int
    end: int
    value: Value


def expand(cell: str) -> tuple[str, ...]:
    """Return the forms of a cell, those with alternatives written out."""
    if not _ALTERNATIVES.search(cell):
        return split_cell(cell)
    forms: list[str] = []
    for pattern in split_cell(cell):
        forms += expand_form(pattern)
    return tuple(forms)


def expand_form(pattern: str) -> Iterator[str]:
    """Yield the forms that a form with alternatives stands for."""
    if not _ALTERNATIVES.search(pattern):
        yield pattern
        return
    choices: list[tuple[str, ...]] = []
    for optional, alternatives, literal in _PART.findall(pattern):
        if literal:
            choices.append((literal,))
        elif alternatives:
            choices.append(tuple(alternatives.split("/")))
        else:
            choices.append(("", *optional.split("/")))
    for choice in itertools.product(*choices):
        yield " ".join("".join(choice).split())


def compile_forms(forms: Iterable[str], reading: Reading) -> re.Pattern[str]:
    """Return the pattern of expanded forms that are read by letters, the longest first."""
    alternatives = sorted(forms, key=len, reverse=True)
    joined = "|".join(_as_regex(form, reading) for form in alternatives)
    before = r"(?<![\w-])" if reading is Reading.SENTENCE else r"(?<!\w)"
    return re.compile(rf"{before}(?:{joined})(?!\w)", re.IGNORECASE)


_ALTERNATIVES = re.compile(r"\[|\([^()]*/")
_PART = re.compile(r"\[([^\[\]]*)\]|\(([^()/]*+/[^()]*)\)|([^\[(]+|\()")
_EXACT = "="
_GAP = r"(?:[\s,]+[\w'-]+){0,3}[\s,]+"
_LITERAL_START = re.compile(r"[^*?#'’\s.\[-]*")
_WORD_START = re.compile(r"(?<!\w)(?=(\S{1,3}))")
_PREFIX_LENGTH = 3

_JOINT = re.compile(r"[\s\-‐–./&+'’()]*")
"""What may stand between the words of a form in a question: `c. diff`, `blood-pressure`, `h&h`."""

_UNITS = frozenset({"hr", "k", "mg", "bpm", "g", "pt"})
"""Abbreviations that are units after a number or slash: `24 hr` and `ml/hr` are no heart rate."""


class WordMatcher(Generic[Value]):
    """Finds the forms of many values by their words: the longest form at each place of a text.

    `reading` is `QUESTION` or `DISPLAY`. The index has values by stems, by exact words in lower
    case, and as written.
    """

    def __init__(self, reading: Reading) -> None:
        self._needs_joint = reading is Reading.QUESTION
        self._by_stems: dict[str, tuple[Value, ...]] = {}
        self._in_lower_case: dict[str, tuple[Value, ...]] = {}
        self._as_written: dict[str, tuple[Value, ...]] = {}
        self._longest = 1

    def add(self, value: Value, forms: Iterable[str]) -> None:
        """Look for the forms of a value, written out as `expand` does."""
        for form in forms:
            if form.startswith(_EXACT):
                key, known = form[1:], self._in_lower_case
            elif form != form.lower():
                written = " ".join([word.written for word in read_words(form)])
                key, known = written, self._as_written
            else:
                key, known = " ".join(common_forms(form)), self._by_stems
            known[key] = tuple(dict.fromkeys((*known.get(key, ()), value)))
            self._longest = max(self._longest, key.count(" ") + 1)

    def find(self, text: str) -> Iterator[Match[Value]]:
        """Yield what is named where, in the order of the text.

        An ambiguous form has a match for each of its values.
        """
        words = read_words(text)
        place = 0
        while place < len(words):
            length, values = self._longest_at(text, words, place)
            start, end = words[place].start, words[place + length - 1].end
            for value in values:
                yield Match(start, end, value)
            place += length

    def _longest_at(
        self, text: str, words: list[Word], place: int
    ) -> tuple[int, tuple[Value, ...]]:
        """Return the number of words of the longest form at a place, at least 1, and its values."""
        is_unit = False
        if self._needs_joint and words[place].common in _UNITS:
            before = text[: words[place].start].rstrip()
            is_unit = before[-1:].isdigit() or before.endswith("/")
        for length in range(self._joined_words(text, words, place), 0, -1):
            part = words[place : place + length]
            stems = " ".join([word.common for word in part])
            written = " ".join([word.written for word in part])
            values = dict.fromkeys(self._by_stems.get(stems, ()))
            values |= dict.fromkeys(self._in_lower_case.get(written.lower(), ()))
            values |= dict.fromkeys(self._as_written.get(written, ()))
            if values and (length > 1 or not is_unit):
                return length, tuple(values)
        return 1, ()

    def _joined_words(self, text: str, words: list[Word], place: int) -> int:
        """Return how many words from `place` on could be one form."""
        last = min(place + self._longest, len(words))
        if self._needs_joint:
            for following in range(place + 1, last):
                if not _JOINT.fullmatch(
                    text, words[following - 1].end, words[following].start
                ):
                    return following - place
        return last - place


class LetterMatcher(Generic[Value]):
    """Finds the forms of many values letter by letter, those that begin as a word of the text.

    `reading` is `SENTENCE` or `FITTED`. A pattern is compiled when it is first tried.
    """

    def __init__(self, reading: Reading) -> None:
        self._reading = reading
        self._rows: list[tuple[Value, tuple[str, ...]]] = []
        self._patterns: dict[int, re.Pattern[str]] = {}
        self._by_prefix: dict[str, set[int]] = defaultdict(set)

    def add(self, value: Value, forms: tuple[str, ...]) -> None:
        """Look for the forms of a value, written out as `expand` does."""
        for form in forms:
            # The first letters that every text of the form begins with, at most three.
            literal = _LITERAL_START.match(form.lower().removeprefix(_EXACT))
            assert literal is not None  # The pattern matches the empty string.
            self._by_prefix[literal[0][:_PREFIX_LENGTH]].add(len(self._rows))
        self._rows.append((value, forms))

    def find(self, text: str) -> Iterator[Match[Value]]:
        """Yield every match of each value, in the order of the values.

        Matches that overlap an earlier one of the same value are left out.
        """
        for value, pattern in self._candidates(text):
            for match in pattern.finditer(text):
                yield Match(match.start(), match.end(), value)

    def find_values(self, text: str) -> Iterator[Value]:
        """Yield the values that are named, each once."""
        for value, pattern in self._candidates(text):
            if pattern.search(text):
                yield value

    def _candidates(self, text: str) -> Iterator[tuple[Value, re.Pattern[str]]]:
        numbers: set[int] = set()
        for start in set(_WORD_START.findall(text.lower())):
            for length in range(_PREFIX_LENGTH + 1):
                numbers.update(self._by_prefix.get(start[:length], ()))
        for number in sorted(numbers):
            value, forms = self._rows[number]
            if number not in self._patterns:
                self._patterns[number] = compile_forms(forms, self._reading)
            yield value, self._patterns[number]


def _as_regex(form: str, reading: Reading) -> str:
    pieces = []
    for piece in form.removeprefix(_EXACT).split(" .. "):
        escaped = re.escape(piece)
        escaped = (
            escaped.replace(r"\*", r"\w*").replace(r"\?", r"\w").replace(r"\#", r"\d")
        )
        if reading is Reading.SENTENCE:
            escaped = escaped.replace("'", "['’]").replace(r"\ ", r"[\s-]+")
        pieces.append(escaped)
    regex = _GAP.join(pieces)
    return regex if form == form.lower() else f"(?-i:{regex})"
