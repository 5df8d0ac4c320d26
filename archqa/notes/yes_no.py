"""Whether the evidence says yes or no to a yes/no question.

A wrong yes or no is worse than none: where the polarity of the sentence that answers cannot be
read with good certainty, nothing is said and the sentence speaks for itself.
"""

import re
from collections.abc import Sequence
from enum import StrEnum
from typing import NamedTuple

from archqa.notes.assertion import Assertion, assertions, find_cues
from archqa.notes.question_form import (
    QuestionForm,
    blanked,
    is_yes_no_question,
    main_part,
    question_form,
)
from archqa.terminology.concept import Aspect, Concept, Mention, Relation
from archqa.terminology.concepts import (
    find_mentions,
    mentions_by_concept,
    mentions_of,
    named_things,
)
from archqa.terminology.people import body_part_spans, body_parts, side_names
from archqa.terminology.words import stem, stems, word_list

MAX_DENIED_WORDS = 10
"""Words after the denial, and before it, of a sentence that does nothing but deny."""
MAX_WORDS_BEFORE_DENIAL = 7
MAX_RESULT_WORDS = 14
"""Words of a sentence that says no more than that a test was normal."""

_LIST = re.compile(r",|\b(?:or|and)\b")
_TEST = re.compile(
    r"\b(?:ct|mri|mra|x-?rays?|films?|scans?|echo|ultrasound|biopsy|sample|cultures?|swab|smear)\b",
    re.IGNORECASE,
)
_NORMAL_RESULT = re.compile(
    r"\b(?:unremarkable|(?:was|were|is|are|read as) (?:\w+ )?(?:normal|negative|benign)"
    r"|within normal limits)\b",
    re.IGNORECASE,
)
_MORE_IS_SAID = re.compile(
    r"\b(?:but|except|other than|abnormal|positive|shows?|showed)\b", re.IGNORECASE
)
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
_RESULT = re.compile(
    r"\b(?:negative|normal|unremarkable|no|not|ruled out)\b", re.IGNORECASE
)
_PLACE = re.compile(
    r"\s+(?:in|of|over|to)\s(?:the |his |her |either |both |any )?\w+(?: \w+)?"
)
_CLAUSE_BREAK = re.compile(r"[;,]\s|\.\s|\s(?:but|and|while|although|with)\s")
_WORD = re.compile(r"[A-Za-z][\w'-]*")


_TURNS = re.compile(
    r"\b(?:al)?though\b|\bhowever\b"
    r"|\b(?:resum|restart|re-start|reinstat|recommenc|reintroduc)\w*|\bback on\b",
    re.IGNORECASE,
)
"""Words after a denial by which the sentence may go on to say the opposite."""


class YesNo(StrEnum):
    """How the answer to a yes/no question begins."""

    YES = "Yes"
    NO = "No"
    UNCERTAIN = "Uncertain"
    NOT_STATED = "Not stated"

    @property
    def opening(self) -> str:
        """The words before the evidence: "Yes. ", "Uncertain: "."""
        return f"{self.value}: " if self is YesNo.UNCERTAIN else f"{self.value}. "


def yes_no_answer(question: str, evidence: Sequence[str]) -> YesNo | None:
    """Return what the evidence, the best sentence first, says; None if that is not certain.

    UNCERTAIN is said where the evidence leaves the matter open, NOT_STATED where it tells it of a
    relative only.
    """
    if not is_yes_no_question(question):
        return None
    form = question_form(question)
    verdicts = {
        SentenceReading(question, form, sentence).verdict() for sentence in evidence
    }
    return _only(verdicts - {None})


_REVERSED = {YesNo.YES: YesNo.NO, YesNo.NO: YesNo.YES}
"""The verdict on the opposite of what is asked for ("Is she afebrile?")."""


def _only(verdicts: set[YesNo | None]) -> YesNo | None:
    """The verdict that all agree on, None where they do not."""
    return next(iter(verdicts)) if len(verdicts) == 1 else None


