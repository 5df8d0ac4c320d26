"""What a question about a note is about: the thing, the person, the side and site, the time, the attribute."""

import re
from functools import cache, lru_cache
from typing import NamedTuple

from archqa.core.tables import read_rows
from archqa.notes.question_form import (
    asking_sentences,
    has_form,
    is_judgement,
    is_yes_no_question,
    main_part,
    question_form,
)
from archqa.terminology.concept import DRUG_KINDS, Aspect, Concept, Mention
from archqa.terminology.concepts import is_kind_of, measurement_kind, named_things
from archqa.terminology.cues import cue_pattern
from archqa.terminology.people import (
    body_part_spans,
    body_parts,
    relatives_named,
    side_names,
    site_names,
    specimen_names,
)
from archqa.terminology.words import stems

PATIENT = "patient"
ANY_RELATIVE = "family"

_SENTENCE_END = re.compile(r"(?<=[?!;])\s+|(?<=[a-z)]\.)\s+(?=[A-Z\"'(])")
"""After a word only: "on the A12. Did she …" and "Dr J. Smith" are not cut."""
_ASKS = re.compile(
    r"^\W*(?:who|whom|whose|what|whats|when|where|why|which|how|is|are|was|were|am|does|do|did|has"
    r"|have|had|can|could|should|would|will|any|ever)\b",
    re.IGNORECASE,
)
_RELATIVE_OF_PATIENT = re.compile(
    r"(?<!i am )(?<!i'm )(?<!im )(?<!this is )\b(?:his|her|their|patient's|pt's|(?:my|our) \w+['’]s)\s+"
    r"(?:(?:own|late|older|younger|elder|little|big)\s+)?([\w-]+)",
    re.IGNORECASE,
)
_LEAD_IN = re.compile(r"^[^:?.]{1,40}:\s+(?=\S)")
"""What a question is asked for ("MRI booking: …")."""
_NO_SIDE = re.compile(
    r"\bleft(?= (?:since|over|to|in|for|after|the|from|hospital|home)\b|\s*[?.,]|$)"
    r"|\b(?:that|all|quite)(?:['’]s)? right\b|\bright (?:now|away|after|before)\b|\bright(?=\s*\?)",
    re.IGNORECASE,
)
"""What is left over or correct, and is on no side."""

_ADVISERS = re.compile(
    r"\b(?:\w+(?:ology|ologists?|iatry|iatrists?)|\w+ (?:doctors?|specialists?|surgeons?|teams?))\b",
    re.IGNORECASE,
)
"""Who is or was consulted: "cardiology" and "the kidney doctor" are no parts of the body."""
_MONTH = r"(jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)[a-z]*"
_DAYS = {
    "day": re.compile(
        r"\b(\d{1,2})(?:st|nd|rd|th)\b"
        rf"|\b(\d{{1,2}}) {_MONTH}\b|\b{_MONTH} (\d{{1,2}})\b(?!\d)"
        r"|(?<![/\d])(\d{1,2})/(?!7\b|52\b|12\b|24\b|40\b)(\d{1,2})(?![/\d]*/\d{3}\b)(?:/\d{2,4})?\b(?!/)",
        re.IGNORECASE,
    ),
    "weekday": re.compile(
        r"\b(mon|tues?|wed(?:nes)?|thurs?|fri|sat(?:ur)?|sun)(?:day)?s?\b",
        re.IGNORECASE,
    ),
    "year": re.compile(r"\b((?:19|20)\d\d)\b"),
    "event": re.compile(
        r"\b(admission|admitted|arrival|arrived|came in|presentation|discharged?|d/c|left (?:the )?hospital"
        r"|went home|going home)\b",
        re.IGNORECASE,
    ),
    "relative day": re.compile(
        r"\b(today|tonight|this (?:morning|afternoon|evening)|yest(?:erday)?|last night)\b",
        re.IGNORECASE,
    ),
    "day of stay": re.compile(r"\bday (\d{1,2})\b", re.IGNORECASE),
}
_MAX_DAY = 31
_ADMISSION = ("admi", "arriv", "came", "present")
_TITLED_NAME = re.compile(
    r"\b(?:mr|mrs|ms|miss|master)\.? +([a-z][\w'’-]+)", re.IGNORECASE
)
_OTHER_PEOPLE = r"\b(?:donor|room-?mate|neighbou?r|co-?worker|colleague|friend|flatmate|housemate)\b"
_OTHER_PERSON = re.compile(_OTHER_PEOPLE, re.IGNORECASE)
OTHER_SUBJECT = re.compile(
    rf"{_OTHER_PEOPLE}(?=['’]s|:| (?:is|was|has|had|tested|carries|smokes|drinks|who|also|serology"
    r"|igg|igm|blood|sample|screen\w*|result|group|swab|status|positive|negative)\b)",
    re.IGNORECASE,
)
"""People who are no relatives, where a sentence speaks of them."""
_GENERAL = {Aspect.DRUG, Aspect.PROCEDURE, Aspect.STATE, Aspect.ALLERGY}

