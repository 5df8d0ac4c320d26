"""What a sentence of a note says of the thing that a question is about.

Everything that reads sentences shares this judgement: answers from notes and charts, lines of notes
in a brief, and the lexical check of a model's lines.
"""

import re
from collections.abc import Iterator, Sequence
from enum import StrEnum
from typing import NamedTuple

from archqa.core.case import Case
from archqa.notes.focus import (
    ANY_RELATIVE,
    OTHER_SUBJECT,
    PATIENT,
    Focus,
    attribute_patterns,
    group_of,
    named_days,
    named_people,
    names_organism,
)
from archqa.notes.non_evidence import headings_of_sentences
from archqa.notes.sections import is_heading, labelled_parts, section_kind
from archqa.terminology.concept import DRUG_KINDS, Mention
from archqa.terminology.concepts import is_kind_of, named_things, related
from archqa.terminology.cues import cue_pattern, find_assertion_cues
from archqa.terminology.people import (
    body_parts,
    relatives_named,
    side_names,
    site_names,
    specimen_names,
)
from archqa.terminology.words import stem, stems

MAX_WORDS_BACK = 8
"""Words between a mention and a cue that follows it ("pneumonia has now been ruled out")."""
_WORDS_OF_RELATIVE = 2
"""Words of a label that names a relative ("Mother", "His father")."""
_CLAUSE_END = re.compile(
    r"[;!?\n]|\.(?=\s|$)|,\s+(?:and\s+)?(?=(?:he|she|it|they|we|i|the patient|patient|with|has|had|is"
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
    r"(?:stat|say|said|report|not|den(?:y|ies)|think|thought|feel|felt|describ|bring|brought|gave|giv(?!en)"
    r"|tells|told|believe|claim|complain|observ|saw|seen|noticed|relate|mention|confirm|help|accompan"
    r"|request|with|and \w+ (?:stat|report|den))\w*\b",
    re.IGNORECASE,
)


_IN_COMPANY = re.compile(
    r"\b(?:with|by|per|to|from|for|care of|is|are) (?:(?:his|her|their|the) )?$",
    re.IGNORECASE,
)
_PHRASE_END = re.compile(r"\s*(?:$|[,:.)](?!\s*(?:who|whose|with)\b))", re.IGNORECASE)


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
    """Return what `sentence` says of the characters from `start` to `end`, PRESENT without a cue.

    In the manner of NegEx (Chapman et al. 2001) and ConText (Harkema et al. 2009): cues such as
    "denies", "ruled out" and "possible" reach over what follows or precedes them, up to a boundary
    such as "but"; the cue nearest to a mention decides.
    """
    cues = find_cues(sentence)
    boundaries = [match.start() for match in _CLAUSE_END.finditer(sentence)]
    boundaries += [cue.start for cue in cues if cue.kind == "boundary"]
    reaching = set()
    for cue in cues:
        if cue.kind != "boundary" and _reaches(cue, start, end, sentence, boundaries):
            reaching.add(Assertion(cue.kind))
    return frozenset(reaching or {Assertion.PRESENT})


def find_cues(sentence: str) -> list[Cue]:
    """The cues of a sentence in order; the longer of two that overlap wins."""
    matches = []
    for start, end, (kind, reaches_after) in find_assertion_cues(sentence):
        matches.append(Cue(kind, reaches_after, start, end))
    matches.sort(key=lambda cue: (cue.start - cue.end, cue.start, cue.kind != "open"))
    chosen: list[Cue] = []
    for cue in matches:
        if not any(_conflict(cue, other) for other in chosen):
            chosen.append(cue)
    cues = []
    for cue in chosen:
        if cue.kind != "pseudo" and not _is_bystander(cue, sentence):
            cues.append(cue)
    cues.sort(key=lambda cue: cue.start)
    return cues


def _is_bystander(cue: Cue, sentence: str) -> bool:
    """Whether a relative only reports on the patient ("Mother states …") or is there ("with his wife, …")."""
    if cue.kind != "family":
        return False
    after = sentence[cue.end :]
    is_present = _IN_COMPANY.search(sentence[: cue.start]) and _PHRASE_END.match(after)
    return bool(_REPORTS.match(after) or is_present)


