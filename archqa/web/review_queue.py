"""The queue of a run's cases that a reviewer works through: which cases, in which order."""

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple
from urllib.parse import urlencode

from archqa.core.question import Item
from archqa.report.case_table import specialty
from archqa.review import CaseSetReviews

SELECTIONS = {
    "": "all cases",
    "unreviewed": "not reviewed by me",
    "disagreeing": "reviewers disagree",
}
ORDERS = {"": "as in the file", "worst": "worst score first"}


class QueueChoice(NamedTuple):
    """What a reviewer chose to work through; empty texts choose everything, in the file's order."""

    show: str = ""
    order: str = ""
    specialty: str = ""

    @property
    def query(self) -> str:
        """The choice as the end of a URL: empty, or from its question mark on."""
        chosen = {name: value for name, value in self._asdict().items() if value}
        return f"?{urlencode(chosen)}" if chosen else ""


class Queue(NamedTuple):
    """The cases of a choice, by index. `order` has all of the specialty, `members` the chosen ones."""

    choice: QueueChoice
    order: Sequence[int]
    members: frozenset[int]
    reviewed: frozenset[int]

    def first(self) -> int | None:
        """The first case that is not reviewed; where reviewers disagree, the first case."""
        for index in self.order:
            is_open = self.choice.show == "disagreeing" or index not in self.reviewed
            if index in self.members and is_open:
                return index
        return None

    def after(self, index: int) -> int | None:
        """The next case. The unreviewed ones begin anew after the last one."""
        place = self._place(index)
        following = [*self.order[place + 1 :]]
        if self.choice.show == "unreviewed":
            following += self.order[:place]
        return self._first_member(following)

    def before(self, index: int) -> int | None:
        """The case before."""
        earlier = self.order[: max(self._place(index), 0)]
        return self._first_member(earlier[::-1])

    @property
    def progress(self) -> str:
        """How much of it is done, as in "6 of 48 reviewed"."""
        return f"{len(self.reviewed)} of {len(self.order)} reviewed"

    def _place(self, index: int) -> int:
        return self.order.index(index) if index in self.order else -1

    def _first_member(self, indices: Sequence[int]) -> int | None:
        for index in indices:
            if index in self.members:
                return index
        return None


def review_queue(
    choice: QueueChoice,
    cases: Sequence[Item],
    reviews: CaseSetReviews,
    reviewer: str,
    run: str,
    scores: Mapping[str, float],
) -> Queue:
    """Return the queue of a choice. `scores` are by case id; cases without a score come last."""
    order = []
    reviewed = set()
    disagreeing = set()
    for index, item in enumerate(cases):
        if choice.specialty and specialty(item) != choice.specialty:
            continue
        order.append(index)
        case_reviews = reviews.case(item.id)
        if case_reviews.reviewer_events(reviewer, run):
            reviewed.add(index)
        if case_reviews.disagrees(run):
            disagreeing.add(index)
    if choice.order == "worst":
        order.sort(key=lambda index: scores.get(cases[index].id, math.inf))
    members = set(order)
    if choice.show == "unreviewed":
        members -= reviewed
    elif choice.show == "disagreeing":
        members = disagreeing
    return Queue(choice, order, frozenset(members), frozenset(reviewed))
