"""What a line states and its sources do not, found without a model: numbers, drugs, people, sides, denials."""

import re
from collections.abc import Mapping, Sequence
from enum import StrEnum

from archqa.core.id_lists import list_ids
from archqa.notes.assertion import (
    Assertion,
    Passage,
    assertions,
    find_cues,
    person_of,
)
from archqa.notes.focus import PATIENT, question_focus
from archqa.terminology.concept import Aspect
from archqa.terminology.concepts import named_things
from archqa.terminology.glossary import explain_terms
from archqa.terminology.people import body_parts, relatives_named, side_names
from archqa.terminology.words import word_list

_THOUSANDS = re.compile(r"(?<=\d),(?=\d{3}(?!\d))")
_NUMBER = re.compile(r"\d*\.\d+|\d+")
_NUMBER_OF_WORD = dict(pair.split("=") for pair in word_list("word=number"))
_WORD = re.compile(r"[^\W\d_]+")
_WORD_OR_COMPARATOR = re.compile(r"[^\W\d_]+|[<>≤≥]")
_MONTHS = "jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec"
_MONTH_NAME = re.compile(
    rf"\b({_MONTHS})[a-z]*\b(?=\.?,?\s*'?\d)|(?<=\d)(?:st|nd|rd|th)?\s*({_MONTHS})[a-z]*\b",
    re.IGNORECASE,
)
_SHORT_YEAR = re.compile(r"(?<=[/'])\d\d\b")
_CENTURIES = (1900, 2000)

_DRUG_STEMS = (
    "olol|pril|sartan|statin|dipine|semide|thiazide|xaban|parin|grel|dronate|mycin|micin|cillin|"
    "floxacin|cycline|penem|bactam|azole|fungin|ciclovir|cyclovir|navir|buvir|zolid|vancin|tidine|"
    "setron|triptan|triptyline|oxetine|azepine|zodone|peridone|tiapine|zapine|thazine|perazine|"
    "zepam|zolam|barbital|caine|codone|morphone|fentanil|profen|coxib|tinib|mab|platin|rubicin|"
    "taxel|gliptin|gliflozin|glitazone|glutide|formin|lukast|nisone|nisolone|methasone|buterol|"
    "meterol|moterol|stigmine|curonium|afil"
)
_DRUG = re.compile(
    rf"\b(?:[a-z]{{2,}}(?:{_DRUG_STEMS})|cef[a-z]{{3,}})\b", re.IGNORECASE
)
"""Names by the stems that the WHO gives out ("The use of stems in the selection of INN")."""


def ungrounded_numbers(text: str, sources: str) -> tuple[str, ...]:
    """Return the numbers of `text`, as written, that `sources` have neither in figures nor words.

    Numbers are compared by value: 0.50 is .5, and 38,000 is 38000.
    """
    known = {float(number) for number in _numbers(sources)}
    for word in _WORD.findall(sources.casefold()):
        if word in _NUMBER_OF_WORD:
            known.add(float(_NUMBER_OF_WORD[word]))
    missing = [number for number in _numbers(text) if float(number) not in known]
    return tuple(dict.fromkeys(missing))


def dates_in_figures(text: str) -> str:
    """Return the numbers by which the dates of a text may be written otherwise.

    They are the months that it names beside a number, and both years that `02/24` may mean.
    """
    month_names = _MONTHS.split("|")
    numbers = []
    for match in _MONTH_NAME.finditer(text):
        month = (match[1] or match[2]).lower()
        numbers.append(month_names.index(month) + 1)
    for year in _SHORT_YEAR.findall(text):
        for century in _CENTURIES:
            numbers.append(int(year) + century)
    return " ".join(map(str, numbers))


def ungrounded_drugs(text: str, sources: str) -> tuple[str, ...]:
    """Return the drug names of `text` that `sources` have neither as such nor as a known brand."""
    explanations = "\n".join(explain_terms(sources))
    known = f"{sources}\n{explanations}".casefold()
    missing = [name for name in _DRUG.findall(text) if name.casefold() not in known]
    return tuple(dict.fromkeys(missing))


def line_problems(
    text: str,
    number: int,
    citations: Sequence[str],
    sources: Mapping[str, str],
    *,
    noun: str,
    also: str = "",
) -> list[str]:
    """Return what is wrong with line `number`, for its writer.

    It cites `sources` that were shown, by id, and has their numbers and drugs or those that `also`
    has; dates may be written in another form. `noun` is the word for a source.
    """
    if not text.strip():
        return [f"Line {number} is empty."]
    if "|" in text:
        return [f'Line {number}: leave pipes out of the text; ids go into "citations".']
    if not citations:
        return [f"Line {number} cites nothing. Name the {noun}s that state it."]
    unknown = sorted(set(citations) - set(sources))
    if unknown:
        return [f"Line {number} cites {list_ids(unknown)}, which you were not shown."]
    cited = ", ".join(citations)
    known = "\n".join([*(sources[citation] for citation in citations), also])
    problems = []
    numbers = ungrounded_numbers(text, f"{known}\n{dates_in_figures(known)}")
    if numbers:
        problems.append(
            f"Line {number}: {', '.join(numbers)} does not stand in {cited}. Write numbers as the "
            f"cited {noun}s do, or cite the {noun} that has them."
        )
    drugs = ungrounded_drugs(text, known)
    if drugs:
        problems.append(
            f"Line {number}: {', '.join(drugs)} does not stand in {cited}. Call a drug as the "
            f"cited {noun}s do, or cite the {noun} that names it."
        )
    return problems


