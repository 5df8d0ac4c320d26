"""What one sentence answers to a yes/no question."""

import re
from collections.abc import Sequence
from typing import NamedTuple

from archqa.asking.asked_words import blanked, content_stems, is_all_else_said, main_part
from archqa.asking.assertions import Assertion, assertions
from archqa.asking.denials import is_denied_in_other_words
from archqa.asking.question_form import QuestionForm
from archqa.asking.verdicts import (
    YesNo,
    assertion_verdict,
    habit_verdict,
    only_verdict,
    opposite_verdict,
    reversed_verdict,
)
from archqa.terminology.concept import Aspect, Mention, Relation
from archqa.terminology.concepts import find_mentions, mentions_by_concept, mentions_of
from archqa.terminology.people import body_part_spans, body_parts, sides
from archqa.terminology.words import stem

ASPECT_ORDER = (
    Aspect.STATE,
    Aspect.ALLERGY,
    Aspect.FINDING,
    Aspect.HABIT,
    Aspect.DRUG,
    Aspect.PROCEDURE,
)
"""Of several concepts in a question, that of the first aspect is asked for, the rest qualify it."""
STATES = frozenset({Aspect.NORMAL, Aspect.ABNORMAL})
LEFT_OPEN = frozenset({Aspect.FINDING, Aspect.HABIT, Aspect.ALLERGY})
"""Aspects of which a sentence may leave open whether they are there."""
QUALIFIED = frozenset({Aspect.ALLERGY, Aspect.PROCEDURE})
"""Kinds where what is denied may be another one than is asked for (an allergy, a procedure)."""
WITH_RESULTS = frozenset({Aspect.STATE, Aspect.DRUG, Aspect.PROCEDURE, *STATES})
"""Aspects that are there even if their result is called negative (a test that was done)."""
MIN_LIST_COMMAS = 2

_NOW = re.compile(
    r"\b(?:still|now|current\w*|today|continu\w*|remain\w*|persist\w*|ongoing|active)\b",
    re.IGNORECASE,
)
_LABEL = re.compile(r"^[^:.;]{1,60}:(?:\s|$)")
_RESULT = re.compile(r"\b(?:negative|normal|unremarkable|no|not|ruled out)\b", re.IGNORECASE)
_PLACE = re.compile(r"\s+(?:in|of|over|to)\s(?:the |his |her |either |both |any )?\w+(?: \w+)?")
_CLAUSE_END = re.compile(r"[;,]\s|\.\s|\s(?:but|and|while|although|with)\s")
_WORD = re.compile(r"[A-Za-z][\w'-]*")


