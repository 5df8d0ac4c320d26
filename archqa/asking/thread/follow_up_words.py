"""The words of a follow-up question, with one word for each reference and each stretch of time.

The phrases are in the tables of `data/`.
"""

from collections.abc import Iterator, Sequence
from datetime import date
from functools import cache
from typing import NamedTuple

from archqa.core.tables import read_rows
from archqa.query.questions.everyday.clause import Clause
from archqa.query.questions.everyday.phrases import mark
from archqa.query.questions.everyday.vocabulary import Vocabulary
from archqa.query.questions.lexer import SEPARATORS, Token, phrases_of, plain
from archqa.terminology.words import word_list

SUBJECT = "thatsubject"
"""Stands in the tables for a reference, such as "it" or "the first one"."""

PERIOD = "theperiod"
"""Stands in the tables for a stretch of time, such as "in 2020"."""

POINTING_WORDS = word_list("pointing word")

AT_END = "$"
"""A phrase that ends so counts only where the question, or a part of it, ends."""


class Phrase(NamedTuple):
    """Words of a table and what they mean."""

    words: tuple[str, ...]
    kind: str
    value: str
    at_end: bool = False


@cache
def whole_phrases() -> dict[tuple[str, ...], Phrase]:
    """Return the follow-ups that are known as a whole; of equal ones the first counts."""
    phrases: dict[tuple[str, ...], Phrase] = {}
    for kind, value, cell in read_rows("asking/thread/data/follow_ups.tsv", 3):
        for phrase in _phrases(kind, value, cell):
            words = tuple(
                SUBJECT if word in POINTING_WORDS else word for word in phrase.words
            )
            phrases.setdefault(words, phrase._replace(words=words))
    return phrases


@cache
def references() -> tuple[Phrase, ...]:
    """Return the phrases that refer to the last question, the longest first."""
    return _longest_first(_phrases_of("reference"))


@cache
def edge_words(place: str) -> tuple[Phrase, ...]:
    """Return the phrases that say nothing at the `start` or the `end`, the longest first."""
    return _longest_first(
        [phrase for phrase in _phrases_of("edge") if phrase.kind == place]
    )


@cache
def subject_kind_phrases() -> tuple[Phrase, ...]:
    """Return the phrases that are said of one kind of subject."""
    return tuple(_phrases_of("subject"))


def _phrases_of(group: str) -> list[Phrase]:
    """Return the phrases of a group of `references.tsv`, in its order."""
    phrases: list[Phrase] = []
    for row in read_rows("asking/thread/data/references.tsv", 4):
        if row[0] == group:
            phrases += _phrases(*row[1:])
    return phrases


@cache
def subject_kinds(group: str) -> dict[str, str]:
    """Return the kinds of subjects by the kind of their rows (`row`), or the type (`resource`)."""
    kinds: dict[str, str] = {}
    for row_group, kind, _, names in read_rows("asking/thread/data/references.tsv", 4):
        if row_group == group:
            kinds.update(dict.fromkeys(names.split("|"), kind))
    return kinds


@cache
def templates() -> dict[tuple[str, str], str]:
    """Return the standalone questions by what is asked and the kind of the subject."""
    questions = {}
    for attribute, kind, question in read_rows(
        "asking/thread/data/question_templates.tsv", 3
    ):
        questions[attribute, kind] = question
    return questions


def longest_at(
    phrases: Sequence[Phrase], words: Sequence[str], start: int
) -> Phrase | None:
    """Return the longest of the phrases (longest first) that stands at a place of the words."""
    for phrase in phrases:
        end = start + len(phrase.words)
        if tuple(words[start:end]) != phrase.words:
            continue
        # A question, or a part of it, ends here, or a verb follows.
        is_end = end == len(words) or not words[end].isalnum()
        if not phrase.at_end or is_end:
            return phrase
        if any(after.words == (words[end],) for after in edge_words("after")):
            return phrase
    return None


def contains(words: Sequence[str], phrase: Phrase) -> bool:
    """Whether the words of a phrase stand somewhere in a row."""
    return any(longest_at((phrase,), words, start) for start in range(len(words)))


def _phrases(kind: str, value: str, cell: str) -> Iterator[Phrase]:
    for pattern in cell.split("|"):
        for words in phrases_of(pattern.rstrip(AT_END)):
            if words:
                yield Phrase(words, kind, value, pattern.endswith(AT_END))


def _longest_first(phrases: list[Phrase]) -> tuple[Phrase, ...]:
    return tuple(sorted(phrases, key=lambda phrase: -len(phrase.words)))


_DEMONSTRATIVES = word_list("demonstrative")
_DO = word_list("do")

_AFTER_REFERENCES = word_list("mark after reference")
"""Kinds of marks that may follow "that" and "this" as pronouns; before others they only point."""

_FILLERS_AFTER_REFERENCES = word_list("filler after reference")


class Word(NamedTuple):
    """A word, a reference or a stretch of time, and where it stands in the text.

    `item` is the number of the line that a reference names, 0 if it names none.
    """

    text: str
    start: int
    end: int
    item: int = 0


