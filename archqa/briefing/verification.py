"""Checks a line against the evidence it cites: numbers, dates, drugs, changes, and its rows."""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from decimal import Decimal
from enum import StrEnum
from functools import cache
from typing import Any

from archqa.agents.grounding import ungrounded_drugs, ungrounded_numbers
from archqa.asking.answer import Evidence
from archqa.briefing.notes import QUOTE_MARKS, NoteSentence
from archqa.briefing.patient_rows import (
    FELL,
    MAX_LISTED,
    ROSE,
    LineDraft,
    PatientRows,
    whole_name,
)
from archqa.fhir import Resource
from archqa.fhir.views.projection import DROPPED
from archqa.fhir.views.resolver import display_name
from archqa.query.execution.elements import concept_names, text_at
from archqa.query.execution.medications import dosage_facts
from archqa.query.wording.rows import unit_text
from archqa.query.wording.words import number_text
from archqa.terminology.drugs import ingredients_of, read_drugs
from archqa.terminology.words import word_list

_LEFT_OUT = (DROPPED - {"contained"}) | word_list("element not told")
"""Members that no line tells: who was there, links, what holds for every resource of its kind."""

_OF_PATIENT = ("gender", "birthDate", "deceasedDateTime", "deceasedBoolean")
"""Members of a Patient that a line tells; name and address stay where they are."""

_DATES = (
    "effectiveDateTime",
    "onsetDateTime",
    "authoredOn",
    "performedDateTime",
    "recordedDate",
    "period.start",
    "performedPeriod.start",
    "effectivePeriod.start",
    "onsetPeriod.start",
    "effectiveInstant",
    "whenHandedOver",
    "dateAsserted",
    "onsetString",
    "occurrenceDateTime",
    "date",
)

_QUOTE = re.compile(r"“([^“”]+)”")
_WORD = re.compile(r"[^\W\d_]{2,}")
_SEPARATOR = re.compile(r"; |: |, | / |\n")
_TIMESTAMP = re.compile(
    r"\d{4}-\d{2}(?:-\d{2})?"
    r"(?:[T ]\d{2}:\d{2}(?::\d{2}(?:\.\d+)?)?)?(?:Z|[+-]\d{2}:\d{2})?"
)
_YEAR = re.compile(
    r"\b(?:on|since|from|to|of|at|ordered|recorded|resolved) (\d{4})\b(?![-./\d])"
)
_COUNT = re.compile(r"\b(\d+) (?:times|orders)\b(?! (?:an?|every|per|daily)\b)")
_MORE = re.compile(r"\band (\d+) more\b")
_DECIMAL = re.compile(r"(?<!\d)\d++\.\d{3,}(?:e-?\d+)?")
_DATE_OF_VALUE = r"(?: on \d{4}[\d-]*(?: \d{2}:\d{2})?)?"
_UNIT = r"(?: (?!on )(?:10\^|[^\s\d])\S*){0,3}?"
_CHANGE = re.compile(
    rf"(?<![\w.])(-?\d+(?:\.\d+)?)(?=[\s,;]){_UNIT}{_DATE_OF_VALUE}"
    rf"(?: \([^)]{{0,200}}\))?[,;]? ({ROSE}|{FELL}) (-?\d+(?:\.\d+)?)"
)
"""A value, its unit, date and flag, `rose from`, and the value before."""


class Problem(StrEnum):
    """What the evidence that a line cites does not confirm of it."""

    EVIDENCE = "what it cites is not in the record"
    ROW = "what it cites does not confirm a row"
    WORD = "a word is not in what it cites"
    QUOTATION = "a quotation is not in what it cites"
    DATE = "a date is not in what it cites"
    COUNT = "a count is not that of what it cites"
    NUMBER = "a number is not in what it cites"
    DRUG = "a drug is not in what it cites"
    CHANGE = "a change goes the wrong way"


