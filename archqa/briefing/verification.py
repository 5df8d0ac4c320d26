"""Checks a line against the evidence it cites: numbers, dates, drugs, arrows, and its rows."""

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from functools import cache

from archqa.agents.grounding import ungrounded_drugs, ungrounded_numbers
from archqa.asking.record_lines import unit_text
from archqa.asking.record_words import number_text
from archqa.briefing.drafts import LineDraft
from archqa.briefing.evidence import EvidenceTexts
from archqa.briefing.note_lines import QUOTE_MARKS
from archqa.briefing.patient_rows import PatientRows, whole_name
from archqa.briefing.trends import ARROWS, arrow
from archqa.terminology.drugs import ingredients_of, read_drugs
from archqa.terminology.words import word_list

_QUOTE = re.compile(r"“([^“”]+)”")
_WORD = re.compile(r"[^\W\d_]{2,}")
_SEPARATOR = re.compile(r"; |: |, | / |\n")

MAX_LISTED = 5
"""Names that a line lists; of more, it says how many there are."""

_TIMESTAMP = re.compile(
    r"\d{4}-\d{2}(?:-\d{2})?"
    r"(?:[T ]\d{2}:\d{2}(?::\d{2}(?:\.\d+)?)?)?(?:Z|[+-]\d{2}:\d{2})?"
)
_YEAR = re.compile(r"\b(?:on|since|from|to|of|at|ordered|recorded|resolved) (\d{4})\b(?![-./\d])")
_COUNT = re.compile(r"\b(\d+) (?:times|orders)\b(?! (?:an?|every|per|daily)\b)")
_MORE = re.compile(r"\band (\d+) more\b")
_DECIMAL = re.compile(r"\d+\.\d{3,}(?:e-?\d+)?")
_DATE_OF_VALUE = r"(?: on \d{4}[\d-]*(?: \d{2}:\d{2})?)?"
_UNIT = r"(?: (?!on )(?:10\^|[^\s\d])\S*){0,3}?"
_ARROW = re.compile(
    rf"(?<![\w.])(-?\d+(?:\.\d+)?)(?=[\s,;]){_UNIT}{_DATE_OF_VALUE}[,;]? "
    r"([↑↓→]) (?:unchanged )?(?:from )?(-?\d+(?:\.\d+)?)"
)
"""A value, its unit and date, an arrow, and the value before."""


def problem(draft: LineDraft, evidence: EvidenceTexts, patient: PatientRows) -> str:
    """Return what the cited evidence does not confirm of a line; empty if it confirms all."""
    if not draft.citations or not all(map(evidence.text, draft.citations)):
        return "what it cites is not in the record"
    for row in draft.rows:
        unconfirmed = patient.support.problem(row)
        if unconfirmed:
            return unconfirmed
    sources = evidence.sources(draft.citations)
    if _words(_without_quotes(draft.text, sources)) - _words(_shown(sources)) - word_list("line"):
        return "a word is not in what it cites"
    return text_problem(draft.text, draft.citations, sources)


def _words(text: str) -> set[str]:
    return {word.casefold() for word in _WORD.findall(text)}


def _shown(sources: str) -> str:
    """The sources with their names and units as lines write them, too."""
    names = [whole_name(name) for name in _SEPARATOR.split(sources)]
    units = [unit_text(unit) for unit in sources.split()]
    return "\n".join([sources, *names, *units])


def text_problem(
    text: str, citations: Sequence[str], sources: str, counts: Iterable[int] = ()
) -> str:
    """Return what of a text its sources do not have: a date, a number, a drug; or a wrong arrow.

    `counts` are those that lines told which the text was written from. A quotation must stand in
    the sources as it is; then nothing else is asked of it.
    """
    text = _without_quotes(text, sources)
    if _QUOTE.search(text):
        return "a quotation is not in what it cites"
    if _has_wrong_date(text, sources):
        return "a date is not in what it cites"
    if not told_counts(text) <= {*counts, *_counts_of(citations)}:
        return "a count is not that of what it cites"
    if _has_wrong_number(text, sources):
        return "a number is not in what it cites"
    if ungrounded_drugs(text, sources) or not named_drugs(text) <= named_drugs(sources):
        return "a drug is not in what it cites"
    if _has_wrong_arrow(text):
        return "an arrow points the wrong way"
    return ""


def _without_quotes(text: str, sources: str) -> str:
    """The text without the quotations that stand in the sources."""
    plain = " ".join(sources.translate(QUOTE_MARKS).split())
    return _QUOTE.sub(lambda quote: "“”" if quote[1] in plain else quote[0], text)


def _has_wrong_date(text: str, sources: str) -> bool:
    recorded = sources.replace("T", " ")
    dates = [date.replace("T", " ") for date in _TIMESTAMP.findall(text)]
    years = _YEAR.findall(_TIMESTAMP.sub(" ", text))
    known_years = set(re.findall(r"\d{4}", recorded))
    return not (all(date in recorded for date in dates) and known_years.issuperset(years))


def told_counts(text: str) -> set[int]:
    """Return how often a text says that something is recorded, and how many more there are."""
    return {int(number) for pattern in (_COUNT, _MORE) for number in pattern.findall(text)}


def _counts_of(citations: Sequence[str]) -> set[int]:
    """The numbers of cited resources of each type, and of those that a list may leave out."""
    by_type = Counter(citation.partition("/")[0] for citation in citations).values()
    return {*by_type, *(count - 1 for count in by_type), *(count - MAX_LISTED for count in by_type)}


def _has_wrong_number(text: str, sources: str) -> bool:
    """Whether a number is not in the sources, where those of dates do not count."""
    told = _TIMESTAMP.sub(" ", text)
    for pattern in (_COUNT, _MORE, _YEAR):
        told = pattern.sub(" ", told)
    recorded = _TIMESTAMP.sub(" ", sources)
    rounded = " ".join(number_text(float(number)) for number in _DECIMAL.findall(recorded))
    return bool(ungrounded_numbers(told, f"{recorded} {rounded}"))


def named_drugs(text: str) -> set[str]:
    """Return the ingredients that a text names; brands count as their ingredients."""
    return set(ingredients_of(text)) & _known_ingredients()


@cache
def _known_ingredients() -> frozenset[str]:
    return frozenset(name for drug in read_drugs() for name in drug.ingredients)


def _has_wrong_arrow(text: str) -> bool:
    """Whether an arrow does not stand between two values, or does not say which is higher."""
    found = _ARROW.findall(text)
    if len(found) != sum(text.count(each) for each in ARROWS):
        return True
    return any(told != arrow(float(new), float(old)) for new, told, old in found)


def confirmed(
    drafts: Iterable[LineDraft], evidence: EvidenceTexts, patient: PatientRows
) -> tuple[list[LineDraft], int]:
    """Return the lines that their evidence confirms, and how many it does not."""
    kept, rejected = [], 0
    for draft in drafts:
        if problem(draft, evidence, patient):
            rejected += 1
        else:
            kept.append(draft)
    return kept, rejected