def _verdict_of(stated: frozenset[Assertion], form: QuestionForm) -> YesNo | None:
    """What the assertions of a mention answer, None where that is not certain."""
    is_denied = Assertion.ABSENT in stated
    is_of_family = Assertion.FAMILY in stated
    if is_of_family and not form.asks_family and not is_denied:
        return YesNo.NOT_STATED
    if is_of_family != form.asks_family:
        return None
    if form.asks_permission:
        return None if form.asks_ended else _permission_verdict(stated, form)
    if Assertion.ENDED in stated:
        return _ended_verdict(stated, form)
    if stated & {Assertion.PLANNED, Assertion.LIMITED}:
        return None
    if Assertion.LIKELY in stated and not is_denied:
        return None
    if Assertion.OPEN in stated:
        return None if is_denied else YesNo.UNCERTAIN
    if form.asks_ended:
        return YesNo.NO if Assertion.CONTINUES in stated else None
    if is_denied or Assertion.NEGATIVE in stated:
        return YesNo.NO
    return None if Assertion.PAST in stated and form.asks_now else YesNo.YES


def _permission_verdict(
    stated: frozenset[Assertion], form: QuestionForm
) -> YesNo | None:
    if Assertion.ABSENT in stated:
        return YesNo.NO
    if Assertion.ALLOWED in stated:
        return None if Assertion.PLANNED in stated else YesNo.YES
    return _ended_verdict(stated, form) if Assertion.ENDED in stated else None


def _ended_verdict(stated: frozenset[Assertion], form: QuestionForm) -> YesNo | None:
    if Assertion.ABSENT in stated:
        return None
    if form.asks_ended:
        return None if Assertion.PLANNED in stated else YesNo.YES
    return YesNo.NO if form.asks_now else None


def _habit_verdict(stated: frozenset[Assertion], form: QuestionForm) -> YesNo | None:
    """The verdict on a habit: "smoker?" is answered by one that has ended, with no."""
    has_ended = Assertion.ENDED in stated and Assertion.ABSENT not in stated
    if has_ended and form.is_telegraphic and not form.asks_family:
        return None if form.asks_past else YesNo.NO
    return _verdict_of(stated, form)


def _is_denied_in_other_words(question: str, form: QuestionForm, sentence: str) -> bool:
    """Whether a sentence that answers only denies ("There was no neural impingement").

    False where both name known things and they differ: "no fever" does not answer "night sweats?".
    """
    if (
        form.asks_ended
        or form.asks_permission
        or form.asks_family
        or form.asks_comparison
    ):
        return False
    asked_parts, sentence_parts = body_parts(question), body_parts(sentence)
    if asked_parts and sentence_parts and not asked_parts & sentence_parts:
        return False
    known = find_mentions(main_part(question))
    if not known and asked_parts <= sentence_parts and _TEST.search(question):
        # The sentence may say no more than that a test, which the question names, was normal.
        is_short = len(sentence.split()) <= MAX_RESULT_WORDS
        if (
            is_short
            and _NORMAL_RESULT.search(sentence)
            and not _MORE_IS_SAID.search(sentence)
        ):
            return True
    denied = _only_denied(sentence)
    if known and (find_mentions(denied) or _LIST.search(denied)):
        return False
    return bool(denied)


def _only_denied(sentence: str) -> str:
    """What a sentence denies if it says nothing else, "" otherwise."""
    cues = [cue for cue in find_cues(sentence) if cue.kind not in {"past", "continues"}]
    denial = next(
        (cue for cue in cues if cue.kind == "absent" and cue.reaches_after), None
    )
    if denial is None or any(
        cue.kind != "absent" and cue.start > denial.start for cue in cues
    ):
        return ""
    before = re.sub(r"^[^:]*:", "", sentence[: denial.start])
    after = sentence[denial.end :].strip(" .")
    if (
        len(before.split()) > MAX_WORDS_BEFORE_DENIAL
        or find_mentions(before)
        or "," in before
    ):
        return ""
    is_one_clause = len(after.split()) <= MAX_DENIED_WORDS and not re.search(
        r"[;:.]", after
    )
    return after if is_one_clause else ""