def _conflict(cue: Cue, other: Cue) -> bool:
    """Whether a cue overlaps a longer one; the two directions of one word may both stand."""
    is_boundary = "boundary" in (cue.kind, other.kind) and "pseudo" not in (
        cue.kind,
        other.kind,
    )
    other_way = cue.kind == other.kind and cue.reaches_after != other.reaches_after
    if is_boundary or other_way:
        return False
    if (cue.start, cue.end) == (other.start, other.end):
        return "open" in (cue.kind, other.kind) and cue.kind != other.kind
    return cue.start < other.end and other.start < cue.end


def _reaches(
    cue: Cue, start: int, end: int, sentence: str, boundaries: list[int]
) -> bool:
    if cue.kind == "absent" and cue.start < start and end <= cue.end:
        return True
    if cue.reaches_after:
        if cue.end > start:
            return False
        crosses = cue.kind == "family" and not re.search(
            r"[.;]", sentence[cue.end : start]
        )
        return crosses or not any(cue.end <= offset < start for offset in boundaries)
    if cue.start < end:
        return False
    between = sentence[end : cue.start]
    if len(between.split()) > MAX_WORDS_BACK:
        return False
    if _RELATIVE_CLAUSE.match(between):
        return True
    return not any(end <= offset < cue.start for offset in boundaries)


_WORD = re.compile(r"[A-Za-z][\w'-]*")


class Naming(StrEnum):
    """Whether a sentence names the thing that a question is about."""

    NAMED = "named"
    IN_CONTEXT = "in context"
    """Its heading names it, or the sentence before, on which it leans."""
    OTHER = "other"
    """It names another thing of that kind."""
    ABSENT = "absent"
    UNKNOWN = "unknown"
    """The question names nothing that the terminology knows."""


class Mismatch(StrEnum):
    """In what a sentence on the topic differs from what is asked, as people are told."""

    PERSON = "is about another person"
    SIDE = "is about the other side"
    SITE = "is about another part of the body or another specimen"
    TIME = "is about another time"
    OCCURRENCE = "tells of a plan, a condition or a risk only"
    ALLERGY = "does not say whether it is given or an allergy"
    ATTRIBUTE = "does not give what is asked"


class Judgement(NamedTuple):
    """What a sentence says of what a question is about.

    `coverage` is the share of the question's other words of content that it repeats. `mentions` are
    those of the thing. `is_direct` says that it names the thing, with the value or dose that is asked
    for, or without anything else that yes or no depends on; `is_backed`, that the network alone takes
    it for an answer.
    """

    naming: Naming
    mismatches: frozenset[Mismatch]
    coverage: float
    mentions: tuple[Mention, ...]
    is_direct: bool
    is_backed: bool = False


_LEANS_ON_SENTENCE_BEFORE = re.compile(
    r"(?:it|its|this|that|these|those|they|their|them|both|neither|all of (?:these|them)|one of them"
    r"|the (?:latter|former|same|other|others)|such|so|then|thus|therefore|however|afterwards?"
    r"|thereafter|subsequently|since then|at that time|at this time|on neither|in addition|also)\b",
    re.IGNORECASE,
)


class Passage(NamedTuple):
    """A sentence with its heading, and the sentence before where it leans on that one."""

    text: str
    heading: str = ""
    before: str = ""

    def label_at(self, position: int) -> str:
        """Return the label under which these characters stand, else the heading."""
        label = ""
        for part in labelled_parts(self.text):
            if part.start <= position and part.label:
                label = part.label
        return label or self.heading


_NEW_LINE = re.compile(r"(?<![,(])\n[^\S\n]*+(?=[A-Z0-9•*-])")


def read_passages(case: Case) -> tuple[Passage, ...]:
    """Return the sentences of a case as passages.

    Where a line begins anew in a sentence, its text has a line break: what stands on one line says
    nothing of the next one.
    """
    headings = headings_of_sentences(case)
    passages = []
    for index, sentence in enumerate(case.sentences):
        lines = _NEW_LINE.split(sentence.text)
        text = "\n".join(" ".join(line.split()) for line in lines)
        before = ""
        if leans_on_before(case, index):
            before = " ".join(case.sentences[index - 1].text.split())
        passages.append(Passage(text, headings.get(index, ""), before))
    return tuple(passages)