class SentenceReading(NamedTuple):
    """A yes/no question, its form, and one sentence that may answer it."""

    question: str
    form: QuestionForm
    sentence: str

    def verdict(self) -> YesNo | None:
        """Return what the sentence says, None where that is not certain."""
        form = self.form
        if form.asks_cause or form.asks_deed or form.asks_negative:
            return None
        mentions = find_mentions(main_part(self.question)) or find_mentions(self.question)
        states = [mention for mention in mentions if mention.concept.aspect in STATES]
        if states:
            return self._state_verdict(states[0])
        asked = _asked_mentions(mentions)
        verdict = self._asked_verdict(asked) if asked else self._repeated_words_verdict()
        if verdict is YesNo.NOT_STATED:
            return verdict if self._is_left_open(asked) else None
        if verdict is not None:
            return verdict if self._is_about_the_same(verdict, asked) else None
        is_denied = is_denied_in_other_words(self.question, form, self.sentence)
        return YesNo.NO if is_denied else None

    def _is_left_open(self, asked: Sequence[Mention]) -> bool:
        """Whether a finding is left open and the sentence does not go on to settle it."""
        if self.form.asks_comparison or not asked or asked[0].concept.aspect not in LEFT_OPEN:
            return False
        ends = [
            each.end for mention in asked for each in mentions_of(mention.concept, self.sentence)
        ]
        return _RESULT.search(self.sentence, max(ends, default=0)) is None

    def _is_about_the_same(self, verdict: YesNo, asked: Sequence[Mention]) -> bool:
        """Whether the rest of the question allows the verdict.

        What is denied is denied of all its kinds; what is affirmed must be affirmed in all words.
        """
        aspect = asked[0].concept.aspect if asked else None
        if verdict is YesNo.YES and not self._is_unqualified():
            return False
        needs_all = verdict is YesNo.YES or aspect in QUALIFIED
        if needs_all and not is_all_else_said(self.question, asked, self.sentence):
            return False
        return aspect not in {Aspect.DRUG, Aspect.PROCEDURE} or self._rest_agrees(verdict, asked)

    def _is_unqualified(self) -> bool:
        """Whether nothing is compared or foretold, and what is asked of now is told of now."""
        if self.form.asks_comparison or self.form.asks_plan:
            return False
        return not self.form.asks_now or _NOW.search(self.sentence) is not None

    def _rest_agrees(self, verdict: YesNo, asked: Sequence[Mention]) -> bool:
        """Whether the words beside a drug or procedure ("Any change in her pills?") say the same."""
        rest = blanked(self.question, [(mention.start, mention.end) for mention in asked])
        reading = self._replace(question=rest)
        return reading._repeated_words_verdict() in {None, verdict}

    def _asked_verdict(self, asked: Sequence[Mention]) -> YesNo | None:
        """Return the verdict on all that is asked for at once ("nausea or vomiting").

        Terms that share their words ("Coumadin" is warfarin and a blood thinner) are one thing.
        """
        by_place: dict[tuple[int, int], set[YesNo | None]] = {}
        for mention in asked:
            verdicts = by_place.setdefault((mention.start, mention.end), set())
            verdicts |= {self._concept_verdict(mention), self._broader_verdict(mention)}
        things = [only_verdict(verdicts - {None}) for verdicts in by_place.values()]
        if self.form.is_alternative and YesNo.YES in things and None not in things:
            return YesNo.YES
        verdict = only_verdict(set(things) - {None})
        needs_all = self.form.is_alternative or verdict is YesNo.YES
        return None if needs_all and None in things else verdict

    def _concept_verdict(self, asked: Mention) -> YesNo | None:
        """Return what the mentions of a concept say together."""
        verdicts = []
        for mention in _outside_label(mentions_of(asked.concept, self.sentence), self.sentence):
            if asked.relation is Relation.NARROWER and not self._covers(mention, asked):
                continue
            verdict = self._mention_verdict(mention, asked)
            if verdict is YesNo.YES and self._is_only_label(mention, asked):
                verdict = None
            if verdict is not YesNo.NO or not self._is_narrower(mention, asked):
                verdicts.append(verdict)
        verdict = only_verdict(verdicts)
        return reversed_verdict(verdict) if asked.relation is Relation.OPPOSITE else verdict

    def _is_only_label(self, mention: Mention, asked: Mention) -> bool:
        """Whether only the label names what is asked for ("ALLERGIES: Refer to chart")."""
        label = _LABEL.match(self.sentence)
        rest = blanked(self.question, [(asked.start, asked.end)])
        return label is not None and mention.end <= label.end() and not content_stems(rest)

    def _broader_verdict(self, asked: Mention) -> YesNo | None:
        """Return NO if a finding is denied that the words asked contain (pain of "chest pain")."""
        words = self.question[asked.start : asked.end]
        if asked.concept.aspect is not Aspect.FINDING:
            return None
        for concept, mentions in mentions_by_concept(words).items():
            if concept.aspect is not Aspect.FINDING or concept is asked.concept:
                continue
            for inner in mentions:
                is_part = inner.relation is Relation.SAME and inner.end - inner.start < len(words)
                if is_part and self._concept_verdict(inner.moved(asked.start)) is YesNo.NO:
                    return YesNo.NO
        return None

    def _mention_verdict(self, mention: Mention, asked: Mention) -> YesNo | None:
        said = assertions(self.sentence, mention.start, mention.end)
        if mention.relation is Relation.OPPOSITE:
            names_result = "neg" in self.sentence[mention.start : mention.end].lower()
            own = {Assertion.NEGATIVE} if names_result else set()
            return opposite_verdict(said - own, self.form)
        if Assertion.NEGATIVE in said and asked.concept.aspect in WITH_RESULTS:
            return None
        is_habit = asked.concept.aspect is Aspect.HABIT
        verdict = (habit_verdict if is_habit else assertion_verdict)(said, self.form)
        is_class = asked.relation is Relation.NARROWER and mention.relation is Relation.SAME
        return verdict if verdict is YesNo.NO or not is_class else None

    def _covers(self, mention: Mention, asked: Mention) -> bool:
        """Whether a mention is the narrower thing that is asked for, or the whole class."""
        if mention.relation is Relation.SAME:
            return True
        written = self.question[asked.start : asked.end].lower()
        return stem(written) == stem(self.sentence[mention.start : mention.end].lower())

    def _is_narrower(self, mention: Mention, asked: Mention) -> bool:
        """Whether what is denied is only a part of what is asked: a kind, another site or side."""
        if mention.relation is Relation.NARROWER and asked.relation is not Relation.NARROWER:
            return True
        asked_parts = body_parts(blanked(self.question, [(asked.start, asked.end)]))
        said_parts = body_parts(self.sentence)
        site = _site(mention, self.sentence)
        if not asked_parts:
            return bool(site) and not body_parts(self.question)
        if site and not asked_parts & site:
            return True
        if (
            asked_parts & sides()
            and said_parts & sides()
            and not asked_parts & sides() <= said_parts
        ):
            return True
        is_elsewhere = bool(said_parts) and not asked_parts & said_parts
        return is_elsewhere and self.sentence.count(",") < MIN_LIST_COMMAS

    def _state_verdict(self, asked: Mention) -> YesNo | None:
        """Return the verdict on "Is X normal?" and "Anything wrong with X?"."""
        verdicts = []
        for mention in mentions_of(asked.concept, self.sentence):
            clause = _clause_around(mention, self.sentence)
            if is_all_else_said(self.question, [asked], clause):
                said = assertions(self.sentence, mention.start, mention.end)
                verdicts.append(_state_of(mention, said))
        verdict = only_verdict(verdicts)
        return reversed_verdict(verdict) if asked.relation is Relation.OPPOSITE else verdict

    def _repeated_words_verdict(self) -> YesNo | None:
        """Return the verdict on words that no list has, as the sentence repeats them."""
        asked = content_stems(main_part(self.question))
        verdicts: dict[str, set[YesNo | None]] = {}
        for match in _WORD.finditer(self.sentence):
            word = stem(match[0].lower())
            if word in asked:
                said = assertions(self.sentence, match.start(), match.end())
                is_result = Assertion.NEGATIVE in said
                verdict = None if is_result else assertion_verdict(said, self.form)
                verdicts.setdefault(word, set()).add(verdict)
        if not asked or verdicts.keys() != asked:
            return None
        verdict = only_verdict(set().union(*verdicts.values()))
        is_same_site = body_parts(self.question) <= body_parts(self.sentence)
        return verdict if is_same_site or verdict is not YesNo.NO else None