class FollowUpWords(NamedTuple):
    """A question as typed and its words. `all_words` has those at the edges as well."""

    text: str
    clause: Clause
    words: tuple[Word, ...]
    all_words: tuple[str, ...]

    @property
    def has_lead(self) -> bool:
        """Whether it begins with "and", "what about" or the like."""
        return len(self.words) > 0 and self.all_words[0] != self.words[0].text

    @property
    def key(self) -> tuple[str, ...]:
        """The words as the tables have them."""
        return tuple(word.text for word in self.words)

    @property
    def typed(self) -> tuple[str, ...]:
        """The words as they were typed; of nothing but words at the edges, all."""
        return tuple(self.core.strip(" ?!.").split())

    @property
    def core(self) -> str:
        """The question without the words at its edges that say nothing."""
        start = self.words[0].start if self.words else 0
        end = self.words[-1].end if self.words else len(self.text)
        ending = self.text[end:].strip()
        is_end_kept = ending in {"?", "!", "."}
        return (
            self.text[start:].strip() if is_end_kept else self.text[start:end].strip()
        )

    @property
    def periods(self) -> tuple[str, ...]:
        """The stretches of time, in the words of the question."""
        return tuple(
            self.text[word.start : word.end]
            for word in self.words
            if word.text == PERIOD
        )

    @property
    def references(self) -> tuple[Word, ...]:
        """The words that refer to the last question or its answer."""
        return tuple(word for word in self.words if word.text == SUBJECT)


def read_words(question: str, vocabulary: Vocabulary, today: date) -> FollowUpWords:
    """Return the words of a question."""
    text = plain(question.strip())
    clause = mark(text, vocabulary, today)
    all_words = tuple(word for word in _words(clause) if word.text.isalnum())
    texts = tuple(word.text for word in all_words)
    # Words at the start and the end that say nothing are left out.
    start, end = 0, len(texts)
    while phrase := longest_at(edge_words("start"), texts[start:], 0):
        if len(phrase.words) == end - start:  # "And now?" says something.
            break
        start += len(phrase.words)
    while phrase := _phrase_at_end(texts[start:end]):
        end -= len(phrase.words)
    return FollowUpWords(text, clause, all_words[start:end], texts)


def _phrase_at_end(texts: tuple[str, ...]) -> Phrase | None:
    for phrase in edge_words("end"):
        if texts[-len(phrase.words) :] == phrase.words and len(texts) > len(
            phrase.words
        ):
            return phrase
    return None


def _words(clause: Clause) -> Iterator[Word]:
    """Yield the words, references and stretches of time; signs are kept, as ends of phrases."""
    tokens = clause.tokens
    texts = [token.text for token in tokens]
    spans = {span.start: span.end for span in clause.of("span")}
    place = 0
    while place < len(tokens):
        if place in spans:
            end = spans[place]
            yield _word(PERIOD, tokens[place:end])
        else:
            phrase = longest_at(references(), texts, place)
            end = place + (len(phrase.words) if phrase else 1)
            yield from _phrase_words(phrase, clause, place, end)
        place = end


def _phrase_words(
    phrase: Phrase | None, clause: Clause, place: int, end: int
) -> Iterator[Word]:
    """Yield one word for a reference, and those of any other phrase, or the word that is none."""
    tokens = clause.tokens[place:end]
    if phrase is not None and phrase.kind == "time":
        for token in tokens[:-1]:
            yield _word(token.text, [token])
        last = tokens[-1]
        yield _word(SUBJECT if last.text in POINTING_WORDS else last.text, [last])
    elif (
        phrase is None
        or phrase.kind in {"expletive", "part"}
        or _points(phrase, clause, end)
    ):
        for token in tokens:
            yield _word(token.text, [token])
    elif phrase.kind == "occasion":
        yield _word(PERIOD, tokens)
    else:
        item = int(phrase.value) if phrase.kind == "item" else 0
        yield _word(SUBJECT, tokens)._replace(item=item)


def _word(text: str, tokens: Sequence[Token]) -> Word:
    return Word(text, tokens[0].start, tokens[-1].end)


def _points(phrase: Phrase, clause: Clause, end: int) -> bool:
    """Whether "that" only points to the noun after it, and is no reference by itself."""
    if len(phrase.words) > 1 or phrase.words[0] not in _DEMONSTRATIVES:
        return False
    place = end - 1
    following = None
    for part in clause.marks:
        if part.start <= place < part.end and part.value == "patient":
            return True
        if part.start == end and following is None:
            following = part
    if following is None or following.kind in _AFTER_REFERENCES:
        return False
    if following.kind == "filler" and following.value in _FILLERS_AFTER_REFERENCES:
        return False
    is_participle = following.text.endswith("ed") or "still" in following.text
    if following.kind == "state" and is_participle:
        return False
    last_word = 0
    for position, token in enumerate(clause.tokens, start=1):
        if token.text not in SEPARATORS:
            last_word = position
    is_after_do = place > 0 and clause.tokens[place - 1].text in _DO
    return not (is_after_do and following.end >= last_word)
