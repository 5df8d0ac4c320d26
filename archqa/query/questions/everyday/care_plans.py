"""Questions about care plans: a condition is the plan's name, or what the plan is for."""

from collections.abc import Iterator

from archqa.query.questions.everyday.draft import Draft
from archqa.query.questions.everyday.general_rows import read_general_rows
from archqa.query.questions.everyday.marks import Account
from archqa.query.questions.everyday.naming import Named, NameLimit
from archqa.query.questions.everyday.reading import Declined
from archqa.terminology.concepts import related


def read_care_plans(account: Account) -> Draft | Declined:
    """The queries of a clause about care plans."""
    draft = read_general_rows(account, "care_plan")
    if isinstance(draft, Declined):
        return draft
    named = Named(tuple(map(_of_condition, draft.named.limits)), draft.named.joined)
    draft = draft._replace(named=named)
    if len(named.limits) != 1 or len(draft.asks) != 1:
        return draft
    return draft._replace(reasons_instead_of_names=tuple(_reasons(named.limits[0])))


def _of_condition(limit: NameLimit) -> NameLimit:
    """The limit with the condition whose values a measurement tells: cholesterol, sugar."""
    conditions = related("condition of measurement")
    names = [name for each in limit.concepts for name in conditions.get(each, (each,))]
    return limit._replace(concepts=tuple(names))


def _reasons(limit: NameLimit) -> Iterator[str]:
    yield from limit.concepts
    yield from limit.names
