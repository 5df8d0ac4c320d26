"""Whether the evidence says yes or no to a yes/no question.

A wrong yes or no is worse than none: where the polarity of the sentence that answers cannot be
read with good certainty, nothing is said and the sentence speaks for itself.
"""

import re
from collections.abc import Iterable, Sequence
from enum import StrEnum
from typing import NamedTuple

from archqa.asking.question_form import (
    QuestionForm,
    blanked,
    content_stems,
    is_all_else_said,
    is_yes_no_question,
    main_part,
    question_form,
)
from archqa.terminology.concept import Aspect, Mention, Relation
from archqa.terminology.concepts import find_mentions, mentions_by_concept, mentions_of
from archqa.terminology.cues import find_assertion_cues
from archqa.terminology.people import body_part_spans, body_parts, sides
from archqa.terminology.words import stem

MAX_WORDS_BACK = 8
"""Words between a mention and a cue that follows it ("pneumonia has now been ruled out")."""
_CLAUSE_END = re.compile(
    r"[;!?]|\.(?=\s|$)|,\s+(?:and\s+)?(?=(?:he|she|it|they|we|i|the patient|patient|with|has|had|is"
    r"|was|normal|positive|some|mild|moderate|severe|good|intact|still|now|occasional"
    r"|as well as|shows?|showed|but)\b)|,\s+(?=\+)",
    re.IGNORECASE,
)
_RELATIVE_CLAUSE = re.compile(
    r"[^,.;]{0,20},?\s*(?:which|that|but (?:this|that|it|these))"
    r" (?:has|have|was|were|is|are|had)[^,.;]*$",
    re.IGNORECASE,
)
_REPORTS = re.compile(
    r"(?:'s)?\s+(?:also |further |has |had |did |does |who |who is |is concerned |now )?"
    r"(?:stat|say|said|report|not|den(?:y|ies)|think|thought|feel|felt|describ|bring|brought|gave|giv"
    r"|tells|told|believe|claim|complain|observ|saw|seen|noticed|relate|mention|confirm|help|accompan"
    r"|request|with|and \w+ (?:stat|report|den))\w*\b",
    re.IGNORECASE,
)


class Assertion(StrEnum):
    """What a sentence says of something that it mentions."""

    PRESENT = "present"
    ABSENT = "absent"
    NEGATIVE = "negative"
    """A test, culture or finding that is called negative: the test itself was done."""
    OPEN = "open"
    LIKELY = "likely"
    LIMITED = "limited"
    """Affirmed or denied with an exception ("with stairs only")."""
    ENDED = "ended"
    FAMILY = "family"
    PAST = "past"
    PLANNED = "planned"
    ALLOWED = "allowed"
    CONTINUES = "continues"


class Cue(NamedTuple):
    """Characters that state an assertion; `reaches_after` over what follows, else what precedes."""

    kind: str
    reaches_after: bool
    start: int
    end: int


def assertions(sentence: str, start: int, end: int) -> frozenset[Assertion]:
    """Return what `sentence` says of the characters from `start` to `end`, PRESENT without a cue."""
    cues = find_cues(sentence)
    boundaries = _boundaries(sentence, cues)
    found = []
    for cue in cues:
        if cue.kind != "boundary" and _reaches(cue, start, end, sentence, boundaries):
            found.append(Assertion(cue.kind))
    return frozenset(found) or frozenset({Assertion.PRESENT})


def find_cues(sentence: str) -> tuple[Cue, ...]:
    """Return the cues of a sentence in order; the longer of two that overlap wins."""
    matches: list[Cue] = []
    for start, end, (kind, reaches_after) in find_assertion_cues(sentence):
        matches.append(Cue(kind, reaches_after, start, end))
    matches.sort(key=lambda cue: (cue.start - cue.end, cue.start, cue.kind != "open"))
    chosen: list[Cue] = []
    for cue in matches:
        if not any(_conflict(cue, other) for other in chosen):
            chosen.append(cue)
    real = [cue for cue in chosen if cue.kind != "pseudo" and not _is_informant(cue, sentence)]
    return tuple(sorted(real, key=lambda cue: cue.start))