def leans_on_before(case: Case, index: int) -> bool:
    """Whether a sentence says of what it speaks only together with the one before it ("It was …")."""
    if index == 0 or is_heading(case.sentences[index - 1].text):
        return False
    text = case.sentences[index].text.strip()
    return _LEANS_ON_SENTENCE_BEFORE.match(text) is not None


def judge(focus: Focus, passage: Passage) -> Judgement:
    """Return what a sentence says of what a question is about."""
    mentions = _mentions_of_things(focus, passage.text)
    if focus.asks_one_of:
        main = focus.things[0].concept
        mentions = tuple(one for one in mentions if one.concept is not main)
    spans = [(one.start, one.end) for one in mentions]
    if not focus.things:
        spans = _spans_of_words(focus.words, passage.text)
    mismatches = {
        *_place_mismatches(focus, passage, mentions),
        *_context_mismatches(focus, passage, spans),
    }
    if _misses_attribute(focus, passage, mentions):
        mismatches.add(Mismatch.ATTRIBUTE)
    if _is_allergy_mismatch(focus, passage, mentions):
        mismatches.add(Mismatch.ALLERGY)
    words = set(stems(f"{passage.heading} {passage.before} {passage.text}"))
    coverage = len(focus.words & words) / len(focus.words) if focus.words else 1.0
    naming = _naming(focus, passage, mentions)
    is_direct = naming is Naming.NAMED and Mismatch.ATTRIBUTE not in mismatches
    # That a scan took place says nothing of what it showed.
    is_direct &= any(_is_main(focus, one) for one in mentions)
    if not focus.is_yes_no:
        is_given = "organism" in focus.attributes
        is_direct &= is_given or _has_number(focus, passage, mentions)
    return Judgement(naming, frozenset(mismatches), coverage, mentions, is_direct)


_NUMERIC = {"value", "dose", "frequency"}


def _has_number(focus: Focus, passage: Passage, mentions: tuple[Mention, ...]) -> bool:
    for name in _NUMERIC & focus.attributes:
        for one in mentions:
            if any(map(str.isdigit, _region(passage.text, one, name))):
                return True
    return False


Span = tuple[int, int]


def _spans_of_words(words: frozenset[str], text: str) -> list[Span]:
    spans = []
    for match in _WORD.finditer(text):
        if stem(match[0].lower()) in words:
            spans.append(match.span())
    return spans


def _context_mismatches(
    focus: Focus, passage: Passage, spans: Sequence[Span]
) -> Iterator[Mismatch]:
    """Yield whether a sentence speaks of another person or time, or of what has not happened."""
    if _is_of_another_day(focus, passage):
        yield Mismatch.TIME
    labels = f"{passage.heading} {passage.label_at(0)}"
    if focus.asks_occurrence and _RISKS.search(labels):
        yield Mismatch.OCCURRENCE
    names = named_people(passage.text)
    if focus.names and names and focus.names.isdisjoint(names):
        yield Mismatch.PERSON
    if not spans:
        relatives = relatives_named(f"{passage.heading} {passage.text}")
        if focus.person != PATIENT and relatives and focus.person not in relatives:
            yield Mismatch.PERSON
        return
    if not focus.asks_who and _is_of_other_people(focus, passage, spans):
        yield Mismatch.PERSON
    stated = [assertions(passage.text, start, end) for start, end in spans]
    if focus.asks_this_stay:
        sections = {section_kind(passage.label_at(start)) for start, _ in spans}
        is_over = all(Assertion.ENDED in one for one in stated)
        is_past = all(Assertion.PAST in one for one in stated)
        if (sections == {"history"} or is_past) and not is_over:
            yield Mismatch.TIME
    if focus.asks_occurrence and all(Assertion.PLANNED in one for one in stated):
        yield Mismatch.OCCURRENCE


_HEAD_NOUN = re.compile(
    r"[ -](?:warning|leaflet|booklet|screen(?:ing)?|risk|prevention|prophylaxis|awareness|education|protocol"
    r"|guidelines?|clinic|nurse|team|service|support group|gels?|wipes?|hand rub|dispenser|free)\b",
    re.IGNORECASE,
)
"""What a name only qualifies: "stroke warning signs" tell of no stroke."""


