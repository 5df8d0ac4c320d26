"""Sentence compression: clauses, asides and long-winded forms are dropped, numbers last of all.

The shortest variants are spans of the sentence (span_extraction.py), and variants without articles.
No variant has a part of a number.
"""

import re
from collections.abc import Iterator
from functools import cache
from typing import NamedTuple

from archqa.core.case import Sentence
from archqa.core.tables import TableRow, read_rows
from archqa.engine.answer.span_extraction import extract_spans
from archqa.terminology.topics import topics_of
from archqa.terminology.words import stems

_LIST_MARKER = re.compile(
    r"^\s*(?:[•*#]+|-(?!\d))*\s*(?:PROBLEM\b\s*)?(?:#?\s*\d{0,3}\s*[:.)](?!\d))?\s*",
    re.IGNORECASE,
)
"""Bullets and list numbers; not the start of a value (`1.5 mg`, `12:30`, `-2 L`)."""
_BRACKET = re.compile(r"\s*[(\[][^()\[\]]*[)\]](?!\w|\.\d)")
_SEMICOLON = re.compile(r"\s*;\s+")
_SUBJECT = r"(?:he|she|it|they|the|this|his|her|there|was|were|has|had|will|is)"
_CLAUSE_BOUNDARY = re.compile(rf",\s+(?=(?:and|so)\s+{_SUBJECT}\b)")
"""Between independent clauses; never before but, although or while, to keep contrasts whole."""
_REFERENCE_TO_CLAUSE_BEFORE = re.compile(
    r"^(?:and|so)\s+(?:it|they|this|was|were|has|had|will|is)\b", re.IGNORECASE
)
"""The start of a clause whose subject is the clause before, or in it."""
_TRAILING_CLAUSE = re.compile(
    r",\s+(?:which|who|whom|where|with|without|including|as well as|along with|in addition to|"
    r"status post|after|"
    r"per)\b[^,;]*$",
    re.IGNORECASE,
)
_CONTRAST = re.compile(
    r"\b(?:but|however|although|though|not everyone|only|unless|if|until|once)\b", re.IGNORECASE
)
_CONNECTIVE = re.compile(
    r"^(?:(?:and|so|next|then|also|however|therefore|in addition|additionally|furthermore|"
    r"moreover),?\s+)"
    r"(?=(?:the|he|she|they|it|his|her|we|i|a|an|there|this)\b)",
    re.IGNORECASE,
)
"""An opening that refers to the sentence before: a line of an answer stands by itself."""
_LABEL = re.compile(
    r"^(?:(?:brief )?hospital course|history of present illness|hpi|assessment|impression):\s+",
    re.I,
)
_ARTICLE = re.compile(
    r"(?:(?<![\w-])(?:the|an?)|^(?:The|An?))\s+(?=[a-z\d(])"
    r"(?!(?:few|little|lot|couple|bit|number|while|dozen|half|third|quarter|"
    r"minute|hour|day|night|week|month|year|and|or|fib|flutter|line)\b)"
)
"""An article; not in `a few`, `an hour`, `a fib` (atrial fibrillation) or `influenza a or b`."""
_LOWER_CASE_WORD = re.compile(r"^[a-z]+\b")
_DIGIT = re.compile(r"\d")
_NEGATIVE_NUMBER = re.compile(r"-\d")
MIN_CLAUSE_WORDS = 5
"""Words of the shortest clause that may replace its sentence: shorter ones depend on the rest."""
MIN_REST_WORDS = 4
"""Words that must be left when an opener or a trailing clause is dropped."""


class SentenceVariant(NamedTuple):
    """A shorter form of a sentence; `content_kept` is the share of its content that is left."""

    text: str
    content_kept: float

    @property
    def word_count(self) -> int:
        """Words as the scorer counts them."""
        return len(self.text.split())


def sentence_variants(
    sentence: Sentence, question_terms: frozenset[str] = frozenset()
) -> tuple[SentenceVariant, ...]:
    """Return variants from full to shortest, each shorter than the last; none without a word.

    Of variants of the same length, the one that keeps most content is returned. `question_terms`
    are stems and concepts of the question: the clause that shares most of them is preferred.
    """
    full_text = _clean(sentence.text)
    if not any(character.isalnum() for character in full_text):
        return ()
    full_content = max(_content(punctuate(full_text), question_terms), 1.0)
    variants: list[SentenceVariant] = []
    for text in _shortened_texts(full_text, question_terms):
        content_kept = _content(text, question_terms) / full_content
        variants.append(SentenceVariant(text, content_kept))
    return _best_of_each_length(variants)