class EvidenceTexts:
    """The texts of what lines cite, each read once."""

    def __init__(
        self, patient: PatientRows, sentences: Iterable[NoteSentence] = ()
    ) -> None:
        self._patient = patient
        self._sentences = {sentence.id: sentence for sentence in sentences}
        self._texts: dict[str, str] = {}

    def text(self, citation: str) -> str:
        """Return what a cited resource or sentence says; empty if the record has none."""
        if citation not in self._texts:
            if citation in self._sentences:
                self._texts[citation] = self._sentences[citation].text
            else:
                # Of a resource without a date also the type and time of its visit:
                resource = self._patient.read(citation)
                texts = [resource_text(resource)]
                if not text_at(resource, *_DATES):
                    visit = self._visit(resource)
                    members = {"type": visit.get("type"), "period": visit.get("period")}
                    if any(members.values()):
                        texts.append(f"encounter: {', '.join(_member_texts(members))}")
                self._texts[citation] = "; ".join(filter(None, texts))
        return self._texts[citation]

    def sources(self, citations: Iterable[str]) -> str:
        """Return all that may be told of cited evidence: also title, author and date of a note."""
        cited = list(citations)
        texts = list(map(self.text, cited))
        for citation in cited:
            sentence = self._sentences.get(citation)
            if sentence is not None:
                texts.append(f"{sentence.source}\n{sentence.date}")
        return "\n".join(texts)

    def evidence(self, citation: str) -> Evidence:
        """Return the evidence that is shown."""
        sentence = self._sentences.get(citation)
        if sentence is not None:
            return Evidence(
                id=citation,
                kind="sentence",
                text=sentence.text,
                source=sentence.source,
                date=sentence.date,
            )
        resource = self._patient.read(citation)
        date = text_at(resource, *_DATES) or text_at(self._visit(resource), *_DATES)
        return Evidence.of_resource(citation, self.text(citation), date)

    def _visit(self, resource: Resource) -> Resource:
        reference = text_at(resource, "encounter.reference")
        return self._patient.visit(reference) if reference else {}


def resource_text(resource: Mapping[str, Any]) -> str:
    """Return what a resource says, without ids, links and codes: `code: Aspirin; onset: 1978`."""
    if resource.get("resourceType") == "Medication":
        # In MIMIC-IV its name is an identifier.
        name = display_name(dict(resource))
        members = {"code": name, "ingredient": resource.get("ingredient")}
        return "; ".join(_member_texts(members)) or "a product without a name"
    if resource.get("resourceType") == "Patient":
        resource = {name: resource[name] for name in _OF_PATIENT if name in resource}
    return "; ".join(_member_texts(resource))


def _member_texts(element: Mapping[str, Any]) -> Iterator[str]:
    for name, value in element.items():
        # `text` is a resource's narrative, which no line tells, or an instruction.
        is_instruction = name == "text" and isinstance(value, str)
        if not is_instruction and (name in _LEFT_OUT or name.startswith("_")):
            continue
        text = _value_text(value)
        if name == "timing":
            frequency = dosage_facts([{name: value}]).get("frequency", ())
            text = f"{text} ({', '.join(frequency)})"
        if text:
            yield f"{name}: {text}"


def _value_text(value: Any) -> str:
    if isinstance(value, list):
        return ", ".join(filter(None, map(_value_text, value)))
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float):
        return format(Decimal(str(value)), "f")
    if not isinstance(value, Mapping):
        return "" if value is None else str(value)
    if "coding" in value or ("code" in value and "display" in value):
        concept = value if "coding" in value else {"coding": [value]}
        return " / ".join(concept_names(concept))
    if "reference" in value:
        return str(value.get("display") or "")
    if "value" in value and not isinstance(value["value"], Mapping):
        unit = value.get("unit") or value.get("code") or ""
        return (
            f"{value.get('comparator', '')}{_value_text(value['value'])} {unit}".strip()
        )
    return ", ".join(_member_texts(value))


def confirmed(
    drafts: Iterable[LineDraft], evidence: EvidenceTexts, patient: PatientRows
) -> list[LineDraft]:
    """Return the lines that their evidence confirms."""
    lines = []
    for draft in drafts:
        if find_problem(draft, evidence, patient) is None:
            lines.append(draft)
    return lines


