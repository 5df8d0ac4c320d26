"""The content of each page and the effect of each form, independent of HTTP.

A method returns None if there is no such page.
"""

import secrets
from collections import OrderedDict
from collections.abc import AsyncIterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import quote

from archqa.asking.ask import parse_time
from archqa.asking.chart import AnsweredChart, answer_patient, check_patient_settings
from archqa.asking.note import OnStep, answer_case, check_note_settings, note_case
from archqa.asking.thread.asking import Asking, ask_in_thread
from archqa.asking.thread.turns import Place, Thread
from archqa.core.case import Case
from archqa.core.judgement import Relevance
from archqa.errors import ArchqaError, CallerError, InputError
from archqa.report import report_html
from archqa.report.case_view import case_view
from archqa.report.note_view import MARK_LABELS, MARK_SYMBOLS, cited_ids
from archqa.report.page import encodable, jinja_environment
from archqa.report.report_data import ReportData, load_report_data
from archqa.runs.destinations import Announcer
from archqa.runs.event_loop import run_sync
from archqa.runs.record import CaseRecord
from archqa.settings import Settings
from archqa.web.annotations import Annotations, Review
from archqa.web.asked_view import asked_view, review_view
from archqa.web.library import RunLibrary
from archqa.web.question_destinations import describe_question_destinations
from archqa.web.question_jobs import AnswerFunction, QuestionJob, QuestionJobs, events

TEMPLATES = Path(__file__).resolve().parent / "templates"

ASKED = "asked"
"""The name of the annotations of answers that belong to no run."""

THREAD_LOST = (
    "The answer to ask on from is kept no longer.\nAsk a whole question on the first page."
)

_MAX_CACHED_REPORTS = 8
_MAX_QUESTION_LENGTH = 2000
_FILES_OF_A_REPORT = ("run.json", "cases.jsonl", "scores.json")


class LiveLinks(NamedTuple):
    """Links of a live report: the URL of a run's review pages, empty for several runs."""

    review_url: str = ""


class _ReviewedCase(NamedTuple):
    """A case of a run that can be reviewed."""

    case: Case
    record: CaseRecord | None
    data: ReportData


