"""Reads a follow-up question: complete by itself, understood by the last question, or unclear.

Nothing is guessed: a reference that may mean several things is asked back.
"""

from collections.abc import Callable
from datetime import date
from typing import NamedTuple

from archqa.asking.thread import Thread
from archqa.asking.thread.changed_question import (
    TimeLimit,
    asked_before_or_after,
    asked_in_period,
    asked_why_or_when,
    has_own_subject,
    is_fragment,
    limit_of_answer,
    named_subject,
    names_subject_before_reference,
    of_subject,
    relation_in,
    says_nothing,
    with_dates,
    with_name,
    with_part_of,
)
from archqa.asking.thread.follow_up_words import (
    POINTING_WORDS,
    SUBJECT,
    FollowUpWords,
    Phrase,
    contains,
    longest_at,
    read_words,
    references,
    subject_kind_phrases,
    whole_phrases,
)
from archqa.asking.thread.subjects import (
    AskedBefore,
    ChosenSubject,
    SeveralSubjects,
    choose_subject,
    choose_template_subject,
    read_asked,
)
from archqa.query.questions.everyday import (
    Declined,
    Understood,
    Vocabulary,
    read_question,
)


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


def resolve(
    question: str, thread: Thread, vocabulary: Vocabulary, today: date
) -> FollowUp:
    """Return how a question is understood after the turns of a thread.

    `vocabulary` is of the patient; `today` says which "March" is meant.
    """
    words = read_words(question, vocabulary, today)
    # The phrase that the whole follow-up is, with or without the words at its edges.
    phrase = whole_phrases().get(words.all_words) or whole_phrases().get(words.key)
    if phrase is not None and phrase.kind == "nothing":
        return NoQuestion()
    if thread.last is None:
        if phrase is None or phrase.kind in {"relative", "position"}:
            return Standalone(question)
        return Unclear(words.all_words, NOTHING_BEFORE)
    if phrase is not None and phrase.kind == "evidence":
        return ShowEvidence(is_doubt=phrase.value == "sure")
    asked = read_asked(thread.last, vocabulary, today)
    reading = _Reading(words, phrase, asked, vocabulary, today)
    for rule in _RULES:
        follow_up = rule(reading)
        if follow_up is not None:
            return follow_up
    return Standalone(question)


def _time(reading: _Reading) -> FollowUp | None:
    """In 2020; before that; since then."""
    phrase, asked = reading.phrase, reading.asked
    if phrase is None or phrase.kind not in {"period", "before", "after"}:
        return None
    if phrase.kind != "period":
        return _limited(reading, phrase.kind, phrase.value)
    if phrase.value == "value":
        # "What was it in 2020" asks for the value of the subject of the last question.
        chosen = choose_template_subject(asked, "value", 0)
        if isinstance(chosen, ChosenSubject) and "measurement" in chosen.subject.kinds:
            asked = (
                _reread(reading, chosen.question)
                if chosen.question is not None
                else asked
            )
    return Standalone(asked_in_period(asked, reading.words.periods[0]))


def _limited(reading: _Reading, relation: str, which: str) -> FollowUp:
    """The last question before, or after, what its answer found."""
    limit = limit_of_answer(reading.asked, relation, reading.today)
    if limit is None:
        return Unclear(reading.words.typed, NO_DATE)
    turn = reading.asked.turn
    changed = asked_before_or_after(reading.asked, limit, which)
    return Standalone(changed, limit, turn.without_limit or turn.understood)


def _reread(reading: _Reading, question: str) -> AskedBefore:
    turn = reading.asked.turn.model_copy(update={"understood": question})
    return read_asked(turn, reading.vocabulary, reading.today)


