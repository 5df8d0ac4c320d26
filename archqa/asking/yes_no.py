"""Whether the evidence says yes or no to a yes/no question.

A wrong yes or no is worse than none: where the polarity of the sentence that answers cannot be
read with good certainty, nothing is said and the sentence speaks for itself.
"""

import re
from collections.abc import Sequence
from enum import StrEnum
from typing import NamedTuple

from archqa.asking.assertions import Assertion, assertions, find_cues
from archqa.asking.question_form import QuestionForm, is_yes_no_question, question_form
from archqa.asking.statement_terms import (
    Relation,
    TermMention,
    body_part_spans,
    body_parts,
    find_term,
    find_terms,
)
from archqa.notes.tokens import stem, stems

__all__ = ["YesNo", "is_yes_no_question", "yes_no_answer"]


class YesNo(StrEnum):
    """How the answer to a yes/no question begins."""

    YES = "Yes"
    NO = "No"
    NOT_STATED = "Not stated"


class _Reading(NamedTuple):
    """What one sentence says of what is asked for; `specific` if only of a kind of it."""

    verdict: YesNo | None
    specific: bool = False


_KIND_ORDER = "SQFHDP"
"""Of several terms in a question, the one of the first kind is asked for, the rest qualify it."""


def yes_no_answer(question: str, evidence: Sequence[str]) -> YesNo | None:
    """Return what the evidence, the best sentence first, says; None if that is not certain.

    NOT_STATED is said where the evidence leaves the matter open or tells it of a relative only.
    """
    if not is_yes_no_question(question):
        return None
    form = question_form(question)
    verdicts = [_verdict(question, form, sentence) for sentence in evidence]
    said = [verdict for verdict in verdicts if verdict is not None]
    if not said or any(verdict is not said[0] for verdict in said):
        return None
    return said[0]


def _verdict(question: str, form: QuestionForm, sentence: str) -> YesNo | None:
    """Return what one sentence says."""
    mentions = find_terms(question)
    if form.asks_cause or form.asks_deed or form.asks_negative:
        return None
    if any(mention.term.kind in "NA" for mention in mentions):
        return _state_verdict(question, mentions, sentence)
    asked = _asked_mentions(mentions)
    if not asked:
        return _literal_verdict(question, form, sentence)
    verdicts = [_term_verdict(mention, question, form, sentence) for mention in asked]
    verdict = _joined(verdicts, form)
    if verdict is YesNo.YES and form.asks_comparison:
        return None
    if _needs_all_words(verdict, asked[0]) and not _all_else_is_said(question, asked, sentence):
        return None
    return verdict


def _needs_all_words(verdict: YesNo | None, asked: TermMention) -> bool:
    """Whether the rest of the question must be said too: what is denied is denied of all its kinds.

    A denied allergy, drug or procedure may be another one than is asked for.
    """
    return verdict is YesNo.YES or asked.term.kind in "QP"


def _asked_mentions(mentions: list[TermMention]) -> list[TermMention]:
    """Return the mentions of the kind that is asked for; each term once."""
    for kind in _KIND_ORDER:
        chosen = {mention.term.name: mention for mention in mentions if mention.term.kind == kind}
        if chosen:
            return list(chosen.values())
    return []


def _joined(verdicts: list[YesNo | None], form: QuestionForm) -> YesNo | None:
    """Return the verdict on several things asked at once ("nausea or vomiting")."""
    if form.is_alternative and YesNo.YES in verdicts:
        return YesNo.YES
    if any(verdict is not verdicts[0] for verdict in verdicts):
        return None
    return verdicts[0]


def _term_verdict(
    asked: TermMention, question: str, form: QuestionForm, sentence: str
) -> YesNo | None:
    """Return what the mentions of a term in a sentence say together."""
    mentions = find_term(asked.term, sentence)
    if asked.relation is Relation.NARROWER:
        mentions = [mention for mention in mentions if _covers(mention, asked, question, sentence)]
    verdicts = {_mention_verdict(mention, asked, question, form, sentence) for mention in mentions}
    verdict = verdicts.pop() if len(verdicts) == 1 else None
    return _reversed(verdict) if asked.relation is Relation.OPPOSITE else verdict


