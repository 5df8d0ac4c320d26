"""Details that identify or reach the patient: they are shown only where the question asks for them."""

import json
import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from archqa.core.tables import read_rows

PERSONAL_DETAILS = frozenset({"identifier", "contact", "address", "phone", "email", "patient_name"})
"""Facts of a patient's row."""

_NOT_ASKING = "other"
_GAP = re.escape(" .. ")
_UP_TO_SIX_WORDS = r"\s(?:\S+\s){0,6}"
_OF_A_PATIENT = frozenset(
    {"resourceType", "id", "active", "gender", "birthDate", "deceasedBoolean", "deceasedDateTime"}
    | {"maritalStatus", "multipleBirthBoolean", "multipleBirthInteger", "communication"}
    | {"generalPractitioner", "managingOrganization"}
)
_THE_PATIENT = frozenset({"subject", "patient", "beneficiary", "subscriber", "policyHolder"})
"""Fields of other resources that name the patient, which every one of them does."""

_DETAIL_OF_FIELD = {
    "identifier": "identifier",
    "subscriberId": "identifier",
    "address": "address",
    "contact": "contact",
}
_NAME_OF_PATIENT = {"name": "patient_name"}
"""The name of a related person is shown: who is the proxy?"""

_COARSE_ADDRESS = ("city", "state", "country")


class AskedDetails(NamedTuple):
    """Which of `PERSONAL_DETAILS` a question asks for, and which types of identifiers; () for all."""

    details: frozenset[str]
    identifier_types: tuple[re.Pattern[str], ...] = ()

    def identifiers(self, identifiers: Iterable[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
        """Return those that are asked for; where none has the type, those without a type."""
        if "identifier" not in self.details:
            return []
        every = list(identifiers)
        if not self.identifier_types:
            return every
        typed = [each for each in every if self._is_of_type(each)]
        return typed or [each for each in every if "type" not in each]

    def _is_of_type(self, identifier: Mapping[str, Any]) -> bool:
        told = {"type": identifier.get("type", ""), "system": identifier.get("system", "")}
        text = json.dumps(told, ensure_ascii=False).casefold()
        return any(pattern.search(text) for pattern in self.identifier_types)


def asked_details(question: str) -> AskedDetails:
    """Return what of the person a question asks for."""
    text = question.casefold().replace("’", "'")
    rows = read_rows("asking/data/personal_details.tsv", 3)
    words_of = {detail: _pattern(words) for kind, detail, words in rows if kind == "detail"}
    other = words_of.pop(_NOT_ASKING)
    asked = frozenset(detail for detail, words in words_of.items() if _names(text, words, other))
    identifiers = [(words, of_type) for kind, words, of_type in rows if kind == "identifier"]
    types = [_pattern(of_type) for words, of_type in identifiers if _pattern(words).search(text)]
    return AskedDetails(asked, tuple(types))


def _names(text: str, words: re.Pattern[str], other: re.Pattern[str]) -> bool:
    """Whether a text has one of the words, not as a part of what means something else."""

    def kept(match: re.Match[str]) -> str:
        return match[0] if words.fullmatch(match[0]) else " "

    return words.search(other.sub(kept, text)) is not None


def without_personal_details(resource: Mapping[str, Any], asked: AskedDetails) -> dict[str, Any]:
    """Return a resource without what identifies or reaches the patient, but for what is asked."""
    is_patient = resource.get("resourceType") == "Patient"
    fields = _of_patient(resource, asked) if is_patient else _of_other(resource, asked)
    return {field: value for field, value in fields if value not in ([], {})}


def without_words(text: str, words: Collection[str]) -> str:
    """Return a text in which these words, in any case, are replaced by an ellipsis."""
    if not words:
        return text
    longest_first = sorted(words, key=len, reverse=True)
    pattern = "|".join(map(re.escape, longest_first))
    return re.sub(rf"(?<!\w)(?:{pattern})(?!\w)", "…", text, flags=re.IGNORECASE)


def _of_patient(resource: Mapping[str, Any], asked: AskedDetails) -> Iterator[tuple[str, Any]]:
    for field, value in resource.items():
        detail = (_DETAIL_OF_FIELD | _NAME_OF_PATIENT).get(field, "")
        if field == "identifier":
            yield field, asked.identifiers(value)
        elif field in _OF_A_PATIENT or detail in asked.details:
            yield field, value
        elif field == "address":
            yield field, [_coarse_address(each) for each in value]
        elif field == "telecom":
            yield field, _telecom(value, asked.details)


def _of_other(resource: Mapping[str, Any], asked: AskedDetails) -> Iterator[tuple[str, Any]]:
    for field, value in resource.items():
        if field == "telecom":
            is_contact = "contact" in asked.details
            yield field, value if is_contact else _telecom(value, asked.details)
        elif field in _DETAIL_OF_FIELD:
            if _DETAIL_OF_FIELD[field] in asked.details:
                yield field, value
        elif field not in _THE_PATIENT:
            yield field, value


def _telecom(value: Iterable[Mapping[str, Any]], asked: frozenset[str]) -> list[Any]:
    """Return the ways to reach a person that are asked for."""
    return [
        each for each in value if ("email" if each.get("system") == "email" else "phone") in asked
    ]


def _coarse_address(address: Mapping[str, Any]) -> dict[str, Any]:
    return {field: address[field] for field in _COARSE_ADDRESS if field in address}


def _pattern(words: str) -> re.Pattern[str]:
    """Return the pattern of words between bars."""
    longest_first = sorted(words.split("|"), key=len, reverse=True)
    forms = [re.escape(form).replace(_GAP, _UP_TO_SIX_WORDS) for form in longest_first]
    return re.compile(rf"(?<!\w)(?:{'|'.join(forms)})(?!\w)")