def find_problem(
    draft: LineDraft, evidence: EvidenceTexts, patient: PatientRows
) -> Problem | None:
    """Return what the cited evidence does not confirm of a line; None if it confirms all."""
    if not draft.citations or not all(map(evidence.text, draft.citations)):
        return Problem.EVIDENCE
    if draft.rows:
        # The words for rows are those of an answer; what has to be true are the rows.
        is_confirmed = not any(map(patient.support.problem, draft.rows))
        return None if is_confirmed else Problem.ROW
    sources = evidence.sources(draft.citations)
    # Lines write names and units as people do.
    names = map(whole_name, _SEPARATOR.split(sources))
    units = map(unit_text, sources.split())
    known = _words("\n".join([sources, *names, *units])) | word_list("line")
    if not _words(_without_quotes(draft.text, sources)) <= known:
        return Problem.WORD
    return text_problem(draft.text, draft.citations, sources)


def _words(text: str) -> set[str]:
    return set(map(str.casefold, _WORD.findall(text)))


def text_problem(
    text: str, citations: Sequence[str], sources: str, counts: Iterable[int] = ()
) -> Problem | None:
    """Return what of a text its sources do not have: a date, a number, a drug; or a wrong change.

    `counts` are those that lines told which the text was written from. A quotation must stand in
    the sources as it is; then nothing else is asked of it.
    """
    text = _without_quotes(text, sources)
    if _QUOTE.search(text):
        return Problem.QUOTATION
    if _has_wrong_date(text, sources):
        return Problem.DATE
    # The numbers of cited resources of each type, and of those that a list may leave out.
    known_counts = set(counts)
    for count in Counter(citation.partition("/")[0] for citation in citations).values():
        known_counts.update((count, count - 1, count - MAX_LISTED))
    if not stated_counts(text) <= known_counts:
        return Problem.COUNT
    if _has_wrong_number(text, sources):
        return Problem.NUMBER
    if ungrounded_drugs(text, sources) or not named_drugs(text) <= named_drugs(sources):
        return Problem.DRUG
    changes = _CHANGE.findall(text)
    if len(changes) != text.count(ROSE) + text.count(FELL):
        return Problem.CHANGE  # It does not stand between two values.
    for new, change, old in changes:
        if (change == ROSE) != (float(new) > float(old)) or float(new) == float(old):
            return Problem.CHANGE
    return None


def _without_quotes(text: str, sources: str) -> str:
    """The text without the quotations that stand in the sources."""
    plain = " ".join(sources.translate(QUOTE_MARKS).split())
    return _QUOTE.sub(lambda quote: "“”" if quote[1] in plain else quote[0], text)


def _has_wrong_date(text: str, sources: str) -> bool:
    recorded = sources.replace("T", " ")
    for date in _TIMESTAMP.findall(text):
        if date.replace("T", " ") not in recorded:
            return True
    years = _YEAR.findall(_TIMESTAMP.sub(" ", text))
    return not set(years) <= set(re.findall(r"\d{4}", recorded))


def stated_counts(text: str) -> set[int]:
    """Return how often a text says that something is recorded, and how many more there are."""
    return set(map(int, [*_COUNT.findall(text), *_MORE.findall(text)]))


def _has_wrong_number(text: str, sources: str) -> bool:
    """Whether a number is not in the sources, where those of dates do not count."""
    for pattern in (_TIMESTAMP, _COUNT, _MORE, _YEAR):
        text = pattern.sub(" ", text)
    recorded = _TIMESTAMP.sub(" ", sources)
    rounded = " ".join(map(number_text, map(float, _DECIMAL.findall(recorded))))
    return bool(ungrounded_numbers(text, f"{recorded} {rounded}"))


def named_drugs(text: str) -> set[str]:
    """Return the ingredients that a text names; brands count as their ingredients."""
    return set(ingredients_of(text)) & _known_ingredients()


@cache
def _known_ingredients() -> frozenset[str]:
    ingredients: set[str] = set()
    for drug in read_drugs():
        ingredients.update(drug.ingredients)
    return frozenset(ingredients)