def _attribute(reading: _Reading) -> FollowUp | None:
    """What dose; since when; why; the highest."""
    phrase, words = reading.phrase, reading.words
    if phrase is None or phrase.kind not in {"attribute", "position"}:
        return None
    item = 0
    is_of_event = True
    if words.references:
        reference = words.references[0]
        item = reference.item
        # "That" is what happened as a whole, as in "why was that".
        is_pronoun = (
            words.text[reference.start : reference.end].lower() in POINTING_WORDS
        )
        is_short = len(words.key) <= LONGEST_ON_EVENTS
        is_of_event = is_pronoun and is_short and words.key[-1] == SUBJECT
    if is_of_event:
        changed = asked_why_or_when(reading.asked, phrase.value)
        if changed:
            return Standalone(changed)
    chosen = choose_template_subject(reading.asked, phrase.value, item)
    if isinstance(chosen, SeveralSubjects):
        return _which_of(words, chosen)
    if chosen is None:
        return _unclear(words)
    if chosen.question is not None:
        return Standalone(chosen.question)
    if words.references:
        return Standalone(with_name(words, chosen.subject.phrase))
    return _unclear(words)


def _relative(reading: _Reading) -> FollowUp | None:
    """And her mother?"""
    phrase = reading.phrase
    if phrase is None or phrase.kind != "relative":
        return None
    attribute = "family" if phrase.value == "family" else "relative"
    relative = reading.words.core.rstrip("?!. ")
    chosen = choose_template_subject(reading.asked, attribute, 0, relative=relative)
    if not isinstance(chosen, ChosenSubject) or chosen.question is None:
        return _unclear(reading.words)
    return Standalone(chosen.question)


def _other_subject(reading: _Reading) -> FollowUp | None:
    """What about potassium?"""
    asked = reading.asked
    named = named_subject(reading.words, asked)
    if named is None:
        return None
    if asked.turn.without_limit:
        asked = _reread(reading, asked.turn.without_limit)
    changed = of_subject(asked, named.text, with_article=named.has_article)
    if named.period:
        changed = asked_in_period(_reread(reading, changed), named.period)
    return Standalone(changed)


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
        # What the part is called in the table of templates: "the dosage" is the dose.
        known = whole_phrases().get(part.words)
        chosen = choose_template_subject(
            reading.asked, known.value if known else "result", 0
        )
        if isinstance(chosen, SeveralSubjects):
            return _which_of(words, chosen)
        if chosen is not None:
            return Standalone(with_part_of(words, part, place, chosen.subject.phrase))
    return None


def _reference(reading: _Reading) -> FollowUp | None:
    """When was it stopped? A reference to what the question itself names is left."""
    words = reading.words
    if not words.references or names_subject_before_reference(words):
        return None
    phrases = [
        phrase for phrase in subject_kind_phrases() if contains(words.key, phrase)
    ]
    longer = [phrase for phrase in phrases if len(phrase.words) > 1]
    kinds = frozenset(phrase.value for phrase in longer or phrases)
    reference = words.references[0]
    chosen = choose_subject(reading.asked, kinds, reference.item)
    if isinstance(chosen, SeveralSubjects):
        # Who prescribed them: all, if they are few; "it" of several is asked back.
        last_word = words.text[reference.start : reference.end].lower().split()[-1]
        is_choice = words.key[:2] in {("which", "of"), ("what", "of")}
        is_few = len(chosen.names) <= MOST_AT_ONCE
        if last_word not in PLURAL_WORDS or is_choice or not is_few:
            return _which_of(words, chosen)
        return Standalone(with_name(words, _join_names(chosen, "and")))
    if chosen is None or words.key == (SUBJECT,):
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


def _join_names(several: SeveralSubjects, word: str) -> str:
    *names, last = several.names
    return f"{', '.join(names)} {word} {last}"


def _which_of(words: FollowUpWords, several: SeveralSubjects) -> Unclear:
    message = f"Which is meant: {_join_names(several, 'or')}?"
    return Unclear(words.typed, message, is_ambiguous=True)


def _unclear(words: FollowUpWords) -> Unclear:
    quoted = " ".join(words.typed)
    message = (
        f"To what does “{quoted}” refer?\nAsk a whole question, or name what is meant."
    )
    return Unclear(words.typed, message)


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
