"""The last question with another time, another subject, or another word of asking."""

import re
from collections.abc import Iterable
from typing import NamedTuple

from archqa.asking.thread.follow_up_words import FollowUpWords
from archqa.asking.thread.phrases import Phrase
from archqa.asking.thread.subjects import AskedBefore, Subject
from archqa.query.questions.everyday.clause import Mark

_BEFORE_NAME = re.compile(r"\b(?:an?|the|his|her|my|their) $", re.IGNORECASE)
_INDEFINITE = re.compile(r"\ban? $", re.IGNORECASE)
_PAST = frozenset({"was", "were", "did", "had"})
_PRESENT = frozenset({"is", "are", "am", "do", "does", "has", "have"})
_PAST_OF = {"is": "was", "are": "were", "am": "was", "does": "did", "do": "did"}
_UNTIL_NOW = frozenset({"since", "this", "today", "now"})
_WH_FIELDS = frozenset({"reason", "time", "place"})
_WH_WORDS = frozenset({"how_long", "how_often", "how_much", "how_high"})
_ASKING = {
    "when": "When",
    "why": "Why",
    "where": "Where",
    "how_long": "How long",
    "count": "How many times",
    "frequency": "How many times",
}
"""What may be asked of a yes/no question by setting these words before it."""


class _Stretch(NamedTuple):
    """A stretch of characters and what takes its place."""

    start: int
    end: int
    text: str = ""


def at_time(asked: AskedBefore, period: str, last_of: Subject | None = None) -> str:
    """Return the question about another time, such as "in 2020" or "before 2024-08-29".

    Of a subject `last_of`, its last value is asked for.
    """
    stretches = [_stretch(asked, each) for each in asked.clause.of("span")]
    stretches += [_stretch(asked, each) for each in _words_for_now(asked)]
    stretches += _in_the_past(asked, period)
    if last_of is not None:
        stretches.append(_Stretch(last_of.start, last_of.start, "last "))
    return _ended(_changed(asked, stretches), period)


def _in_the_past(asked: AskedBefore, period: str) -> list[_Stretch]:
    """The verb that stands in the present, in the past: "Is she on it" was it, in 2020."""
    if period.split()[0] in _UNTIL_NOW:
        return []
    for token in asked.clause.tokens:
        if token.text in _PAST_OF and asked.text[token.start : token.end].lower() == token.text:
            past = _PAST_OF[token.text]
            is_first = asked.text[token.start].isupper()
            return [_Stretch(token.start, token.end, past.capitalize() if is_first else past)]
    return []


def _words_for_now(asked: AskedBefore) -> list[Mark]:
    """ "Currently" and "now", which contradict another time."""
    marks = asked.clause.of("state", "current")
    return [each for each in marks if not set(each.text.split()) & {"active", "open", "still"}]


def of_subject(asked: AskedBefore, name: str, *, with_article: bool) -> str:
    """Return the question about another subject; an own article takes the place of the former."""
    first, last = asked.subjects[0], asked.subjects[-1]
    former = _BEFORE_NAME if with_article else _INDEFINITE
    before = former.search(asked.text[: first.start])
    start = before.start() if before else first.start
    if with_article and not before:  # "Last A1c" has no place for "her" of "her glucose".
        name = name.partition(" ")[2] or name
    return _tidy(asked.text[:start] + name + asked.text[last.end :])


def asked_why_or_when(asked: AskedBefore, attribute: str) -> str | None:
    """Return a question as "Why …" or "When …", if it is one of yes or no, or begins with "when".

    None where that would be no good English, as "When is he on metformin?".
    """
    if attribute not in _ASKING or not asked.words:
        return None
    if attribute == "frequency" and any("drug" in each.kinds for each in asked.subjects):
        return None
    opening = _ASKING[attribute]
    first = asked.clause.tokens[0].text
    if first in _PAST or (first in _PRESENT and not asked.subjects):
        return _tidy(f"{opening} {_lower_first(_without_ever(asked))}")
    return _with_other_opening(asked, opening)


def _with_other_opening(asked: AskedBefore, opening: str) -> str | None:
    """Return "When was he given it?" as "Why was he given it?"; None for another question."""
    first, *rest = asked.clause.marks
    is_wh = first.kind == "field" and first.value in _WH_FIELDS
    if not is_wh and not (first.kind == "wh" and first.value in _WH_WORDS):
        return None
    verbs = {"verb", "class", "state", "concept"}
    has_verb = any(each.kind in verbs and _is_said_of_somebody(asked, each) for each in rest)
    auxiliary = asked.clause.tokens[first.end].text if first.end < len(asked.clause.tokens) else ""
    if not has_verb or auxiliary not in _PAST | _PRESENT:
        return None
    return _tidy(opening + asked.text[asked.clause.tokens[first.end - 1].end :])


def _is_said_of_somebody(asked: AskedBefore, each: Mark) -> bool:
    """Whether a mark is a verb, and no thing that the question names."""
    start = asked.clause.tokens[each.start].start
    return all(not subject.start <= start < subject.end for subject in asked.subjects)


def with_part_of(words: FollowUpWords, part: Phrase, place: int, name: str) -> str:
    """Return a follow-up with the name of the thing that a part is of: "the dose of metformin"."""
    end = words.clause.tokens[place + len(part.words) - 1].end
    lead = words.words[0].start
    return _sentence(f"{words.text[lead:end]} of {name}{words.text[end:]}")


def with_name(words: FollowUpWords, name: str) -> str:
    """Return a follow-up with a name in place of its first reference."""
    reference = words.references[0]
    start = reference.start - words.words[0].start
    end = reference.end - words.words[0].start
    core = words.core
    return _sentence(core[:start] + name + core[end:])


def _without_ever(asked: AskedBefore) -> str:
    return _changed(asked, (_stretch(asked, each) for each in asked.clause.of("ever", "ever")))


def _stretch(asked: AskedBefore, each: Mark) -> _Stretch:
    tokens = asked.clause.tokens
    return _Stretch(tokens[each.start].start, tokens[each.end - 1].end)


def _changed(asked: AskedBefore, stretches: Iterable[_Stretch]) -> str:
    text = asked.text
    for stretch in sorted(stretches, reverse=True):
        text = text[: stretch.start] + stretch.text + text[stretch.end :]
    return text


def _ended(text: str, ending: str) -> str:
    """Return a question with words at its end, before the question mark."""
    body = text.rstrip(" ?.!,")
    return _tidy(f"{body} {ending}?")


def _sentence(text: str) -> str:
    text = _tidy(text)
    text = text[:1].upper() + text[1:]
    return text if text[-1:] in {"?", ".", "!"} else f"{text}?"


def _tidy(text: str) -> str:
    return re.sub(r" +([?.!,])", r"\1", " ".join(text.split()))


def _lower_first(text: str) -> str:
    return text[:1].lower() + text[1:]