def _mentions_of_things(focus: Focus, text: str) -> tuple[Mention, ...]:
    """Return the mentions of what a question names, those of the main thing if there are any."""
    mentions = []
    for mention in named_things(text):
        if focus.is_yes_no and _HEAD_NOUN.match(text, mention.end):
            continue
        if any(is_kind_of(mention.concept, thing.concept) for thing in focus.things):
            mentions.append(mention)
    of_main = [one for one in mentions if _is_of_main_group(focus, one)]
    return tuple(of_main or mentions)


def _is_main(focus: Focus, mention: Mention) -> bool:
    for thing in focus.things:
        is_main = thing.start == focus.things[0].start
        if is_main and is_kind_of(mention.concept, thing.concept):
            return True
    return False


def _is_of_main_group(focus: Focus, mention: Mention) -> bool:
    return mention.concept.kind in focus.kinds


def _naming(focus: Focus, passage: Passage, mentions: tuple[Mention, ...]) -> Naming:
    if not focus.things:
        return Naming.UNKNOWN
    if mentions:
        return Naming.NAMED
    if any(_is_of_main_group(focus, one) for one in named_things(passage.text)):
        return Naming.OTHER
    if _mentions_of_things(focus, f"{passage.heading} {passage.before}"):
        return Naming.IN_CONTEXT
    return Naming.ABSENT


def _place_mismatches(
    focus: Focus, passage: Passage, mentions: Sequence[Mention]
) -> Iterator[Mismatch]:
    """Yield where a sentence speaks of another side, part of the body or specimen only."""
    parts = body_parts(passage.text)
    sides = parts & side_names()
    if focus.sides and sides and not focus.sides & sides:
        yield Mismatch.SIDE
    specimens = parts & specimen_names()
    if not focus.specimens and _names_specimen_before(focus, passage, mentions):
        yield Mismatch.SITE
    text = passage.text.lower()
    is_named = any(name in text for name in focus.specimens)
    if focus.specimens and specimens and not (is_named or focus.specimens & specimens):
        yield Mismatch.SITE
    sites = (parts | body_parts(passage.heading)) & site_names()
    if focus.sites and sites and not _overlap(focus.sites, sites):
        yield Mismatch.SITE


def _names_specimen_before(
    focus: Focus, passage: Passage, mentions: Sequence[Mention]
) -> bool:
    """Whether all values of a test are of another specimen than blood ("urine Na 61")."""
    if "value" not in focus.attributes or not mentions:
        return False
    for one in mentions:
        before = passage.text[: one.start].rstrip(" :")
        word = " ".join(before.split()[-2:])
        if not body_parts(word) & specimen_names() - {"blood"}:
            return False
    return True


def _overlap(asked: frozenset[str], named: frozenset[str]) -> bool:
    """Whether a part of the body is the same as another or holds it: the leg and the knee."""
    within = related("site within")
    for site in asked:
        for other in named:
            if other in (site, *within.get(site, ())) or site in within.get(other, ()):
                return True
    return False


def _is_of_another_day(focus: Focus, passage: Passage) -> bool:
    # The heading "Discharge summary" is no day.
    days = {**named_days(passage.heading), "event": frozenset[str]()}
    days.update(named_days(passage.text))
    days = {kind: named for kind, named in days.items() if named}
    if focus.asks_this_stay and "year" in days and "year" not in focus.days:
        return True
    if section_kind(passage.label_at(0)) == "presentation":
        days.setdefault("event", frozenset({"admission"}))
    return any(
        kind in days and asked.isdisjoint(days[kind])
        for kind, asked in focus.days.items()
    )


def _is_of_other_people(focus: Focus, passage: Passage, spans: Sequence[Span]) -> bool:
    people = {person_of(passage, start, end) for start, end in spans}
    if focus.person == PATIENT:
        return PATIENT not in people
    if focus.person == ANY_RELATIVE:
        return people == {PATIENT}
    return people.isdisjoint({focus.person, ANY_RELATIVE})


_RISKS = re.compile(
    r"\b(?:consent\w*|risks?|complications discussed|safety.net\w*|return (?:advice|precautions)"
    r"|when to (?:call|return)|warn\w*)\b",
    re.IGNORECASE,
)
"""Labels of what may happen."""


