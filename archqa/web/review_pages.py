"""The pages of reviews, and what their forms save. A method returns None if there is no such page."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from archqa.core.case import Case
from archqa.core.judgement import Relevance
from archqa.errors import ArchqaError
from archqa.report.case_view import case_view
from archqa.report.note_view import cited_ids
from archqa.report.report_data import ReportData
from archqa.runs.record import CaseRecord
from archqa.web.annotations import Annotations, Review
from archqa.web.page_renderer import PageRenderer
from archqa.web.question_jobs import QuestionJobs
from archqa.web.run_pages import RunPages, review_url, run_url

ASKED = "asked"
"""The name of the annotations of answers that belong to no run."""


class _ReviewedCase(NamedTuple):
    """A case of a run that can be reviewed."""

    case: Case
    record: CaseRecord | None
    data: ReportData


class ReviewPages:
    """The reviews of cases of runs and of asked answers."""

    def __init__(
        self,
        renderer: PageRenderer,
        runs: RunPages,
        annotations: Annotations,
        question_jobs: QuestionJobs,
    ) -> None:
        self._renderer = renderer
        self._runs = runs
        self._annotations = annotations
        self._question_jobs = question_jobs

    def review(self, name: str, case_index: int, *, saved: bool) -> str | None:
        """Return one case of a run with the review form."""
        reviewed = self._find_case(name, case_index)
        if reviewed is None:
            return None
        case, record, data = reviewed
        # The key's labels would influence the reviewer.
        data_without_key = data._replace(keys={}, per_case={})
        view = case_view(case_index, case, [data_without_key])
        case_set = _case_set_name(data)
        try:
            saved_review = self._annotations.find_row(case_set, case.id) or {}
        except ArchqaError as error:
            return self._renderer.render("error.html.jinja", message=str(error))
        return self._renderer.render(
            "review.html.jinja",
            case=view,
            labels=initial_labels(case, cited_ids(record), saved_review),
            saved_review=saved_review,
            saved=saved,
            run_url=f"{run_url(name)}#{view.anchor}",
            key_path=self._annotations.key_path(case_set),
        )

    def save_review(self, name: str, case_index: int, form: Mapping[str, str]) -> str | None:
        """Save the review of a form; return the URL of the page to show next."""
        reviewed = self._find_case(name, case_index)
        if reviewed is None:
            return None
        case_set = _case_set_name(reviewed.data)
        review = _parse_review(reviewed.case, form, name)
        self._annotations.save(case_set, review)
        return f"{review_url(name)}/{case_index}?saved=true"

    def save_answer_review(self, job_id: str, form: Mapping[str, str]) -> str | None:
        """Save the review of an answer; return the URL of the page to show next."""
        job = self._question_jobs.find(job_id)
        if job is None or job.answer is None or job.case is None:
            return None
        case = job.case.model_copy(update={"id": f"asked-{job.id}"})
        review = _parse_review(case, form, "")
        self._annotations.save(ASKED, review)
        return f"/answers/{job.id}?saved=true"

    def unsaved_review(self, action: str, form: Mapping[str, str], error: ArchqaError) -> str:
        """Return the page of a review that could not be saved: it can be sent from there again."""
        return self._renderer.render(
            "unsaved.html.jinja", action=action, fields=dict(form), message=str(error)
        )

    def _find_case(self, name: str, case_index: int) -> _ReviewedCase | None:
        data = self._runs.load(name)
        if data is None:
            return None
        cases = data.run.cases
        if not 0 <= case_index < len(cases):
            return None
        case = cases[case_index]
        if not isinstance(case, Case):
            return None
        record = data.run.get_record(case.id)
        return _ReviewedCase(case, record, data)


def _case_set_name(data: ReportData) -> str:
    """Return the name of a data set's annotations: case ids are unique only within a data set."""
    fingerprint = data.run.manifest.data
    file_name = Path(fingerprint.path).stem or "cases"
    return f"{file_name}-{fingerprint.sha256[:8]}"


def initial_labels(
    case: Case, cited: frozenset[str], saved_review: Mapping[str, Any]
) -> dict[str, str]:
    """Return the labels that the form starts with: the saved ones, else the answer's citations."""
    labels = {}
    for sentence_id in case.sentence_ids:
        is_cited = sentence_id in cited
        label = Relevance.ESSENTIAL if is_cited else Relevance.NOT_RELEVANT
        labels[sentence_id] = label.value
    for row in saved_review.get("answers") or ():
        sentence_id = row.get("sentence_id")
        saved_label = row.get("relevance")
        if sentence_id in labels and saved_label:
            labels[sentence_id] = saved_label
    return labels


def _parse_review(case: Case, form: Mapping[str, str], run: str) -> Review:
    """Return the review of a form; its labels count only if every sentence has one."""
    valid_labels = {label.value for label in Relevance}
    labels = {}
    for index, sentence_id in enumerate(case.sentence_ids):
        label = form.get(f"label-{index}")
        if label in valid_labels:
            labels[sentence_id] = Relevance(label)
    if len(labels) != len(case.sentences):
        labels = {}
    thumb = form.get("thumb", "")
    if thumb not in {"up", "down"}:
        thumb = ""
    return Review(
        case=case,
        labels=labels,
        answer=form.get("answer", ""),
        thumb=thumb,
        run=run,
    )