def _asked_mentions(mentions: Sequence[Mention]) -> list[Mention]:
    """Return the mentions of the aspect that is asked for."""
    for aspect in ASPECT_ORDER:
        chosen = [mention for mention in mentions if mention.concept.aspect is aspect]
        if chosen:
            return chosen
    return []


def _outside_label(mentions: list[Mention], sentence: str) -> list[Mention]:
    """Leave out what only the label before a colon names ("PAST SURGICAL HISTORY: …")."""
    label = _LABEL.match(sentence)
    text_begins = label.end() if label else 0
    return [mention for mention in mentions if mention.start >= text_begins] or mentions


def _site(mention: Mention, sentence: str) -> frozenset[str]:
    """Return the parts of the body directly before a mention or after "in", "of", "over", "to"."""
    before = sentence[: mention.start].rstrip(" -")
    adjacent = [sentence[a:b] for a, b in body_part_spans(sentence) if b == len(before)]
    place = _PLACE.match(sentence[mention.end :])
    return body_parts(" ".join([*adjacent, place[0] if place else ""]))


def _clause_around(mention: Mention, sentence: str) -> str:
    """Return the clause of a mention: "kidneys are normal" of "Liver is enlarged; kidneys …"."""
    before = [match.end() for match in _CLAUSE_END.finditer(sentence, 0, mention.start)]
    after = _CLAUSE_END.search(sentence, mention.end)
    return sentence[max(before, default=0) : after.start() if after else len(sentence)]


def _state_of(mention: Mention, said: frozenset[Assertion]) -> YesNo | None:
    is_same = mention.relation is not Relation.OPPOSITE
    if said == {Assertion.PRESENT}:
        return YesNo.YES if is_same else YesNo.NO
    return YesNo.NO if said == {Assertion.ABSENT} and is_same else None
