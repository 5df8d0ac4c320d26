"""Questions about procedures; of what stays in the body, the devices as well."""

from functools import cache

from archqa.core.tables import read_rows
from archqa.query.questions.everyday.draft import Draft
from archqa.query.questions.everyday.general_rows import read_general_rows
from archqa.query.questions.everyday.marks import Account
from archqa.query.questions.everyday.reading import Declined
from archqa.terminology.matching import expand
from archqa.terminology.words import common_forms

_IMAGING = frozenset(
    {"chest x-ray", "x-ray", "ct scan", "mri scan", "ultrasound", "mammogram", "echocardiogram"}
    | {"bone density scan"}
)
"""Procedures that a record may hold as imaging studies."""


def read_procedures(account: Account) -> Draft | Declined:
    """The queries of a clause about procedures."""
    draft = read_general_rows(account, "procedure")
    if isinstance(draft, Declined) or len(draft.asks) > 1 or len(draft.named.limits) != 1:
        return draft
    if _names_device(account):
        return draft._replace(kinds=("procedure", "device"))
    if set(draft.named.limits[0].concepts) & _IMAGING:
        return draft._replace(kinds=("procedure", "imaging"))
    return draft


def _names_device(account: Account) -> bool:
    marks = account.clause.of("concept")
    return any(common_forms(mark.text) in _devices() for mark in marks)


@cache
def _devices() -> frozenset[tuple[str, ...]]:
    rows = read_rows("terminology/data/items.tsv", 3)
    forms = (form for kind, cell, _ in rows if kind == "device" for form in expand(cell))
    return frozenset(map(common_forms, forms))
