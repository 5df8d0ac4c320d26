"""The words of a follow-up question, with one word for each reference and each stretch of time."""

from collections.abc import Iterator, Sequence
from datetime import date
from typing import NamedTuple

from archqa.asking.thread.phrases import (
    PERIOD,
    POINTING_WORDS,
    SUBJECT,
    Phrase,
    edge_words,
    longest_at,
    references,
)
from archqa.query.questions.everyday.clause import Clause, Mark
from archqa.query.questions.everyday.phrases import mark
from archqa.query.questions.everyday.vocabulary import Vocabulary
from archqa.query.questions.lexer import Token, plain

_DEMONSTRATIVES = frozenset({"that", "this", "these", "those"})
_DO = frozenset({"do", "does", "did", "will"})

_AFTER_REFERENCES = frozenset(
    {"sign", "span", "verb", "flag", "judgement", "still", "link", "join", "ever", "summary"}
    | {"trend", "susceptibility", "outcome", "test", "field"}
)
"""Kinds of marks that may follow "that" and "this" as pronouns; before others they only point."""

_FILLERS_AFTER_REFERENCES = frozenset({"auxiliary", "preposition", "polite", "record", "pronoun"})


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
        words = self.core.strip(" ?!.").split()
        return tuple(words)

    @property
    def core(self) -> str:
        """The question without the words at its edges that say nothing."""
        start = self.words[0].start if self.words else 0
        end = self.words[-1].end if self.words else len(self.text)
        ending = self.text[end:].strip()
        is_end_kept = ending in {"?", "!", "."}
        return self.text[start:].strip() if is_end_kept else self.text[start:end].strip()

    @property
    def periods(self) -> tuple[str, ...]:
        """The stretches of time, in the words of the question."""
        return tuple(self.text[word.start : word.end] for word in self.words if word.text == PERIOD)

    @property
    def references(self) -> tuple[Word, ...]:
        """The words that refer to the last question or its answer."""
        return tuple(word for word in self.words if word.text == SUBJECT)


def read_words(question: str, vocabulary: Vocabulary, today: date) -> FollowUpWords:
    """Return the words of a question."""
    text = plain(question.strip())
    clause = mark(text, vocabulary, today)
    all_words = tuple(word for word in _words(clause) if word.text.isalnum())
    words = _without_edges(all_words)
    return FollowUpWords(text, clause, words, tuple(word.text for word in all_words))


def _words(clause: Clause) -> Iterator[Word]:
    """Yield the words, references and stretches of time; signs are kept, as ends of phrases."""
    tokens = clause.tokens
    texts = [token.text for token in tokens]
    spans = {each.start: each.end for each in clause.of("span")}
    place = 0
    while place < len(tokens):
        if place in spans:
            end = spans[place]
            yield _word(PERIOD, tokens[place:end])
        else:
            phrase = longest_at(references(), texts, place)
            end = place + (len(phrase.words) if phrase else 1)
            yield from _reference(phrase, clause, place, end)
        place = end


def _reference(phrase: Phrase | None, clause: Clause, place: int, end: int) -> Iterator[Word]:
    tokens = clause.tokens[place:end]
    if phrase is not None and phrase.kind == "time":
        yield from (_word(token.text, [token]) for token in tokens[:-1])
        last = tokens[-1]
        yield _word(SUBJECT if last.text in POINTING_WORDS else last.text, [last])
    elif phrase is None or phrase.kind in {"expletive", "part"} or _points(phrase, clause, end):
        yield from (_word(token.text, [token]) for token in tokens)
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
    own = next(mark for mark in clause.marks if mark.start <= end - 1 < mark.end)
    if own.value == "patient":
        return True
    following = next((mark for mark in clause.marks if mark.start == end), None)
    if following is None or _may_follow_reference(following):
        return False
    place = end - 1
    is_after_do = place > 0 and clause.tokens[place - 1].text in _DO
    return not (is_after_do and following.end >= _last_word(clause))


def _may_follow_reference(each: Mark) -> bool:
    if each.kind == "filler":
        return each.value in _FILLERS_AFTER_REFERENCES
    is_participle = each.kind == "state" and (each.text.endswith("ed") or "still" in each.text)
    return is_participle or each.kind in _AFTER_REFERENCES


def _last_word(clause: Clause) -> int:
    """Where the last word ends, signs left out."""
    words = [place for place, token in enumerate(clause.tokens) if not token.is_sign]
    return words[-1] + 1 if words else 0


def _without_edges(words: tuple[Word, ...]) -> tuple[Word, ...]:
    """Return the words without those at the start and the end that say nothing."""
    while phrase := longest_at(edge_words("start"), [word.text for word in words], 0):
        if len(phrase.words) == len(words):  # "And now?" says something.
            break
        words = words[len(phrase.words) :]
    while phrase := _phrase_at_end(words):
        words = words[: -len(phrase.words)]
    return words


def _phrase_at_end(words: tuple[Word, ...]) -> Phrase | None:
    texts = tuple(word.text for word in words)
    for phrase in edge_words("end"):
        if texts[-len(phrase.words) :] == phrase.words and len(texts) > len(phrase.words):
            return phrase
    return None
