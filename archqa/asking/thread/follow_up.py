"""Reads a follow-up question: complete by itself, understood by the last question, or unclear.

Nothing is guessed: a reference that may mean several things is asked back.
"""

from collections.abc import Callable
from datetime import date
from typing import NamedTuple

from archqa.asking.thread.changed_question import (
    asked_why_or_when,
    of_subject,
    with_name,
    with_part_of,
)
from archqa.asking.thread.chosen_subject import (
    Chosen,
    ChosenSubject,
    SeveralSubjects,
    choose_subject,
    choose_template_subject,
)
from archqa.asking.thread.follow_up_words import FollowUpWords, read_words
from archqa.asking.thread.new_subject import (
    has_own_subject,
    is_fragment,
    named_subject,
    names_subject_before_reference,
    says_nothing,
)
from archqa.asking.thread.other_time import (
    TimeLimit,
    asked_before_or_after,
    asked_in_period,
    limit_of_answer,
    relation_in,
    with_dates,
)
from archqa.asking.thread.phrases import (
    POINTING_WORDS,
    SUBJECT,
    Phrase,
    contains,
    longest_at,
    references,
    subject_kind_phrases,
    whole_phrases,
)
from archqa.asking.thread.subjects import AskedBefore, read_asked
from archqa.asking.thread.turns import Thread
from archqa.query.questions.everyday import Declined, Understood, Vocabulary, read_question


class Standalone(NamedTuple):
    """A question that stands by itself; as it was typed, if it did so before.

    `limit` is the time of "before that", and `without_limit` the question without it.
    """

    question: str
    limit: TimeLimit | None = None
    without_limit: str = ""


class ShowEvidence(NamedTuple):
    """The evidence of the last answer is asked for; `is_doubt`: whether it is sure."""

    is_doubt: bool = False


class NoQuestion(NamedTuple):
    """Nothing is asked: "thanks"."""


class Unclear(NamedTuple):
    """It is not clear what the words refer to; the message asks back."""

    words: tuple[str, ...]
    message: str
    is_ambiguous: bool = False
    """Whether it may mean several things that the last question and answer name."""


FollowUp = Standalone | ShowEvidence | NoQuestion | Unclear

PLURAL_WORDS = frozenset({"them", "these", "those"})
LONGEST_ON_EVENTS = 4
"""Words of a question on an event: "how long was that"."""

MOST_AT_ONCE = 3
"""The things that one question is asked of."""

_Rule = Callable[["_Reading"], FollowUp | None]

NO_DATE = "The last answer has no date, so that it is not clear before or after what.\nName a date."
NOTHING_BEFORE = "There is no question before this one.\nAsk a whole question."


class _Reading(NamedTuple):
    """A follow-up and what it follows."""

    words: FollowUpWords
    phrase: Phrase | None
    asked: AskedBefore
    vocabulary: Vocabulary
    today: date


def resolve(question: str, thread: Thread, vocabulary: Vocabulary, today: date) -> FollowUp:
    """Return how a question is understood after the turns of a thread.

    `vocabulary` is of the patient; `today` says which "March" is meant.
    """
    words = read_words(question, vocabulary, today)
    phrase = _known_phrase(words)
    if phrase is not None and phrase.kind == "nothing":
        return NoQuestion()
    if thread.last is None:
        return _without_thread(question, words, phrase)
    if phrase is not None and phrase.kind == "evidence":
        return ShowEvidence(is_doubt=phrase.value == "sure")
    asked = read_asked(thread.last, vocabulary, today)
    reading = _Reading(words, phrase, asked, vocabulary, today)
    for rule in _RULES:
        follow_up = rule(reading)
        if follow_up is not None:
            return follow_up
    return Standalone(question)


def _known_phrase(words: FollowUpWords) -> Phrase | None:
    """The phrase that the whole follow-up is, with or without the words at its edges."""
    known = whole_phrases()
    return known.get(words.all_words) or known.get(words.key)