def person_of(passage: Passage, start: int, end: int) -> str:
    """Return about whom a sentence says what it says at these characters."""
    label = passage.label_at(start)
    # "MOTHER" heads what is said of her, "Discussed with his daughter:" does not.
    is_headed = len(label.split()) <= _WORDS_OF_RELATIVE and relatives_named(label)
    is_family = section_kind(label) == "family" or is_headed
    if is_family or Assertion.FAMILY in assertions(passage.text, start, end):
        named = relatives_named(f"{label} {passage.text[:start]}")
        named = named or relatives_named(passage.text[end:])
        return named[-1] if named else ANY_RELATIVE
    others = OTHER_SUBJECT.findall(passage.text[: end + 1])
    return others[-1].lower() if others else PATIENT


def _misses_attribute(
    focus: Focus, passage: Passage, mentions: tuple[Mention, ...]
) -> bool:
    if focus.asks_one_of and not mentions:
        return True
    for name in focus.attributes:
        pattern = attribute_patterns("answer")[name]
        texts = [passage.text]
        if mentions:
            texts = [_region(passage.text, one, name) for one in mentions]
        if name in {"reason", "organism"}:
            texts = [passage.text]
        if name == "value":
            texts = [text for text in texts if not _has_no_value_yet(text)]
        is_named = name == "organism" and any(map(names_organism, texts))
        if not is_named and not any(map(pattern.search, texts)):
            return True
    return False


_FIRST_NUMBER = re.compile(r"^.{0,12}?\d")


def _has_no_value_yet(region: str) -> bool:
    """Whether a result is only to come: "sent, pending"; not where a number is next to its name."""
    after = region.partition("…")[2]
    is_to_come = cue_pattern("chart", "no value yet").search(after) is not None
    return is_to_come and _FIRST_NUMBER.search(after) is None


_ITEM_END = re.compile(r"[,;\n]\s|\b(?:and|then)\b")
_WORDS_OF_COUNT, _WORDS_OF_COUNT_AFTER = 4, 2
"""A number so near before or after a thing counts it ("two small polyps", "stents x2")."""


def _region(text: str, mention: Mention, attribute: str) -> str:
    """Return the words around a mention, up to the next things of its kind or a test."""
    group = group_of(mention.concept)
    start = text.rfind("\n", 0, mention.start) + 1
    end = text.find("\n", mention.end)
    end = len(text) if end < 0 else end
    for other in named_things(text):
        is_rival = other.concept.kind in group or other.concept.kind == "measurement"
        if not is_rival or is_kind_of(other.concept, mention.concept):
            continue
        if other.end <= mention.start:
            start = max(start, other.end)
        elif other.start >= mention.end:
            end = min(end, other.start)
    before, after = text[start : mention.start], text[mention.end : end]
    if start:  # What follows another drug or test is its own.
        before = _ITEM_END.split(before)[-1]
    if attribute == "count":
        before = " ".join(before.split()[-_WORDS_OF_COUNT:])
        after = " ".join(after.split()[:_WORDS_OF_COUNT_AFTER])
        return f"{before} {text[mention.start : mention.end]} {after}"
    after = after.partition("___")[0]  # What was left blank is not given.
    # The name itself holds no value ("vitamin B12", "HbA1c").
    return f"{before} … {after}"


_ALLERGY = cue_pattern("allergy", "statement")


_ALLERGY_WORDS = re.compile(
    r"allerg|intoleran|sensitiv|\blabel|challenge|nkd?a\b|anaphyl|\breact|tolerat|alert",
    re.IGNORECASE,
)


def _speaks_of_allergy(passage: Passage, mentions: tuple[Mention, ...]) -> bool:
    """Whether a sentence on a drug says whether it is tolerated: by its label, or by a reaction."""
    reaction = attribute_patterns("answer")["reaction"]
    for one in mentions:
        is_labelled = section_kind(passage.label_at(one.start)) == "allergies"
        if is_labelled or reaction.search(_region(passage.text, one, "reaction")):
            return True
    return _ALLERGY_WORDS.search(passage.text) is not None


def _is_allergy_mismatch(
    focus: Focus, passage: Passage, mentions: tuple[Mention, ...]
) -> bool:
    if focus.asks_if_allergic:
        return bool(mentions) and not _speaks_of_allergy(passage, mentions)
    if focus.asks_allergy or not mentions:
        return False
    for one in mentions:
        label = passage.label_at(one.start)
        is_allergy = section_kind(label) == "allergies" or _ALLERGY.search(passage.text)
        if one.concept.kind not in DRUG_KINDS or not is_allergy:
            return False
    return True