def _reversed(verdict: YesNo | None) -> YesNo | None:
    """Return the verdict on the opposite ("Is she afebrile?")."""
    return {YesNo.YES: YesNo.NO, YesNo.NO: YesNo.YES}.get(verdict) if verdict else None


def _covers(mention: TermMention, asked: TermMention, question: str, sentence: str) -> bool:
    """Whether a mention is the narrower thing that is asked for, or the whole class."""
    if mention.relation is Relation.SAME:
        return True
    return _is_written_alike(mention, asked, question, sentence)


def _is_written_alike(
    mention: TermMention, asked: TermMention, question: str, sentence: str
) -> bool:
    written = question[asked.start : asked.end].lower()
    return stem(written) == stem(sentence[mention.start : mention.end].lower())


def _mention_verdict(
    mention: TermMention, asked: TermMention, question: str, form: QuestionForm, sentence: str
) -> YesNo | None:
    verdict = _assertion_verdict(assertions(sentence, mention.start, mention.end), form)
    if mention.relation is Relation.OPPOSITE:
        verdict = YesNo.NO if verdict is YesNo.YES else None
    is_class = mention.relation is Relation.SAME and not _is_written_alike(
        mention, asked, question, sentence
    )
    if asked.relation is Relation.NARROWER and is_class:
        verdict = verdict if verdict is YesNo.NO else None
    if verdict is YesNo.NO and _is_narrower(mention, asked, question, sentence):
        return None
    return verdict


def _is_narrower(mention: TermMention, asked: TermMention, question: str, sentence: str) -> bool:
    """Whether what is denied is only a part of what is asked: a kind, another site or side."""
    if mention.relation is Relation.NARROWER and asked.relation is not Relation.NARROWER:
        return True
    asked_parts = body_parts(question)
    said_parts = body_parts(sentence)
    if {"left", "right"} & asked_parts and not {"left", "right"} & asked_parts <= said_parts:
        return bool({"left", "right"} & said_parts)
    if asked_parts:
        return bool(said_parts) and not asked_parts & said_parts and not _is_list(sentence)
    return _has_site(mention, sentence)


def _has_site(mention: TermMention, sentence: str) -> bool:
    """Whether a part of the body stands directly before the mention or after "in", "of", "over"."""
    for start, end in body_part_spans(sentence):
        if re.fullmatch(r"[\s-]*", sentence[end : mention.start]) and end <= mention.start:
            return True
        between = sentence[mention.end : start]
        if mention.end <= start and re.fullmatch(
            r"\s+(?:in|of|over|at|to|from|on)\s+(?:the |his |her |either |both )?", between
        ):
            return True
    return False


def _is_list(sentence: str) -> bool:
    return sentence.count(",") > 1


def _assertion_verdict(said: frozenset[Assertion], form: QuestionForm) -> YesNo | None:
    """Return what the assertions of a mention answer."""
    if (Assertion.FAMILY in said) != form.asks_family:
        return _other_person_verdict(said, form)
    if form.asks_permission and said & {Assertion.ALLOWED, Assertion.ABSENT}:
        return _permission_verdict(said)
    if said & {Assertion.PLANNED, Assertion.LIKELY}:
        return _permission_verdict(said) if form.asks_permission else None
    if Assertion.OPEN in said:
        return None if Assertion.ABSENT in said else YesNo.NOT_STATED
    if Assertion.ENDED in said:
        return _ended_verdict(said, form)
    if form.asks_permission:
        return _permission_verdict(said)
    if form.asks_ended:
        return YesNo.NO if Assertion.CONTINUES in said else None
    if Assertion.ABSENT in said:
        return YesNo.NO
    if Assertion.PAST in said:
        return None if form.asks_now else YesNo.YES
    return YesNo.YES


def _other_person_verdict(said: frozenset[Assertion], form: QuestionForm) -> YesNo | None:
    """Return the verdict where a relative is asked for or told of, and not both."""
    if form.asks_family or Assertion.ABSENT in said:
        return None
    return YesNo.NOT_STATED