def _without_thread(question: str, words: FollowUpWords, phrase: Phrase | None) -> FollowUp:
    if phrase is None or phrase.kind in {"relative", "position"}:
        return Standalone(question)
    return Unclear(words.all_words, NOTHING_BEFORE)


def _time(reading: _Reading) -> FollowUp | None:
    """In 2020; before that; since then."""
    phrase, words = reading.phrase, reading.words
    if phrase is None or phrase.kind not in {"period", "before", "after"}:
        return None
    if phrase.kind == "period":
        return Standalone(asked_in_period(_asked_for(reading, phrase.value), words.periods[0]))
    return _limited(reading, phrase.kind, phrase.value)


def _limited(reading: _Reading, relation: str, which: str) -> FollowUp:
    """The last question before, or after, what its answer found."""
    limit = limit_of_answer(reading.asked, relation, reading.today)
    if limit is None:
        return Unclear(reading.words.typed, NO_DATE)
    turn = reading.asked.turn
    changed = asked_before_or_after(reading.asked, limit, which)
    return Standalone(changed, limit, turn.without_limit or turn.understood)


def _asked_for(reading: _Reading, what: str) -> AskedBefore:
    """The last question, or the one for the value of its subject: "what was it in 2020"."""
    chosen = choose_template_subject(reading.asked, what, 0) if what == "value" else None
    is_value = isinstance(chosen, ChosenSubject) and "measurement" in chosen.subject.kinds
    if not isinstance(chosen, ChosenSubject) or not is_value or chosen.question is None:
        return reading.asked
    return _reread(reading, chosen.question)


def _reread(reading: _Reading, question: str) -> AskedBefore:
    turn = reading.asked.turn.model_copy(update={"understood": question})
    return read_asked(turn, reading.vocabulary, reading.today)


def _attribute(reading: _Reading) -> FollowUp | None:
    """What dose; since when; why; the highest."""
    phrase, asked = reading.phrase, reading.asked
    if phrase is None or phrase.kind not in {"attribute", "position"}:
        return None
    has_reference = bool(reading.words.references)
    if not has_reference or _refers_to_event(reading.words):
        changed = asked_why_or_when(asked, phrase.value)
        if changed:
            return Standalone(changed)
    item = reading.words.references[0].item if has_reference else 0
    chosen = choose_template_subject(asked, phrase.value, item)
    return _with_subject(reading, chosen)


def _refers_to_event(words: FollowUpWords) -> bool:
    """Whether "that" is what happened as a whole, as in "why was that"."""
    reference = words.references[0]
    is_pronoun = words.text[reference.start : reference.end].lower() in POINTING_WORDS
    return is_pronoun and words.key[-1] == SUBJECT and len(words.key) <= LONGEST_ON_EVENTS


def _with_subject(reading: _Reading, chosen: Chosen) -> FollowUp | None:
    """The template of what is asked, with the subject; asked back if there are several or none."""
    if isinstance(chosen, SeveralSubjects):
        return _several(reading.words, chosen)
    if chosen is None:
        return _unclear(reading.words)
    if chosen.question is not None:
        return Standalone(chosen.question)
    if reading.words.references:
        return Standalone(with_name(reading.words, chosen.subject.phrase))
    return _unclear(reading.words)


def _relative(reading: _Reading) -> FollowUp | None:
    """And her mother?"""
    phrase = reading.phrase
    if phrase is None or phrase.kind != "relative":
        return None
    asked = "family" if phrase.value == "family" else "relative"
    relative = reading.words.core.rstrip("?!. ")
    chosen = choose_template_subject(reading.asked, asked, 0, relative=relative)
    if chosen is None or isinstance(chosen, SeveralSubjects) or chosen.question is None:
        return _unclear(reading.words)
    return Standalone(chosen.question)


def _other_subject(reading: _Reading) -> FollowUp | None:
    """What about potassium?"""
    named = named_subject(reading.words, reading.asked)
    if named is None:
        return None
    asked = reading.asked
    if asked.turn.without_limit:
        asked = _reread(reading, asked.turn.without_limit)
    changed = of_subject(asked, named.text, with_article=named.has_article)
    if not named.period:
        return Standalone(changed)
    return Standalone(asked_in_period(_reread(reading, changed), named.period))