def states_result(line: str, row: str, question: str) -> bool:
    """Whether a line says no more than a result of the record (`row`), which answers the question.

    It has a number; its numbers, its words and what it names are those of the row. Of the row it
    leaves out nothing but flags, dates and the like. The row has what the question names. Anything
    else is for a check to judge.
    """
    if not _numbers(line) or ungrounded_numbers(f"{line} {question}", row):
        return False
    in_row = {thing.concept for thing in named_things(row)}
    in_question = {thing.concept for thing in named_things(question)}
    if not in_question or not in_question <= in_row:
        return False
    names: set[str] = set()
    for text in (line, row):
        for thing in named_things(text):
            if thing.concept in in_row:
                names |= _words(text[thing.start : thing.end])
    line_words, row_words = _words(line) - names, _words(row) - names
    is_of_row = line_words <= row_words | word_list("result")
    return is_of_row and row_words <= line_words | word_list("line", "result")


def _words(text: str) -> set[str]:
    return set(_WORD_OR_COMPARATOR.findall(text.casefold()))


class Conflict(StrEnum):
    """How a line contradicts all that its sources state of the same thing."""

    PERSON = "the sources state it of another person"
    SIDE = "the sources name the other side"
    ABSENT = "the sources deny it"
    OPEN = "the sources leave it open"
    PLANNED = "the sources only plan it"
    PRESENT = "the sources affirm it"


_OPENING = re.compile(r"^\W*(?:no|uncertain|not stated)\s*[.,;:]", re.IGNORECASE)
_STATES = re.compile(
    r"\b(?:yes|(?:is|are)(?! (?:to|being|due|going)\b)|was|were|has|had|received|underwent)\b",
    re.IGNORECASE,
)


def find_conflict(
    line: str, sources: Sequence[Passage], question: str
) -> Conflict | None:
    """Return how a line contradicts its sources; None where it may be a paraphrase of them.

    The answer to a question about a relative need not name the relative.
    """
    line = _OPENING.sub("", line)
    # A line that hedges, or denies something else, may be as careful as its sources.
    is_plain = {cue.kind for cue in find_cues(line)} <= {"past", "boundary"}
    is_statement = is_plain and _STATES.search(line) is not None
    names_others = question_focus(question).person != PATIENT or relatives_named(line)
    for thing in named_things(line):
        people, stated = set(), []
        for source in sources:
            for one in named_things(source.text):
                if (one.concept, one.relation) == (thing.concept, thing.relation):
                    people.add(person_of(source, one.start, one.end))
                    stated.append(assertions(source.text, one.start, one.end))
        if not stated:
            continue
        person = person_of(Passage(line), thing.start, thing.end)
        if is_plain and not names_others and person == PATIENT not in people:
            return Conflict.PERSON
        for kind in (Assertion.ABSENT, Assertion.OPEN, Assertion.PLANNED):
            if is_statement and all(kind in one for one in stated):
                return Conflict[kind.name]
        is_finding = thing.concept.aspect is Aspect.FINDING
        if (
            _denies(line, thing.start)
            and is_finding
            and set().union(*stated) == {Assertion.PRESENT}
        ):
            return Conflict.PRESENT
    parts = body_parts(line)
    named = body_parts("\n".join(f"{one.heading} {one.text}" for one in sources))
    shared, sides = parts & named, side_names()
    if shared and not shared & sides and parts & sides and named & sides:
        return Conflict.SIDE
    return None


_DENIAL = re.compile(r"(?:\s+[\w-]+){0,3}\s+")


def _denies(line: str, position: int) -> bool:
    """Whether a word that denies stands just before what begins here ("no sign of pneumonia").

    One that stands further away may deny something else: "No further imaging is needed: the CT
    showed the nodule".
    """
    for cue in find_cues(line):
        is_before = cue.kind == "absent" and cue.reaches_after and cue.end < position
        if is_before and _DENIAL.fullmatch(line, cue.end, position):
            return True
    return False


def names_words_of(question: str, words: Sequence[str]) -> bool:
    """Whether words that were not understood are named, and all of them stand in the question."""
    are_named = False
    for word in map(folded, words):
        if word and word not in folded(question):
            return False
        are_named = are_named or bool(word)
    return are_named


def folded(text: str) -> str:
    """Return a text in small letters with single spaces, to compare."""
    return " ".join(text.casefold().split())


def _numbers(text: str) -> list[str]:
    return _NUMBER.findall(_THOUSANDS.sub("", text))
