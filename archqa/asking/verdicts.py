"""From what a sentence says of something to yes, no, not stated, or nothing."""

from collections.abc import Iterable
from enum import StrEnum

from archqa.asking.assertions import Assertion
from archqa.asking.question_form import QuestionForm


class YesNo(StrEnum):
    """How the answer to a yes/no question begins."""

    YES = "Yes"
    NO = "No"
    NOT_STATED = "Not stated"


def assertion_verdict(said: frozenset[Assertion], form: QuestionForm) -> YesNo | None:
    """Return what the assertions of a mention answer, None where that is not certain."""
    if (Assertion.FAMILY in said) != form.asks_family:
        return _other_person_verdict(said, form)
    if form.asks_permission and form.asks_ended:
        return None
    if form.asks_permission and said & {Assertion.ALLOWED, Assertion.ABSENT}:
        return _permission_verdict(said)
    if Assertion.ENDED in said:
        return _ended_verdict(said, form)
    if said & {Assertion.PLANNED, Assertion.LIMITED} or form.asks_permission:
        return None
    if Assertion.LIKELY in said and Assertion.ABSENT not in said:
        return None
    if Assertion.OPEN in said:
        return None if Assertion.ABSENT in said else YesNo.NOT_STATED
    return _plain_verdict(said, form)


def habit_verdict(said: frozenset[Assertion], form: QuestionForm) -> YesNo | None:
    """Return the verdict on a habit: "smoker?" is answered by one that has ended, with no."""
    has_ended = Assertion.ENDED in said and Assertion.ABSENT not in said
    if has_ended and form.is_telegraphic and not form.asks_family:
        return None if form.asks_past else YesNo.NO
    return assertion_verdict(said, form)


def opposite_verdict(said: frozenset[Assertion], form: QuestionForm) -> YesNo | None:
    """Return the verdict where the opposite of what is asked for is mentioned ("afebrile")."""
    if not said <= {Assertion.PRESENT, Assertion.CONTINUES}:
        return None
    return YesNo.YES if form.asks_ended else YesNo.NO


def reversed_verdict(verdict: YesNo | None) -> YesNo | None:
    """Return the verdict on the opposite of what is asked for ("Is she afebrile?")."""
    if verdict is YesNo.YES:
        return YesNo.NO
    if verdict is YesNo.NO:
        return YesNo.YES
    return None


def only_verdict(verdicts: Iterable[YesNo | None]) -> YesNo | None:
    """Return the verdict that all agree on, None where they do not."""
    different = set(verdicts)
    return different.pop() if len(different) == 1 else None


def _plain_verdict(said: frozenset[Assertion], form: QuestionForm) -> YesNo | None:
    """Return the verdict where nothing is planned, open, ended or told of another person."""
    if form.asks_ended:
        return YesNo.NO if Assertion.CONTINUES in said else None
    if said & {Assertion.ABSENT, Assertion.NEGATIVE}:
        return YesNo.NO
    if Assertion.PAST in said and form.asks_now:
        return None
    return YesNo.YES


def _other_person_verdict(said: frozenset[Assertion], form: QuestionForm) -> YesNo | None:
    """Return the verdict where a relative is asked for or told of, and not both."""
    if form.asks_family or Assertion.ABSENT in said:
        return None
    return YesNo.NOT_STATED


def _ended_verdict(said: frozenset[Assertion], form: QuestionForm) -> YesNo | None:
    if Assertion.ABSENT in said:
        return None
    if form.asks_ended:
        return None if Assertion.PLANNED in said else YesNo.YES
    return YesNo.NO if form.asks_now else None


def _permission_verdict(said: frozenset[Assertion]) -> YesNo | None:
    if Assertion.ABSENT in said:
        return YesNo.NO
    is_given = Assertion.ALLOWED in said and Assertion.PLANNED not in said
    return YesNo.YES if is_given else None
