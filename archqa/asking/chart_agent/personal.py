"""Details that identify or reach the patient: they are shown only where the question asks for them."""

import re
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import Any

from archqa.resources import table_rows

PERSONAL_DETAILS = frozenset({"identifier", "contact", "address", "phone", "email", "patient_name"})
"""Facts of a patient's row."""

_TABLE = Path(__file__).parents[1] / "data" / "personal_details.tsv"
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


def asked_details(question: str) -> frozenset[str]:
    """Return which of `PERSONAL_DETAILS` a question asks for."""
    words_of = dict(_words_by_detail())
    text = words_of.pop(_NOT_ASKING).sub(" ", question.casefold().replace("’", "'"))
    return frozenset(detail for detail, words in words_of.items() if words.search(text))


def without_personal_details(resource: Mapping[str, Any], asked: frozenset[str]) -> dict[str, Any]:
    """Return a resource without what identifies or reaches the patient, but for what is asked."""
    is_patient = resource.get("resourceType") == "Patient"
    return dict(_of_patient(resource, asked) if is_patient else _of_other(resource, asked))


def without_words(text: str, words: Collection[str]) -> str:
    """Return a text in which these words, in any case, are replaced by an ellipsis."""
    if not words:
        return text
    longest_first = sorted(words, key=len, reverse=True)
    pattern = "|".join(map(re.escape, longest_first))
    return re.sub(rf"(?<!\w)(?:{pattern})(?!\w)", "…", text, flags=re.IGNORECASE)


def _of_patient(resource: Mapping[str, Any], asked: frozenset[str]) -> Iterator[tuple[str, Any]]:
    for field, value in resource.items():
        detail = (_DETAIL_OF_FIELD | _NAME_OF_PATIENT).get(field, "")
        if field in _OF_A_PATIENT or detail in asked:
            yield field, value
        elif field == "address":
            yield field, [_coarse_address(each) for each in value]
        elif field == "telecom":
            yield from _telecom(value, asked)


def _of_other(resource: Mapping[str, Any], asked: frozenset[str]) -> Iterator[tuple[str, Any]]:
    for field, value in resource.items():
        if field == "telecom":
            yield from _telecom(value, asked)
        elif field in _DETAIL_OF_FIELD:
            if _DETAIL_OF_FIELD[field] in asked:
                yield field, value
        elif field not in _THE_PATIENT:
            yield field, value


def _telecom(value: Any, asked: frozenset[str]) -> Iterator[tuple[str, Any]]:
    """Yield the ways to reach a person that are asked for."""
    wanted = [
        each for each in value if ("email" if each.get("system") == "email" else "phone") in asked
    ]
    if wanted:
        yield "telecom", wanted


def _coarse_address(address: Mapping[str, Any]) -> dict[str, Any]:
    return {field: address[field] for field in _COARSE_ADDRESS if field in address}


def _words_by_detail() -> Iterator[tuple[str, re.Pattern[str]]]:
    for detail, words in table_rows(_TABLE):
        longest_first = sorted(words.split("|"), key=len, reverse=True)
        forms = [re.escape(form).replace(_GAP, _UP_TO_SIX_WORDS) for form in longest_first]
        yield detail, re.compile(rf"(?<!\w)(?:{'|'.join(forms)})(?!\w)")