class PageHandlers:
    """The pages of a library of runs. Every form carries the form token of this process."""

    def __init__(
        self,
        library: RunLibrary,
        annotations: Annotations,
        question_jobs: QuestionJobs,
        settings: Settings,
        record: str | None,
        key: Path | None,
    ) -> None:
        self.question_jobs = question_jobs
        self._library = library
        self._annotations = annotations
        self._settings = settings
        self._record = record
        self._key = key
        self._announce = Announcer()
        self._form_token = secrets.token_urlsafe(24)
        self._report_cache: OrderedDict[tuple[Any, ...], str] = OrderedDict()

    def is_valid_form_token(self, form_token: str) -> bool:
        """Whether a form came from one of these pages."""
        return secrets.compare_digest(form_token.encode(), self._form_token.encode())

    def index(self) -> str:
        """Return the page with the question form and the list of runs."""
        runs, damaged_runs = self._library.runs()
        has_patients = self._record is not None
        return self._render(
            "index.html.jinja",
            runs=runs,
            damaged_runs=damaged_runs,
            has_patients=has_patients,
            destinations=describe_question_destinations(self._settings, self._record),
        )

    def run(self, name: str) -> str | None:
        """Return the current report of a run."""
        path = self._library.find(name)
        if path is None:
            return None
        live = LiveLinks(review_url=_review_url(name))
        return self._report([path], live)

    def compare(self, name_1: str, name_2: str) -> str | None:
        """Return the report of two runs."""
        path_1 = self._library.find(name_1)
        path_2 = self._library.find(name_2)
        if path_1 is None or path_2 is None:
            return None
        return self._report([path_1, path_2], LiveLinks())

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
            return self._render("error.html.jinja", message=str(error))
        return self._render(
            "review.html.jinja",
            case=view,
            labels=_initial_labels(case, cited_ids(record), saved_review),
            saved_review=saved_review,
            saved=saved,
            run_url=f"{_run_url(name)}#{view.anchor}",
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
        return f"{_review_url(name)}/{case_index}?saved=true"

    def submit_question(self, form: Mapping[str, str]) -> str:
        """Start to answer a question; return the URL of its answer."""
        words = form.get("question", "").split()
        question = " ".join(words)[:_MAX_QUESTION_LENGTH]
        after = self.question_jobs.find(form["after"]) if form.get("after") else None
        answer = self._answer_function(question, form, after)
        job = self.question_jobs.submit(question, answer, after)
        return f"/answers/{job.id}"

    def answer(self, job_id: str, *, saved: bool) -> str | None:
        """Return the page of a question in progress, or of its answer."""
        job = self.question_jobs.find(job_id)
        if job is None:
            return None
        answer, case = job.answer, job.case
        labels: dict[str, str] = {}
        if answer and case:
            labels = _initial_labels(case, frozenset(line.id for line in answer.evidence), {})
        return self._render(
            "answer.html.jinja",
            job=job,
            answer=answer,
            view=asked_view(answer, case) if answer else None,
            case=review_view(case) if case else None,
            labels=labels,
            saved=saved,
            saved_review={},
        )

    def save_answer_review(self, job_id: str, form: Mapping[str, str]) -> str | None:
        """Save the review of an answer; return the URL of the page to show next."""
        job = self.question_jobs.find(job_id)
        if job is None or job.answer is None or job.case is None:
            return None
        case = job.case.model_copy(update={"id": f"asked-{job.id}"})
        review = _parse_review(case, form, "")
        self._annotations.save(ASKED, review)
        return f"/answers/{job.id}?saved=true"

    def unsaved_review(self, action: str, form: Mapping[str, str], error: ArchqaError) -> str:
        """Return the page of a review that could not be saved: it can be sent from there again."""
        return self._render(
            "unsaved.html.jinja", action=action, fields=dict(form), message=str(error)
        )

    def events(self, job_id: str) -> AsyncIterator[str] | None:
        """Return the events of a question, as they happen."""
        job = self.question_jobs.find(job_id)
        if job is None:
            return None
        return events(job)

    def _answer_function(
        self, question: str, form: Mapping[str, str], after: QuestionJob | None
    ) -> AnswerFunction:
        place = Place() if after else self._place(form)

        def answer(thread: Thread, on_step: OnStep) -> AnsweredChart:
            if form.get("after") and thread.place is None:
                raise CallerError(THREAD_LOST)
            asking = Asking(self._settings, on_step, self._announce)
            return ask_in_thread(
                question, thread, place, asking, partial(self._ask_place, on_step=on_step)
            )

        return answer

    def _place(self, form: Mapping[str, str]) -> Place:
        """What the form asks: a patient of the record if one is named, else the note."""
        patient = form.get("patient", "").strip()
        if patient and self._record:
            now = form.get("now", "").strip() or None
            return Place(patient=patient, record=self._record, now=now)
        return Place(note=form.get("note", ""))

    def _ask_place(self, question: str, place: Place, on_step: OnStep) -> AnsweredChart:
        patient = place.patient_id or place.patient
        if patient and place.record:
            return self._ask_patient(question, patient, place.record, place.now or "", on_step)
        return self._ask_note(question, place.note or "", on_step)

    def _ask_note(self, question: str, note: str, on_step: OnStep) -> AnsweredChart:
        check_note_settings(self._settings)
        case = note_case(question, note)
        work = answer_case(case, self._settings, on_step, announce=self._announce)
        return AnsweredChart(run_sync(work), case)

    def _ask_patient(
        self, question: str, patient: str, record: str, now: str, on_step: OnStep
    ) -> AnsweredChart:
        check_patient_settings(self._settings)
        work = answer_patient(
            question,
            patient,
            record,
            self._settings,
            now=parse_time(now or None),
            on_step=on_step,
            announce=self._announce,
        )
        return run_sync(work)

    def _find_case(self, name: str, case_index: int) -> _ReviewedCase | None:
        path = self._library.find(name)
        if path is None:
            return None
        data = self._load_report_data(path)
        cases = data.run.cases
        if not 0 <= case_index < len(cases):
            return None
        case = cases[case_index]
        if not isinstance(case, Case):
            return None
        record = data.run.get_record(case.id)
        return _ReviewedCase(case, record, data)

    def _load_report_data(self, path: Path) -> ReportData:
        try:
            return load_report_data(path, self._key)
        except InputError:  # The server's key may belong to another run.
            return load_report_data(path)

    def _report(self, paths: list[Path], live: LiveLinks) -> str:
        """Return a report from the cache, or render it if a file has changed."""
        cache_key = tuple((path, *_modification_times(path)) for path in paths)
        if cache_key in self._report_cache:
            return self._report_cache[cache_key]
        html = report_html(paths, key=self._key, live=live)
        self._report_cache[cache_key] = html
        if len(self._report_cache) > _MAX_CACHED_REPORTS:
            self._report_cache.popitem(last=False)
        return html

    def error(self, message: str) -> str:
        """Return the page that says why another cannot be shown."""
        return self._render("error.html.jinja", message=message)

    def _render(self, template_name: str, **values: Any) -> str:
        shared_values = {
            "live": LiveLinks(),
            "mark_labels": MARK_LABELS,
            "mark_symbols": MARK_SYMBOLS,
            "form_token": self._form_token,
            "text": True,
        }
        template = jinja_environment(TEMPLATES).get_template(template_name)
        return encodable(template.render(shared_values | values))


def _run_url(name: str) -> str:
    return f"/runs/{quote(name, safe='')}"


def _review_url(name: str) -> str:
    return f"{_run_url(name)}/review"


def _modification_times(run: Path) -> tuple[float, ...]:
    """Return when the files of a report were last written; 0 for a file that is absent."""
    times = []
    for file_name in _FILES_OF_A_REPORT:
        path = run / file_name
        time = path.stat().st_mtime_ns if path.is_file() else 0
        times.append(time)
    return tuple(times)


def _case_set_name(data: ReportData) -> str:
    """Return the name of a data set's annotations: case ids are unique only within a data set."""
    fingerprint = data.run.manifest.data
    file_name = Path(fingerprint.path).stem or "cases"
    return f"{file_name}-{fingerprint.sha256[:8]}"


def _initial_labels(
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
