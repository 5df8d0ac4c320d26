"""The queue of a run's cases that a reviewer works through: which cases, in which order."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple
from urllib.parse import urlencode

from archqa.core.case import Case
from archqa.core.question import Item
from archqa.review.state import CaseSetReviews

SHOWN = {"": "all cases", "unreviewed": "not reviewed by me", "disagreeing": "reviewers disagree"}
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
        rest = self.order[place + 1 :]
        if self.choice.show == "unreviewed":
            rest = [*rest, *self.order[:place]]
        return next((at for at in rest if at in self.members), None)

    def before(self, index: int) -> int | None:
        """The case before."""
        earlier = self.order[: max(self._place(index), 0)]
        return next((at for at in reversed(earlier) if at in self.members), None)

    @property
    def progress(self) -> str:
        """How much of it is done, as in "6 of 48 reviewed"."""
        done = sum(index in self.reviewed for index in self.order)
        return f"{done} of {len(self.order)} reviewed"

    def _place(self, index: int) -> int:
        return self.order.index(index) if index in self.order else -1


def review_queue(
    choice: QueueChoice,
    cases: Sequence[Item],
    reviews: CaseSetReviews,
    reviewer: str,
    run: str,
    scores: Mapping[str, float],
) -> Queue:
    """Return the queue of a choice. `scores` are by case id; cases without a score come last."""
    order = [
        index
        for index, item in enumerate(cases)
        if not choice.specialty or specialty_of(item) == choice.specialty
    ]
    if choice.order == "worst":
        order.sort(key=lambda index: scores.get(cases[index].id, float("inf")))
    reviewed = frozenset(
        index for index in order if reviews.case(cases[index].id).events_of(reviewer, run)
    )
    members = frozenset(order)
    if choice.show == "unreviewed":
        members -= reviewed
    elif choice.show == "disagreeing":
        members = frozenset(index for index in order if disagrees(reviews, cases[index].id, run))
    return Queue(choice, order, members, reviewed)


def disagrees(reviews: CaseSetReviews, case_id: str, run: str) -> bool:
    """Whether reviewers differ on a case's note or on the run's answer, and nobody adjudicated."""
    return any(
        disagreement.is_open and disagreement.run in ("", run)
        for disagreement in reviews.case(case_id).disagreements
    )


def specialty_of(item: Item) -> str:
    """The specialty of a case; empty for questions and tasks on a record."""
    return item.clinical_specialty if isinstance(item, Case) else ""


def specialties(cases: Sequence[Item]) -> list[str]:
    """The specialties of a run's cases in alphabetical order."""
    return sorted({specialty_of(item) for item in cases} - {""})