def _ended_verdict(said: frozenset[Assertion], form: QuestionForm) -> YesNo | None:
    if Assertion.ABSENT in said:
        return None
    if form.asks_ended:
        return YesNo.YES
    return YesNo.NO if form.asks_now else None


def _permission_verdict(said: frozenset[Assertion]) -> YesNo | None:
    if Assertion.ABSENT in said:
        return YesNo.NO
    if Assertion.ALLOWED in said and Assertion.PLANNED not in said:
        return YesNo.YES
    return None


_NORMAL = {Relation.SAME: True, Relation.OPPOSITE: False, Relation.NARROWER: True}


def _state_verdict(question: str, mentions: list[TermMention], sentence: str) -> YesNo | None:
    """Return the verdict on "Is X normal?" and "Anything wrong with X?"."""
    asked = next(mention for mention in mentions if mention.term.kind in "NA")
    if not _all_else_is_said(question, [asked], sentence):
        return None
    is_opposite = asked.relation is Relation.OPPOSITE
    found: set[YesNo | None] = set()
    for mention in find_term(asked.term, sentence):
        said = assertions(sentence, mention.start, mention.end)
        is_same = mention.relation is not Relation.OPPOSITE
        if said == {Assertion.PRESENT}:
            found.add(YesNo.YES if is_same else YesNo.NO)
        elif said == {Assertion.ABSENT} and is_same:
            found.add(YesNo.NO)
        else:
            found.add(None)
    verdict = found.pop() if len(found) == 1 else None
    return _reversed(verdict) if is_opposite else verdict


_IGNORED = frozenset(
    """sign evidence trouble problem show find found reveal recent noticed notice complain symptom
    complaint visit stay admission episode lately history prior past ever previous previously
    currently current right left sort kind type bit little guy kid child boy girl lady man woman
    lot sure actually really signs experienc suffer report call known medical diagnos use using
    take taking run running develop act up home""".split()
)


def _all_else_is_said(question: str, asked: list[TermMention], sentence: str) -> bool:
    """Whether a sentence also names whatever else of the question could tell it from another."""
    others = [
        mention
        for mention in find_terms(question)
        if mention.term.name not in {each.term.name for each in asked}
    ]
    if not all(find_term(mention.term, sentence) for mention in others):
        return False
    spans = [(mention.start, mention.end) for mention in [*asked, *others]]
    if not body_parts(_without(question, spans)) <= body_parts(sentence):
        return False
    spans += body_part_spans(question)
    said = set(stems(sentence))
    return all(word in said for word in _content_stems(_without(question, spans)))


def _without(text: str, spans: list[tuple[int, int]]) -> str:
    characters = list(text)
    for start, end in spans:
        characters[start:end] = " " * (end - start)
    return "".join(characters)


def _content_stems(text: str) -> tuple[str, ...]:
    return tuple(word for word in stems(text) if word not in _IGNORED)


def _literal_verdict(question: str, form: QuestionForm, sentence: str) -> YesNo | None:
    """Return the verdict on words that no list has, as the sentence repeats them."""
    asked = set(_content_stems(_without(question, body_part_spans(question))))
    if not asked:
        return None
    verdicts: dict[str, set[YesNo | None]] = {}
    for match in re.finditer(r"[A-Za-z][\w'-]*", sentence):
        word = stem(match[0].lower())
        if word in asked:
            said = assertions(sentence, match.start(), match.end())
            verdicts.setdefault(word, set()).add(_assertion_verdict(said, form))
    if verdicts.keys() != asked:
        return None
    found = set().union(*verdicts.values())
    verdict = found.pop() if len(found) == 1 else None
    parts = body_parts(question)
    if verdict is YesNo.NO and parts and not parts <= body_parts(sentence):
        return None
    if verdict is YesNo.YES and form.asks_comparison:
        return None
    if verdict is YesNo.YES and not _all_else_is_said(question, [], sentence):
        return None
    return verdict
