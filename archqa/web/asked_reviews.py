"""The reviews of answers that were asked for on the page: they belong to no run."""

from collections.abc import Mapping

from archqa.asking.answer import Answer
from archqa.core.answer import Claim
from archqa.core.case import Case
from archqa.core.question import Item, RecordQuestion
from archqa.review.event import Seen, record_version
from archqa.review.store import ReviewStore
from archqa.web.question_jobs import QuestionJob, QuestionJobs
from archqa.web.review_form import ReviewForm, asked_rows, parse_review, verdict_fields
from archqa.web.review_saving import ReviewSaving, Saved

ASKED = "asked"
"""The name of the reviews of answers that belong to no run."""


class AskedReviews:
    """The reviews of the answers to questions of this server."""

    def __init__(self, jobs: QuestionJobs, store: ReviewStore, saving: ReviewSaving) -> None:
        self._jobs = jobs
        self._store = store
        self._saving = saving

    def form(self, job: QuestionJob, reviewer: str) -> ReviewForm | None:
        """Return the form that reviews an answer; None where there is no answer yet."""
        if job.answer is None:
            return None
        item = _reviewed_item(job)
        claims = [Claim(text=line.text, citations=line.citations) for line in job.answer.lines]
        lines, sentences = asked_rows(item if isinstance(item, Case) else None, claims)
        events = self._store.reviews(ASKED).case(item.id).events_of(reviewer)
        return ReviewForm(
            action=f"/answers/{job.id}",
            reviewer=reviewer,
            seen=Seen("", _version(job.answer)),
            saved={field: event.value for field, event in events.items()},
            lines=lines,
            sentences=sentences,
            verdicts=verdict_fields(item, has_query=bool(job.answer.query)),
            can_undo=self._store.can_undo(ASKED, item.id, reviewer),
        )

    def save(
        self, job_id: str, reviewer: str, form: Mapping[str, str], action: str
    ) -> Saved | None:
        """Save the review of a form; None without such an answer. Raises as `ReviewStore.save`."""
        job = self._answered(job_id)
        if job is None:
            return None
        review = parse_review(form, reviewer)
        return self._saving.save(ASKED, _reviewed_item(job), review, action)

    def undo(self, job_id: str, reviewer: str) -> int | None:
        """Take the reviewer's last save of an answer back; return the number of fields put back."""
        job = self._answered(job_id)
        if job is None:
            return None
        return len(self._store.undo(ASKED, _reviewed_item(job).id, reviewer))

    def _answered(self, job_id: str) -> QuestionJob | None:
        job = self._jobs.find(job_id)
        return job if job and job.answer is not None else None


def _reviewed_item(job: QuestionJob) -> Item:
    """What is reviewed: the note as a case; of a patient, the question and the cited sentences."""
    assert job.answer is not None
    name = f"asked-{job.id}"
    if job.case is None:
        return RecordQuestion(id=name, question=job.question)
    case = job.case.model_copy(update={"id": name})
    if job.answer.patient is None:
        return case
    # A patient has many notes: labels are asked for where the answer rests on them.
    cited = {citation for line in job.answer.lines for citation in line.citations}
    sentences = tuple(sentence for sentence in case.sentences if sentence.id in cited)
    if not sentences:
        return RecordQuestion(id=name, question=job.question)
    return case.model_copy(update={"sentences": sentences})


def _version(answer: Answer) -> str:
    return record_version(answer.model_dump_json())