def _best_of_each_length(variants: list[SentenceVariant]) -> tuple[SentenceVariant, ...]:
    """Return the first variant, then the best of each smaller number of words, longest first."""
    best = {variants[0].word_count: variants[0]}
    for variant in variants[1:]:
        rival = best.get(variant.word_count)
        if variant.word_count < variants[0].word_count and (
            rival is None or variant.content_kept > rival.content_kept
        ):
            best[variant.word_count] = variant
    return tuple(best[word_count] for word_count in sorted(best, reverse=True))


def _shortened_texts(full_text: str, question_terms: frozenset[str]) -> list[str]:
    """Return the full text, its compressions, and each of them without articles."""
    texts = [punctuate(text) for text in _compressions(full_text, question_terms)]
    return texts + [punctuate(_ARTICLE.sub("", text)) for text in texts]


def _compressions(text: str, question_terms: frozenset[str]) -> Iterator[str]:
    """Yield the text as more and more of it is dropped."""
    yield text
    text = _replace_long_forms(text)
    yield text
    for drop in (
        _drop_opener,
        _drop_brackets_without_numbers,
        _drop_trailing_clause,
        _drop_brackets,
    ):
        text = drop(text)
        yield text
    text = _drop_opener(_best_clause(text, question_terms))
    yield text
    yield from extract_spans(text, question_terms)


def punctuate(text: str) -> str:
    """Capitalise the first word (unless it is like iCa) and end with one full stop."""
    text = text.lstrip(" ,;:").rstrip(" ,;:-")
    if not _NEGATIVE_NUMBER.match(text):
        text = text.lstrip(" -")
    if _LOWER_CASE_WORD.match(text):
        text = text[:1].upper() + text[1:]
    if text.endswith((".", "!", "?")):
        return text
    return f"{text}."


def _clean(text: str) -> str:
    """Drop list numbers, section labels and connectives; a bar would end the citation."""
    one_line = " ".join(text.replace("|", "/").split())
    without_marker = _LIST_MARKER.sub("", one_line)
    without_label = _LABEL.sub("", without_marker)
    return _CONNECTIVE.sub("", without_label)


def _replace_long_forms(text: str) -> str:
    for long_form, short_form in _short_forms():
        text = long_form.sub(short_form, text)
    return " ".join(text.split())


def _drop_opener(text: str) -> str:
    head, comma, rest = text.partition(", ")
    if not comma or len(rest.split()) < MIN_REST_WORDS or _DIGIT.search(head):
        return text
    for opener in _openers():
        if opener.fullmatch(head):
            return rest
    return text


def _drop_brackets_without_numbers(text: str) -> str:
    def replacement(bracket: re.Match[str]) -> str:
        return bracket[0] if _DIGIT.search(bracket[0]) else ""

    return _BRACKET.sub(replacement, text)


def _drop_brackets(text: str) -> str:
    return _BRACKET.sub("", text)


def _drop_trailing_clause(text: str) -> str:
    shorter = _TRAILING_CLAUSE.sub("", text.rstrip(". "))
    if len(shorter.split()) < MIN_REST_WORDS:
        return text
    return shorter


def _best_clause(text: str, question_terms: frozenset[str]) -> str:
    """Return the independent clause with most content, the later of equals, or the whole text.

    The text stays whole where another clause contrasts with the best or limits it, and where a
    clause refers to the one before.
    """
    clauses: list[str] = []
    for part in _SEMICOLON.split(text):
        clauses += _CLAUSE_BOUNDARY.split(part)
    independent = [clause for clause in clauses if len(clause.split()) >= MIN_CLAUSE_WORDS]
    refers_back = any(_REFERENCE_TO_CLAUSE_BEFORE.match(clause) for clause in clauses)
    if len(independent) < 2 or refers_back:
        return text
    best = max(reversed(independent), key=lambda clause: _content(clause, question_terms))
    for clause in clauses:
        if clause is not best and _CONTRAST.search(clause):
            return text
    return best


def _content(text: str, question_terms: frozenset[str]) -> float:
    """Count words, numbers twice, and (doubly) the terms of the question."""
    words = text.split()
    numbers = _count_numbers(words)
    shared_terms = question_terms & {*stems(text), *topics_of(text)}
    return len(words) + numbers + 2.0 * len(shared_terms)


def _count_numbers(words: list[str]) -> int:
    return sum(1 for word in words if _DIGIT.search(word))


@cache
def _short_forms() -> tuple[tuple[re.Pattern[str], str], ...]:
    return tuple((re.compile(row[1], re.IGNORECASE), row[2]) for row in _rows("shorter"))


@cache
def _openers() -> tuple[re.Pattern[str], ...]:
    return tuple(re.compile(row[1], re.IGNORECASE) for row in _rows("dropped"))


def _rows(kind: str) -> list[TableRow]:
    rows = read_rows("engine/data/rewording.tsv", 3, optional=1)
    return [row for row in rows if row[0] == kind]