_FINDINGS = frozenset({"condition", "finding"})
_ORGANISMS = frozenset({"organism"})
_SHOWN = _FINDINGS | _ORGANISMS
"""What a test may show."""
_GROUPS = (
    DRUG_KINDS,
    frozenset({"measurement"}),
    _FINDINGS,
    frozenset({"procedure", "vaccine"}),
    _ORGANISMS,
    frozenset({"device"}),
)
"""Kinds of concepts that stand in the same place of a sentence."""


@cache
def _germ() -> Concept:
    """The concept of which organisms, and infections that are named after them, are kinds."""
    return named_things("germ")[0].concept


def names_organism(text: str) -> bool:
    """Whether a text names an organism, or an infection by its organism."""
    return any(is_kind_of(one.concept, _germ()) for one in named_things(text))


def group_of(concept: Concept) -> frozenset[str]:
    """Return the kinds of what could be confused with a concept."""
    return next(group for group in _GROUPS if concept.kind in group)


class Focus(NamedTuple):
    """What a question is about.

    `things` are what it names, the main one first; `words` are the stems of its other words of
    content. `person` is `PATIENT`, a relative of the patient or `ANY_RELATIVE`. `attributes` are the
    names of `attributes.tsv`. `asks_one_of` says that the answer names a kind of the main thing, `days`
    are those of `named_days`.
    """

    is_yes_no: bool
    things: tuple[Mention, ...]
    words: frozenset[str]
    person: str
    sites: frozenset[str]
    sides: frozenset[str]
    specimens: frozenset[str]
    attributes: frozenset[str]
    asks_one_of: bool
    asks_allergy: bool
    asks_if_allergic: bool
    asks_occurrence: bool
    asks_who: bool
    asks_this_stay: bool
    days: dict[str, frozenset[str]]
    names: frozenset[str]

    @property
    def kinds(self) -> frozenset[str]:
        """The kinds of concepts that could be confused with the main thing."""
        kinds: set[str] = set()
        for thing in self.things:
            if thing.start == self.things[0].start:
                kinds |= group_of(thing.concept)
                kinds |= _ORGANISMS if is_kind_of(thing.concept, _germ()) else set()
        return frozenset(kinds)

    @property
    def concepts_asked_together(self) -> tuple[Concept, ...]:
        """Several of one kind ("sodium and potassium"), none where there is only one."""
        concepts: list[Concept] = []
        start = -1
        for thing in self.things:
            if thing.start == start:
                continue  # Another meaning of the same words.
            start = thing.start
            is_same_group = thing.concept.kind in self.kinds
            is_known = any(
                is_kind_of(thing.concept, other) or is_kind_of(other, thing.concept)
                for other in concepts
            )
            if is_same_group and not is_known:
                concepts.append(thing.concept)
        return tuple(concepts) if len(concepts) > 1 else ()

    @property
    def is_about_finding(self) -> bool:
        """Whether the main thing is a finding or a condition."""
        return bool(self.things) and self.things[0].concept.kind in _FINDINGS