def _part(reading: _Reading) -> FollowUp | None:
    """Was the dose changed? Of what the question itself names, nothing is added."""
    words = reading.words
    if words.references or has_own_subject(words):
        return None
    texts = [token.text for token in words.clause.tokens]
    for place in range(len(texts)):
        part = longest_at(references(), texts, place)
        if part is None or part.kind != "part":
            continue
        if texts[place + len(part.words) :][:1] in (["of"], ["for"]):
            continue
        chosen = choose_template_subject(reading.asked, _attribute_of(part), 0)
        if isinstance(chosen, SeveralSubjects):
            return _several(words, chosen)
        if chosen is not None:
            name = chosen.subject.phrase
            return Standalone(with_part_of(words, part, place, name))
    return None


def _attribute_of(part: Phrase) -> str:
    """What a part is called in the table of templates: "the dosage" is the dose."""
    known = whole_phrases().get(part.words)
    return known.value if known else "result"


def _reference(reading: _Reading) -> FollowUp | None:
    """When was it stopped? A reference to what the question itself names is left."""
    words = reading.words
    if not words.references or names_subject_before_reference(words):
        return None
    kinds = [each.value for each in subject_kind_phrases() if contains(words.key, each)]
    if any(len(each.words) > 1 and contains(words.key, each) for each in subject_kind_phrases()):
        specific = [each for each in subject_kind_phrases() if len(each.words) > 1]
        kinds = [each.value for each in specific if contains(words.key, each)]
    chosen = choose_subject(reading.asked, frozenset(kinds), words.references[0].item)
    if isinstance(chosen, SeveralSubjects):
        return _all_or_asked_back(words, chosen)
    if chosen is None:
        return _unclear(words)
    if words.key == (SUBJECT,):
        return _unclear(words)
    return Standalone(with_name(words, chosen.phrase))


def _time_reference(reading: _Reading) -> FollowUp | None:
    """A complete question with "before that" in it; a fragment is the last question."""
    words = reading.words
    relation = relation_in(words)
    if relation is None:
        return None
    if is_fragment(words) and not has_own_subject(words):
        return _limited(reading, relation, "one")
    changed = with_dates(words, reading.asked, reading.today)
    return None if changed is None else Standalone(changed)


def _fragment(reading: _Reading) -> FollowUp | None:
    """Too little to be a question: of what?"""
    words = reading.words
    if has_own_subject(words) or not is_fragment(words):
        return None
    read = read_question(words.text, reading.vocabulary, today=reading.today)
    is_whole = isinstance(read, Understood)
    is_judgement = isinstance(read, Declined) and not says_nothing(words)
    return None if is_whole or is_judgement else _unclear(words)


def _all_or_asked_back(words: FollowUpWords, several: SeveralSubjects) -> FollowUp:
    """Who prescribed them: all, if they are few; "it" of several is asked back."""
    reference = words.references[0]
    typed = words.text[reference.start : reference.end].lower().split()
    is_choice = words.key[:2] in {("which", "of"), ("what", "of")}
    if typed[-1] not in PLURAL_WORDS or is_choice or len(several.names) > MOST_AT_ONCE:
        return _several(words, several)
    *names, last = several.names
    return Standalone(with_name(words, f"{', '.join(names)} and {last}"))


def _several(words: FollowUpWords, several: SeveralSubjects) -> Unclear:
    *names, last = several.names
    listed = f"{', '.join(names)} or {last}"
    return Unclear(words.typed, f"Which is meant: {listed}?", is_ambiguous=True)


def _unclear(words: FollowUpWords) -> Unclear:
    typed = words.typed
    quoted = " ".join(typed)
    message = f"To what does “{quoted}” refer?\nAsk a whole question, or name what is meant."
    return Unclear(typed, message)


_RULES: tuple[_Rule, ...] = (
    _time,
    _attribute,
    _relative,
    _time_reference,
    _other_subject,
    _part,
    _reference,
    _fragment,
)