def _is_informant(cue: Cue, sentence: str) -> bool:
    """Whether a relative only reports on the patient ("Mother states he has no fever")."""
    return cue.kind == "family" and _REPORTS.match(sentence[cue.end :]) is not None


def _conflict(cue: Cue, other: Cue) -> bool:
    """Whether a cue overlaps a longer one; the two directions of one word may both stand."""
    is_boundary = "boundary" in (cue.kind, other.kind) and "pseudo" not in (cue.kind, other.kind)
    other_way = cue.kind == other.kind and cue.reaches_after != other.reaches_after
    if is_boundary or other_way:
        return False
    if (cue.start, cue.end) == (other.start, other.end):
        return "open" in (cue.kind, other.kind) and cue.kind != other.kind
    return cue.start < other.end and other.start < cue.end


def _boundaries(sentence: str, cues: tuple[Cue, ...]) -> list[int]:
    """Return the offsets that no cue reaches across."""
    offsets = [match.start() for match in _CLAUSE_END.finditer(sentence)]
    offsets += [cue.start for cue in cues if cue.kind == "boundary"]
    return sorted(offsets)


def _reaches(cue: Cue, start: int, end: int, sentence: str, boundaries: list[int]) -> bool:
    if cue.kind == "absent" and cue.start < start and end <= cue.end:
        return True
    if cue.reaches_after:
        if cue.end > start:
            return False
        crosses = cue.kind == "family" and not re.search(r"[.;]", sentence[cue.end : start])
        return crosses or not any(cue.end <= offset < start for offset in boundaries)
    if cue.start < end:
        return False
    between = sentence[end : cue.start]
    if len(between.split()) > MAX_WORDS_BACK:
        return False
    if _RELATIVE_CLAUSE.match(between):
        return True
    return not any(end <= offset < cue.start for offset in boundaries)


class YesNo(StrEnum):
    """How the answer to a yes/no question begins."""

    YES = "Yes"
    NO = "No"
    NOT_STATED = "Not stated"


def assertion_verdict(said: frozenset[Assertion], form: QuestionForm) -> YesNo | None:
    """Return what the assertions of a mention answer, None where that is not certain."""
    if (Assertion.FAMILY in said) != form.asks_family:
        return _other_person_verdict(said, form)
    if form.asks_permission and form.asks_ended:
        return None
    if form.asks_permission and said & {Assertion.ALLOWED, Assertion.ABSENT}:
        return _permission_verdict(said)
    if Assertion.ENDED in said:
        return _ended_verdict(said, form)
    if said & {Assertion.PLANNED, Assertion.LIMITED} or form.asks_permission:
        return None
    if Assertion.LIKELY in said and Assertion.ABSENT not in said:
        return None
    if Assertion.OPEN in said:
        return None if Assertion.ABSENT in said else YesNo.NOT_STATED
    return _plain_verdict(said, form)


def habit_verdict(said: frozenset[Assertion], form: QuestionForm) -> YesNo | None:
    """Return the verdict on a habit: "smoker?" is answered by one that has ended, with no."""
    has_ended = Assertion.ENDED in said and Assertion.ABSENT not in said
    if has_ended and form.is_telegraphic and not form.asks_family:
        return None if form.asks_past else YesNo.NO
    return assertion_verdict(said, form)


def opposite_verdict(said: frozenset[Assertion], form: QuestionForm) -> YesNo | None:
    """Return the verdict where the opposite of what is asked for is mentioned ("afebrile")."""
    if not said <= {Assertion.PRESENT, Assertion.CONTINUES}:
        return None
    return YesNo.YES if form.asks_ended else YesNo.NO


def reversed_verdict(verdict: YesNo | None) -> YesNo | None:
    """Return the verdict on the opposite of what is asked for ("Is she afebrile?")."""
    if verdict is YesNo.YES:
        return YesNo.NO
    if verdict is YesNo.NO:
        return YesNo.YES
    return None


def only_verdict(verdicts: Iterable[YesNo | None]) -> YesNo | None:
    """Return the verdict that all agree on, None where they do not."""
    different = set(verdicts)
    return different.pop() if len(different) == 1 else None


