"""Clinical concepts in a text: abbreviations, brands and patients' words under one name.

Terminology: `data/terms.tsv`, written for this project (CC0-1.0). A form that it has in capitals
(`PE`, `OR`) matches in capitals only, since in lower case it is an English word.
"""

import re
from functools import cache, lru_cache
from typing import NamedTuple

from archqa.core.tables import read_rows
from archqa.notes.tokens import MAX_TEXT_LENGTH

PREFIX_LENGTH = 3
"""Letters by which forms are indexed."""
_WORD_PREFIX = re.compile(rf"(?<!\w)(?=(.{{1,{PREFIX_LENGTH}}}))", re.DOTALL)
_LITERAL_PREFIX = re.compile(r"(?:[a-z0-9 -](?![?*{]))*")
_BAR_OUTSIDE_BRACKETS = re.compile(r"\|(?![^(]*\))")
_NEVER = re.compile(r"(?!)")


class Concept(NamedTuple):
    """A clinical concept; `kind` is condition, finding, drug, procedure or test."""

    name: str
    kind: str
    specialty: str
    plain: str


class Mention(NamedTuple):
    """A concept and the text that names it."""

    concept: Concept
    written: str


class _Matcher(NamedTuple):
    """A concept and its forms: those that ignore case, and those that must match exactly."""

    concept: Concept
    ignoring_case: re.Pattern[str]
    exact: re.Pattern[str]


@lru_cache(maxsize=2048)
def find_mentions(text: str) -> tuple[Mention, ...]:
    """Return the concepts that `text` names, each once, in the order of the terminology."""
    text = text[:MAX_TEXT_LENGTH]
    mentions = []
    for matcher in _candidate_matchers(text):
        match = matcher.ignoring_case.search(text) or matcher.exact.search(text)
        if match:
            mentions.append(Mention(matcher.concept, match[0]))
    return tuple(mentions)


def concept_names(text: str) -> frozenset[str]:
    """Return the names of the concepts in `text`."""
    return frozenset(mention.concept.name for mention in find_mentions(text))


@cache
def load_terminology() -> dict[str, Concept]:
    """Return the concepts by name."""
    concepts = {}
    for name, kind, specialty, _, plain in read_rows("notes/data/terms.tsv", 5):
        concepts[name] = Concept(name, kind, specialty, plain)
    return concepts


def _candidate_matchers(text: str) -> list[_Matcher]:
    """Return the matchers with a form that begins as a word of `text`: no other can match."""
    index = _matchers_by_prefix()
    candidates: set[int] = set()
    for word_prefix in set(_WORD_PREFIX.findall(text.lower())):
        for length in range(PREFIX_LENGTH + 1):
            candidates.update(index.get(word_prefix[:length], ()))
    return [_matchers()[number] for number in sorted(candidates)]


@cache
def _matchers_by_prefix() -> dict[str, tuple[int, ...]]:
    """Index `_matchers` by the literal prefix of their forms, "" for forms without one."""
    index: dict[str, list[int]] = {}
    for number, (_, _, _, forms, _) in enumerate(read_rows("notes/data/terms.tsv", 5)):
        prefixes = {_literal_prefix(form) for form in _split_forms(forms)}
        for prefix in prefixes:
            index.setdefault(prefix, []).append(number)
    return {prefix: tuple(numbers) for prefix, numbers in index.items()}


def _literal_prefix(form: str) -> str:
    literal = _LITERAL_PREFIX.match(form.lower())
    if literal is None:
        return ""
    return literal[0][:PREFIX_LENGTH]


@cache
def _matchers() -> tuple[_Matcher, ...]:
    terminology = load_terminology()
    matchers = []
    for name, _, _, forms, _ in read_rows("notes/data/terms.tsv", 5):
        exact: list[str] = []
        ignoring_case: list[str] = []
        for form in _split_forms(forms):
            has_capitals = form != form.lower() and "\\" not in form
            group = exact if has_capitals else ignoring_case
            group.append(form)
        matcher = _Matcher(
            terminology[name],
            _whole_word_pattern(ignoring_case, re.IGNORECASE),
            _whole_word_pattern(exact, re.NOFLAG),
        )
        matchers.append(matcher)
    return tuple(matchers)


def _split_forms(forms: str) -> list[str]:
    return _BAR_OUTSIDE_BRACKETS.split(forms)


def _whole_word_pattern(forms: list[str], flags: re.RegexFlag) -> re.Pattern[str]:
    if not forms:
        return _NEVER
    return re.compile(rf"(?<!\w)(?:{'|'.join(forms)})(?!\w)", flags)
