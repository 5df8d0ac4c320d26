"""The form of a review: what it shows, and what a reviewer changed in it.

Fields of the form: `field-<field>` is what the reviewer says, `seen-<field>` what was saved when the
page was made (absent if nothing was). A field that is absent, or as it was seen, is no edit.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from archqa.core.answer import Claim
from archqa.core.case import Case
from archqa.core.key import CaseKey
from archqa.core.question import Item
from archqa.report import note_view
from archqa.report.note_view import ClaimView, SentenceView
from archqa.review.event import ReviewEvent, Seen
from archqa.runs.record import CaseRecord

_FIELD = "field-"
_SEEN = "seen-"

ANCHOR = "c1"
"""The beginning of the anchors of a page with one case."""


class ReviewForm(NamedTuple):
    """What the form shows. `saved` is what its reviewer has said so far, by field.

    `seen` says which version of which run's answer the page shows. `verdicts` are the fields that
    judge the answer as a whole; `shows_key` is set where the key's labels stand in `sentences`.
    """

    action: str
    reviewer: str
    seen: Seen
    saved: Mapping[str, str]
    lines: Sequence[ClaimView] = ()
    sentences: Sequence[SentenceView] = ()
    verdicts: Sequence[str] = ()
    has_next: bool = False
    can_undo: bool = False
    shows_key: bool = False

    @property
    def undo_action(self) -> str:
        """The URL that takes the reviewer's last save back."""
        path, mark, query = self.action.partition("?")
        return f"{path}/undo{mark}{query}"


class SubmittedReview(NamedTuple):
    """What a form sent: `edits` are the fields that its reviewer changed."""

    reviewer: str
    edits: Mapping[str, str]
    seen: Mapping[str, str]
    version: Seen


class HistoryRow(NamedTuple):
    """One event of the audit trail in words."""

    event: ReviewEvent
    field: str
    value: str
    circumstances: str


def parse_review(form: Mapping[str, str], reviewer: str, run: str = "") -> SubmittedReview:
    """Return the review of a form; the name in the form goes before that of the cookie."""
    chosen = _fields(form, _FIELD)
    seen = _fields(form, _SEEN)
    edits = {field: value for field, value in chosen.items() if value != seen.get(field, "")}
    version = Seen(run, form.get("run_version", ""), form.get("blind") == "1")
    name = " ".join((form.get("reviewer") or reviewer).split())
    return SubmittedReview(name, edits, seen, version)


def verdict_fields(item: Item, *, has_query: bool) -> tuple[str, ...]:
    """The fields that judge an answer as a whole; sentences of a note have labels of their own."""
    if isinstance(item, Case):
        return ("answer_right",)
    query = ("query_right",) if has_query else ()
    return ("answer_right", "evidence_right", *query)


def note_rows(
    case: Case, record: CaseRecord | None, key: CaseKey | None
) -> tuple[list[ClaimView], tuple[SentenceView, ...]]:
    """The lines of an answer and the sentences of its note; without a record no mark and no line."""
    key = note_view.key_for_subtask(record, key)
    marks = note_view.sentence_marks(case, record, key)
    claims = note_view.claim_views(case, record, ANCHOR, 0, marks)
    return claims, note_view.sentence_views(case, key, ANCHOR, [claims], [marks], {})


def asked_rows(
    case: Case | None, claims: Sequence[Claim]
) -> tuple[list[ClaimView], tuple[SentenceView, ...]]:
    """The lines of an asked answer, and the sentences that it cites them from, if they are known."""
    case = case or Case(id="")
    cited = {citation for claim in claims for citation in claim.citations}
    marks = {name: "cited" if name in cited else "plain" for name in case.sentence_ids}
    anchors = {name: f"review-s{index}" for index, name in enumerate(case.sentence_ids)}
    lines = []
    for number, claim in enumerate(claims):
        citations = [
            note_view.Citation(name, anchors.get(name, f"e-{name}"), "cited")
            for name in claim.citations
        ]
        lines.append(ClaimView(f"review-a{number}", claim.text, tuple(citations)))
    return lines, note_view.sentence_views(case, None, "review", [lines], [marks], {})


def history_rows(events: Iterable[ReviewEvent]) -> list[HistoryRow]:
    """The audit trail in words, the latest event first."""
    rows = []
    for event in events:
        value = value_in_words(event.value)
        rows.append(HistoryRow(event, field_in_words(event.field), value, _circumstances(event)))
    return rows[::-1]


def field_in_words(field: str) -> str:
    """`sentence/3` → `sentence 3`, `answer_right` → `answer right`."""
    return field.replace("/", " ", 1).replace("_", " ")


def value_in_words(value: str) -> str:
    """A label as the pages write it; what was cleared is called so."""
    return value.replace("not-relevant", "not relevant") or "cleared"


def _circumstances(event: ReviewEvent) -> str:
    """What its reviewer had before the eyes, and whether the event decides or takes back."""
    parts = []
    if event.adjudicated:
        parts.append("adjudicated")
    if event.undoes:
        parts.append("undo")
    if event.blind:
        parts.append("blind")
    elif event.run:
        parts.append(f"saw {event.run} {event.run_version}".rstrip())
    return ", ".join(parts)


def _fields(form: Mapping[str, str], prefix: str) -> dict[str, str]:
    """The fields of a form with this prefix; browsers send line ends of Windows."""
    fields = {}
    for name, value in form.items():
        if name.startswith(prefix):
            fields[name.removeprefix(prefix)] = value.replace("\r\n", "\n").strip()
    return fields