def _mentions_of(concept: Concept, sentence: str) -> list[Mention]:
    """Return the mentions of a concept, also by the names that only questions are read for."""
    named = [one for one in named_things(sentence) if one.concept is concept]
    return mentions_of(concept, sentence) or named


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
        main = main_part(self.question)
        mentions = find_mentions(main) or find_mentions(self.question)
        spans = {(mention.start, mention.end) for mention in mentions}
        for thing in named_things(main):  # "MS" is multiple sclerosis, too.
            is_abbreviation = main[thing.start : thing.end].isupper()
            is_same = is_abbreviation and (thing.start, thing.end) in spans
            if not spans or is_same:
                mentions = [*mentions, thing]
        for mention in mentions:
            if mention.concept.aspect in STATES:
                return self._state_verdict(mention)
        asked: list[Mention] = []
        for aspect in ASPECT_ORDER:
            asked = asked or [
                mention for mention in mentions if mention.concept.aspect is aspect
            ]
        verdict = (
            self._asked_verdict(asked) if asked else self._repeated_words_verdict()
        )
        if verdict in {YesNo.NOT_STATED, YesNo.UNCERTAIN}:
            return verdict if self._is_left_open(asked) else None
        if verdict is YesNo.NO and self._turns_after(asked):
            return None
        if verdict is not None:
            return verdict if self._is_about_the_same(verdict, asked) else None
        is_denied = _is_denied_in_other_words(self.question, form, self.sentence)
        return YesNo.NO if is_denied else None

    def _turns_after(self, asked: Sequence[Mention]) -> bool:
        """Whether the sentence may take back what it denies ("was stopped in May, then resumed")."""
        for asked_mention in asked:
            for mention in _mentions_of(asked_mention.concept, self.sentence):
                if _TURNS.search(self.sentence, mention.end):
                    return True
        return False

    def _is_left_open(self, asked: Sequence[Mention]) -> bool:
        """Whether a finding is left open and the sentence does not go on to settle it."""
        if (
            self.form.asks_comparison
            or not asked
            or asked[0].concept.aspect not in LEFT_OPEN
        ):
            return False
        end = 0
        for asked_mention in asked:
            for mention in _mentions_of(asked_mention.concept, self.sentence):
                end = max(end, mention.end)
        return _RESULT.search(self.sentence, end) is None

    def _is_about_the_same(self, verdict: YesNo, asked: Sequence[Mention]) -> bool:
        """Whether the rest of the question allows the verdict.

        What is denied is denied of all its kinds; what is affirmed must be affirmed in all words.
        """
        form = self.form
        aspect = asked[0].concept.aspect if asked else None
        if verdict is YesNo.YES:
            # Nothing is compared or foretold, and what is asked of now is told of now.
            if form.asks_comparison or form.asks_plan:
                return False
            if form.asks_now and not _NOW.search(self.sentence):
                return False
        needs_all = verdict is YesNo.YES or aspect in QUALIFIED
        if needs_all and not is_all_else_said(self.question, asked, self.sentence):
            return False
        if aspect not in {Aspect.DRUG, Aspect.PROCEDURE}:
            return True
        # The words beside a drug or procedure ("Any change in her pills?") must say the same.
        rest = self._replace(question=self._question_without(*asked))
        return rest._repeated_words_verdict() in {None, verdict}

    def _question_without(self, *mentions: Mention) -> str:
        return blanked(
            self.question, [(mention.start, mention.end) for mention in mentions]
        )

    def _asked_verdict(self, asked: Sequence[Mention]) -> YesNo | None:
        """Return the verdict on all that is asked for at once ("nausea or vomiting").

        Terms that share their words ("Coumadin" is warfarin and a blood thinner) are one thing.
        """
        by_place: dict[tuple[int, int], set[YesNo | None]] = {}
        for mention in asked:
            verdicts = by_place.setdefault((mention.start, mention.end), set())
            verdicts |= {self._concept_verdict(mention), self._broader_verdict(mention)}
        of_places = {_only(verdicts - {None}) for verdicts in by_place.values()}
        if (
            self.form.is_alternative
            and YesNo.YES in of_places
            and None not in of_places
        ):
            return YesNo.YES
        verdict = _only(of_places - {None})
        needs_all = self.form.is_alternative or verdict is YesNo.YES
        return None if needs_all and None in of_places else verdict

    def _concept_verdict(self, asked: Mention) -> YesNo | None:
        """Return what the mentions of a concept say together."""
        mentions = _mentions_of(asked.concept, self.sentence)
        label = _LABEL.match(self.sentence)
        label_end = label.end() if label else 0
        # What only the label before a colon names is left out ("PAST SURGICAL HISTORY: …").
        mentions = [
            mention for mention in mentions if mention.start >= label_end
        ] or mentions
        verdicts: set[YesNo | None] = set()
        for mention in mentions:
            if asked.relation is Relation.NARROWER and not self._covers(mention, asked):
                continue
            verdict = self._mention_verdict(mention, asked)
            is_label = label is not None and mention.end <= label_end
            # "ALLERGIES: Refer to chart" affirms none.
            if (
                verdict is YesNo.YES
                and is_label
                and not content_stems(self._question_without(asked))
            ):
                verdict = None
            if verdict is not YesNo.NO or not self._is_narrower(mention, asked):
                verdicts.add(verdict)
        verdict = _only(verdicts)
        if asked.relation is Relation.OPPOSITE and verdict is not None:
            return _REVERSED.get(verdict)
        return verdict

    def _broader_verdict(self, asked: Mention) -> YesNo | None:
        """Return NO if a finding is denied that the words asked contain (pain of "chest pain")."""
        words = self.question[asked.start : asked.end]
        if asked.concept.aspect is not Aspect.FINDING:
            return None
        for concept, mentions in mentions_by_concept(words).items():
            if concept.aspect is not Aspect.FINDING or concept is asked.concept:
                continue
            for inner in mentions:
                is_part = (
                    inner.relation is Relation.SAME
                    and inner.end - inner.start < len(words)
                )
                if (
                    is_part
                    and self._concept_verdict(inner.moved(asked.start)) is YesNo.NO
                ):
                    return YesNo.NO
        return None

    def _mention_verdict(self, mention: Mention, asked: Mention) -> YesNo | None:
        stated = assertions(self.sentence, mention.start, mention.end)
        if mention.relation is Relation.OPPOSITE:  # "afebrile"
            if "neg" in self.sentence[mention.start : mention.end].lower():
                stated -= {Assertion.NEGATIVE}
            if not stated <= {Assertion.PRESENT, Assertion.CONTINUES}:
                return None
            return YesNo.YES if self.form.asks_ended else YesNo.NO
        if Assertion.NEGATIVE in stated and asked.concept.aspect in WITH_RESULTS:
            return None
        is_habit = asked.concept.aspect is Aspect.HABIT
        verdict = (_habit_verdict if is_habit else _verdict_of)(stated, self.form)
        is_class = (
            asked.relation is Relation.NARROWER and mention.relation is Relation.SAME
        )
        return verdict if verdict is YesNo.NO or not is_class else None

    def _covers(self, mention: Mention, asked: Mention) -> bool:
        """Whether a mention is the narrower thing that is asked for, or the whole class."""
        if mention.relation is Relation.SAME:
            return True
        written = self.question[asked.start : asked.end].lower()
        return stem(written) == stem(self.sentence[mention.start : mention.end].lower())

    def _is_narrower(self, mention: Mention, asked: Mention) -> bool:
        """Whether what is denied is only a part of what is asked: a kind, another site or side."""
        if (
            mention.relation is Relation.NARROWER
            and asked.relation is not Relation.NARROWER
        ):
            return True
        # The parts of the body directly before the mention or after "in", "of", "over", "to".
        before = self.sentence[: mention.start].rstrip(" -")
        site_words = []
        for start, end in body_part_spans(self.sentence):
            if end == len(before):
                site_words.append(self.sentence[start:end])
        if place := _PLACE.match(self.sentence[mention.end :]):
            site_words.append(place[0])
        site = body_parts(" ".join(site_words))
        asked_parts = body_parts(self._question_without(asked))
        if not asked_parts:
            return bool(site) and not body_parts(self.question)
        if site and not asked_parts & site:
            return True
        sentence_parts = body_parts(self.sentence)
        asked_sides = asked_parts & side_names()
        if (
            asked_sides
            and sentence_parts & side_names()
            and not asked_sides <= sentence_parts
        ):
            return True
        is_elsewhere = bool(sentence_parts) and not asked_parts & sentence_parts
        return is_elsewhere and self.sentence.count(",") < MIN_LIST_COMMAS

    def _state_verdict(self, asked: Mention) -> YesNo | None:
        """Return the verdict on "Is X normal?" and "Anything wrong with X?"."""
        verdicts: set[YesNo | None] = set()
        for mention in _mentions_of(asked.concept, self.sentence):
            # The clause of a mention: "kidneys are normal" of "Liver is enlarged; kidneys …".
            start = 0
            for match in _CLAUSE_BREAK.finditer(self.sentence, 0, mention.start):
                start = match.end()
            after = _CLAUSE_BREAK.search(self.sentence, mention.end)
            clause = self.sentence[
                start : after.start() if after else len(self.sentence)
            ]
            if not is_all_else_said(self.question, [asked], clause):
                continue
            stated = assertions(self.sentence, mention.start, mention.end)
            is_same = mention.relation is not Relation.OPPOSITE
            verdict = None
            if stated == {Assertion.PRESENT}:
                verdict = YesNo.YES if is_same else YesNo.NO
            elif stated == {Assertion.ABSENT} and is_same:
                verdict = YesNo.NO
            verdicts.add(verdict)
        verdict = _only(verdicts)
        if asked.relation is Relation.OPPOSITE and verdict is not None:
            return _REVERSED.get(verdict)
        return verdict

    def _repeated_words_verdict(self) -> YesNo | None:
        """Return the verdict on words that no list has, as the sentence repeats them."""
        asked = content_stems(main_part(self.question))
        words = set()
        verdicts: set[YesNo | None] = set()
        for match in _WORD.finditer(self.sentence):
            word = stem(match[0].lower())
            if word in asked:
                words.add(word)
                stated = assertions(self.sentence, match.start(), match.end())
                is_result = Assertion.NEGATIVE in stated
                verdicts.add(None if is_result else _verdict_of(stated, self.form))
        if not asked or words != asked:
            return None
        verdict = _only(verdicts)
        is_same_site = body_parts(self.question) <= body_parts(self.sentence)
        return verdict if is_same_site or verdict is not YesNo.NO else None


def content_stems(text: str) -> frozenset[str]:
    """Return the stems of the words that tell one thing from another, parts of the body left out."""
    words = stems(blanked(text, body_part_spans(text)))
    return frozenset(words).difference(word_list("setting"))


def is_all_else_said(question: str, asked: Sequence[Mention], sentence: str) -> bool:
    """Whether a sentence also names whatever else of the question could tell it from another."""
    names = {mention.concept.name for mention in asked}
    spans = [(mention.start, mention.end) for mention in asked]
    for mention in find_mentions(question):
        if mention.concept.name not in names:
            if not mentions_of(mention.concept, sentence):
                return False
            spans.append((mention.start, mention.end))
    rest = blanked(question, spans)
    if not body_parts(rest) <= body_parts(sentence):
        return False
    return content_stems(rest) <= set(stems(sentence))
