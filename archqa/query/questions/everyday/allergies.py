"""Questions about allergies; those of one category only where the record's own names tell it."""

from archqa.query.model import Query
from archqa.query.questions.everyday.declining import decline
from archqa.query.questions.everyday.draft import Draft
from archqa.query.questions.everyday.general_rows import read_general_rows
from archqa.query.questions.everyday.marks import Account
from archqa.query.questions.everyday.reading import Declined
from archqa.terminology.concepts import find_concepts

_DRUGS = frozenset({"drug", "drug_class"})


def read_allergies(account: Account) -> Draft | Declined:
    """The queries of a clause about allergies."""
    categories = {mark.value for mark in account.use("category")}
    if categories and not _are_all(account, categories):
        return decline("category", Query(what="allergy", returns="name"))
    return read_general_rows(account, "allergy")


def _are_all(account: Account, categories: set[str]) -> bool:
    """Whether every allergy of the patient is of the category that is asked for."""
    allergens = account.vocabulary.own("allergy")
    if categories != {"drug"}:
        return not allergens
    return all(_is_drug(allergen) for allergen in allergens)


def _is_drug(allergen: str) -> bool:
    return any(match.concept.kind in _DRUGS for match in find_concepts(allergen))