@lru_cache(maxsize=256)
def question_focus(question: str) -> Focus:
    """Return what a question is about."""
    asking = asking_part(question)
    person = _person(asking)
    # That a sentence names a drug does not say whether it is safe.
    is_yes_no = is_yes_no_question(asking) and not is_judgement(asking)
    main = main_part(_LEAD_IN.sub("", asking))
    things = _things(main)
    if is_yes_no and has_form("shows_something", main):
        # What a test shows is asked for, not the test.
        things = tuple(sorted(things, key=lambda one: one.concept.kind not in _SHOWN))
    if has_form("refers_back", asking):
        asking = " ".join(question.split())
        things = things or _things(question)[::-1]  # "It" is what was named last.
    attributes = set()
    for name, pattern in attribute_patterns("question").items():
        if pattern.search(asking):
            attributes.add(name)
    if "frequency" in attributes:
        attributes.discard("count")
    if not things or things[0].concept.kind not in DRUG_KINDS:
        attributes.discard("change")
    if things and _is_result(things[0].concept) and not (is_yes_no or attributes):
        attributes.add("value")
        things = tuple(thing for thing in things if thing.concept.kind == "measurement")
    spans = [(thing.start, thing.end) for thing in _things(main)]
    spans += body_part_spans(main)
    named = frozenset().union(*(stems(main[start:end]) for start, end in spans))
    carrying = cue_pattern("chart", "carries nothing").sub(" ", main)
    parts = body_parts(_NO_SIDE.sub(" ", _without_advisers(asking)))
    return Focus(
        is_yes_no=is_yes_no,
        things=things,
        words=frozenset(stems(carrying)) - named,
        person=person,
        sites=parts & site_names(),
        sides=parts & side_names(),
        specimens=parts & specimen_names(),
        attributes=frozenset(attributes),
        asks_one_of=_asks_one_of(asking, things),
        asks_allergy=has_form("may_be_allergy", question),
        asks_if_allergic=has_form("names_allergy", asking),
        asks_occurrence=is_yes_no and not has_form("wishes_or_plans", asking),
        asks_who=has_form("asks_who", asking),
        asks_this_stay=has_form("is_of_this_stay", asking),
        days=named_days(asking),
        names=named_people(question),
    )


def _without_advisers(text: str) -> str:
    return _ADVISERS.sub(lambda match: " " * len(match[0]), text)


def named_days(text: str) -> dict[str, frozenset[str]]:
    """Return the days of a month, weekdays, years and days of a stay that a text names, by kind."""
    days = {}
    for kind, pattern in _DAYS.items():
        named = set()
        for groups in pattern.findall(text):
            for value in (groups,) if isinstance(groups, str) else groups:
                if value.isdigit() and (kind != "day" or int(value) <= _MAX_DAY):
                    named.add(value.lstrip("0"))
                elif kind == "weekday":
                    named.add(value[:3].lower())
                elif kind == "relative day":
                    is_today = value.lower().startswith("to") or "this" in value.lower()
                    named.add("today" if is_today else "yesterday")
                elif kind == "event":
                    is_admission = value.lower().startswith(_ADMISSION)
                    named.add("admission" if is_admission else "discharge")
        if named:
            days[kind] = frozenset(named)
    return days


def _is_result(concept: Concept) -> bool:
    return concept.kind == "measurement" and measurement_kind(concept) != "other"


def named_people(text: str) -> frozenset[str]:
    """Return the family names that follow a title, in lower case."""
    return frozenset(map(str.lower, _TITLED_NAME.findall(text)))


def network_question(question: str) -> str:
    """Return a question without sentences of background that it does not refer back to."""
    asking = asking_part(question)
    return question if has_form("refers_back", asking) else asking


def asking_part(question: str) -> str:
    """Return the sentences of a question that ask, all of it where none does."""
    asking, _ = asking_sentences(question, _SENTENCE_END, _ASKS)
    return " ".join(asking)


@cache
def attribute_patterns(role: str) -> dict[str, re.Pattern[str]]:
    """Return the patterns by attribute: of a `question`, or of the words that `answer` it."""
    patterns = {}
    for name, row_role, pattern in read_rows("notes/data/attributes.tsv", 3):
        if row_role == role:
            patterns[name] = re.compile(pattern, re.IGNORECASE)
    return patterns


def _things(text: str) -> tuple[Mention, ...]:
    """Return what a text names, without what is general: "medicine", "surgery", "normal"."""
    things = []
    for mention in named_things(_without_advisers(text)):
        concept = mention.concept
        is_general = concept.kind == "finding" and concept.aspect in _GENERAL
        if not is_general:
            things.append(mention)
    return tuple(things)


def _person(text: str) -> str:
    """Return about whom a question is: "his father" is a relative, "my father" the patient."""
    other = _OTHER_PERSON.search(text)
    if other:
        return other[0].lower()
    for match in _RELATIVE_OF_PATIENT.finditer(text):
        named = relatives_named(match[1])
        if named:
            return named[0]
    return ANY_RELATIVE if question_form(text).asks_family else PATIENT


def _asks_one_of(text: str, things: tuple[Mention, ...]) -> bool:
    """Whether a question asks which one of a class: "which antibiotics", "what germ"."""
    if not things or things[0].concept.kind not in {"drug_class", "organism"}:
        return False
    before = text[: things[0].start].split()[-3:]
    asks_name = has_form("asks_name", text)
    return asks_name or has_form("asks_one_of", " ".join(before))