def _plain_verdict(said: frozenset[Assertion], form: QuestionForm) -> YesNo | None:
    """Return the verdict where nothing is planned, open, ended or told of another person."""
    if form.asks_ended:
        return YesNo.NO if Assertion.CONTINUES in said else None
    if said & {Assertion.ABSENT, Assertion.NEGATIVE}:
        return YesNo.NO
    if Assertion.PAST in said and form.asks_now:
        return None
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
        return None if Assertion.PLANNED in said else YesNo.YES
    return YesNo.NO if form.asks_now else None


def _permission_verdict(said: frozenset[Assertion]) -> YesNo | None:
    if Assertion.ABSENT in said:
        return YesNo.NO
    is_given = Assertion.ALLOWED in said and Assertion.PLANNED not in said
    return YesNo.YES if is_given else None


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


def is_denied_in_other_words(question: str, form: QuestionForm, sentence: str) -> bool:
    """Whether a sentence that answers only denies ("There was no neural impingement").

    False where both name known things and they differ: "no fever" does not answer "night sweats?".
    """
    if form.asks_ended or form.asks_permission or form.asks_family or form.asks_comparison:
        return False
    asked_parts, said_parts = body_parts(question), body_parts(sentence)
    if asked_parts and said_parts and not asked_parts & said_parts:
        return False
    known = find_mentions(main_part(question))
    if not known and asked_parts <= said_parts and _is_normal_test(question, sentence):
        return True
    denied = _only_denied(sentence)
    if known:
        return bool(denied) and not find_mentions(denied) and not _LIST.search(denied)
    return bool(denied)


def _is_normal_test(question: str, sentence: str) -> bool:
    """Whether a sentence says no more than that a test, which the question names, was normal."""
    if not _TEST.search(question) or len(sentence.split()) > MAX_RESULT_WORDS:
        return False
    return bool(_NORMAL_RESULT.search(sentence)) and not _MORE_IS_SAID.search(sentence)


def _only_denied(sentence: str) -> str:
    """Return what a sentence denies if it says nothing else, "" otherwise."""
    cues = [cue for cue in find_cues(sentence) if cue.kind not in {"past", "continues"}]
    denials = [cue for cue in cues if cue.kind == "absent" and cue.reaches_after]
    if not denials or any(cue.kind != "absent" and cue.start > denials[0].start for cue in cues):
        return ""
    before = re.sub(r"^[^:]*:", "", sentence[: denials[0].start])
    after = sentence[denials[0].end :].strip(" .")
    if len(before.split()) > MAX_WORDS_BEFORE_DENIAL or find_mentions(before) or "," in before:
        return ""
    is_one_clause = len(after.split()) <= MAX_DENIED_WORDS and not re.search(r"[;:.]", after)
    return after if is_one_clause else ""


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
_CLAUSE_BREAK = re.compile(r"[;,]\s|\.\s|\s(?:but|and|while|although|with)\s")
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
    before = [match.end() for match in _CLAUSE_BREAK.finditer(sentence, 0, mention.start)]
    after = _CLAUSE_BREAK.search(sentence, mention.end)
    return sentence[max(before, default=0) : after.start() if after else len(sentence)]


def _state_of(mention: Mention, said: frozenset[Assertion]) -> YesNo | None:
    is_same = mention.relation is not Relation.OPPOSITE
    if said == {Assertion.PRESENT}:
        return YesNo.YES if is_same else YesNo.NO
    return YesNo.NO if said == {Assertion.ABSENT} and is_same else None


def yes_no_answer(question: str, evidence: Sequence[str]) -> YesNo | None:
    """Return what the evidence, the best sentence first, says; None if that is not certain.

    NOT_STATED is said where the evidence leaves the matter open or tells it of a relative only.
    """
    if not is_yes_no_question(question):
        return None
    form = question_form(question)
    verdicts = [SentenceReading(question, form, sentence).verdict() for sentence in evidence]
    return only_verdict(verdict for verdict in verdicts if verdict is not None)
