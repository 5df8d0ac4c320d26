"""Each page's content and what each form does. Knows nothing of requests; None means: there is no such page."""

import secrets
from collections import OrderedDict
from collections.abc import AsyncIterator, Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import quote

from archqa.ask.chart import ask_patient
from archqa.ask.note import AskResult, ask_note
from archqa.core.case import Case
from archqa.core.judgement import Relevance
from archqa.core.step import Step
from archqa.errors import ArchqaError, InputError
from archqa.report import report_html
from archqa.report.case_view import answer_view, case_view
from archqa.report.material import ReportData, load_report_data
from archqa.report.note_view import MARK_LABELS, MARK_SYMBOLS, cited_ids
from archqa.report.page import jinja_environment
from archqa.runs.record import CaseRecord
from archqa.settings import Settings
from archqa.web.annotations import Annotations, Review
from archqa.web.enquiries import QuestionJobs, events
from archqa.web.library import RunLibrary

TEMPLATES = Path(__file__).resolve().parent / "templates"
_MOST_KEPT = 8
_LONGEST_QUESTION = 2000
ASKED = "asked"


class LiveLinks(NamedTuple):
    """What the report adds where it is live: the address of a run's review pages, empty for several runs."""

    review_url: str = ""


class PageHandlers:
    """The pages over a library. `form_token` is in every form of this process, and a forged form has it not."""

    def __init__(
        self,
        library: RunLibrary,
        annotations: Annotations,
        enquiries: QuestionJobs,
        settings: Settings,
        record: str | None,
        key: Path | None,
    ) -> None:
        self.question_jobs = enquiries
        self._library, self._annotations = library, annotations
        self._settings, self._record, self._key = settings, record, key
        self._form_token = secrets.token_urlsafe(24)
        self._made: OrderedDict[tuple[Any, ...], str] = OrderedDict()

    def is_valid_form_token(self, form_token: str) -> bool:
        """Whether a form came from one of these pages."""
        return secrets.compare_digest(form_token.encode(), self._form_token.encode())

    def index(self) -> str:
        """The form, and every run."""
        return self._page(
            "index.html.jinja", runs=self._library.runs(), patients=self._record is not None
        )

    def run(self, name: str) -> str | None:
        """The report of a run, as it is now."""
        path = self._library.find(name)
        return (
            None
            if path is None
            else self._report([path], LiveLinks(f"/runs/{quote(name, safe='')}/review"))
        )

    def compare(self, first: str, second: str) -> str | None:
        """The report of two runs."""
        paths = [path for name in (first, second) if (path := self._library.find(name))]
        return self._report(paths, LiveLinks()) if len(paths) == 2 else None

    def review_url(self, name: str, place: int, *, saved: bool) -> str | None:
        """One case of a run with the form for thumbs and corrections."""
        found = self._case(name, place)
        if found is None:
            return None
        case, record, material = found
        blind = material._replace(keys={}, per_case={})  # What the key says would sway a reviewer.
        view = case_view(place, case, [blind])
        shelf = _shelf(material)
        row = self._annotations.row(shelf, case.id) or {}
        return self._page(
            "review.html.jinja",
            case=view,
            labels=_labels(case, record, row),
            said=row,
            saved=saved,
            back=f"/runs/{quote(name, safe='')}#c{place + 1}",
            path=self._annotations.key_path(shelf),
        )

    def save_review(self, name: str, place: int, form: Mapping[str, str]) -> str | None:
        """Save what the form says; where to go then."""
        found = self._case(name, place)
        if found is None:
            return None
        case, _, material = found
        self._annotations.save(_shelf(material), _review(case, form, name))
        return f"/runs/{quote(name, safe='')}/review/{place}?saved=true"

    def ask(self, form: Mapping[str, str]) -> str:
        """Begin to answer a question; where its answer will be."""
        question = " ".join(form.get("question", "").split())[:_LONGEST_QUESTION]
        enquiry = self.question_jobs.begin(question, self._work(question, form))
        return f"/answers/{enquiry.id}"

    def answer(self, enquiry_id: str, *, saved: bool) -> str | None:
        """A question under way, or its answer."""
        enquiry = self.question_jobs.find(enquiry_id)
        if enquiry is None:
            return None
        answered = enquiry.answered
        view = (
            answer_view(answered.case, answered.record)
            if answered and answered.case and answered.record
            else None
        )
        labels = _labels(answered.case, answered.record, {}) if answered and answered.case else {}
        return self._page(
            "answer.html.jinja",
            enquiry=enquiry,
            answered=answered,
            case=view,
            labels=labels,
            saved=saved,
            said={},
        )

    def save_answer_review(self, enquiry_id: str, form: Mapping[str, str]) -> str | None:
        """Save what the form says of an answer; where to go then."""
        enquiry = self.question_jobs.find(enquiry_id)
        if enquiry is None or enquiry.answered is None or enquiry.answered.case is None:
            return None
        case = enquiry.answered.case.model_copy(update={"id": f"asked-{enquiry.id}"})
        self._annotations.save(ASKED, _review(case, form, ""))
        return f"/answers/{enquiry.id}?saved=true"

    def events(self, enquiry_id: str) -> AsyncIterator[str] | None:
        """What happens to a question, as it happens."""
        enquiry = self.question_jobs.find(enquiry_id)
        return None if enquiry is None else events(enquiry)

    def _work(
        self, question: str, form: Mapping[str, str]
    ) -> Callable[[Callable[[Step], object]], AskResult]:
        note, patient, record = form.get("note", ""), form.get("patient", "").strip(), self._record
        if patient and record:
            return lambda tell: ask_patient(question, patient, record, self._settings, on_step=tell)
        return lambda tell: ask_note(question, note, self._settings, on_step=tell)

    def _case(self, name: str, place: int) -> tuple[Case, CaseRecord | None, ReportData] | None:
        path = self._library.find(name)
        if path is None:
            return None
        material = self._gather(path)
        if not 0 <= place < len(material.run.cases):
            return None
        case = material.run.cases[place]
        return (
            (case, material.run.get_record(case.id), material) if isinstance(case, Case) else None
        )

    def _gather(self, path: Path) -> ReportData:
        try:
            return load_report_data(path, self._key)
        except InputError:
            return load_report_data(path)

    def _report(self, paths: list[Path], live: LiveLinks) -> str:
        state = tuple((path, *_stamp(path)) for path in paths)
        if state not in self._made:
            try:
                self._made[state] = report_html(paths, key=self._key, live=live)
            except ArchqaError as error:
                return self._page("trouble.html.jinja", words=str(error))
            while len(self._made) > _MOST_KEPT:
                self._made.popitem(last=False)
        return self._made[state]

    def _page(self, template: str, **values: Any) -> str:
        pages = jinja_environment(TEMPLATES)
        found = {
            "live": LiveLinks(),
            "words": MARK_LABELS,
            "signs": MARK_SYMBOLS,
            "form_token": self._form_token,
            "text": True,
        }
        return pages.get_template(template).render(**{**found, **values})


def _stamp(path: Path) -> tuple[float, ...]:
    """When the files that a report rests on were last written."""
    files = (path / name for name in ("run.json", "cases.jsonl", "scores.json"))
    return tuple(file.stat().st_mtime_ns if file.is_file() else 0 for file in files)


def _shelf(material: ReportData) -> str:
    """One annotation file for each data set: case ids are only unique within one."""
    data = material.run.manifest.data
    return f"{Path(data.path).stem or 'cases'}-{data.sha256[:8]}"


def _labels(case: Case, record: CaseRecord | None, row: Mapping[str, Any]) -> dict[str, str]:
    """What the form begins with: what the reviewer said before, else what the run cites."""
    said = {each.get("sentence_id"): each.get("relevance") for each in row.get("answers") or ()}
    cited = cited_ids(record)
    essential, other = Relevance.ESSENTIAL.value, Relevance.NOT_RELEVANT.value
    return {
        each: said.get(each) or (essential if each in cited else other)
        for each in case.sentence_ids
    }


def _review(case: Case, form: Mapping[str, str], run: str) -> Review:
    known = {label.value for label in Relevance}
    labels = {
        each: Relevance(form[f"label-{at}"])
        for at, each in enumerate(case.sentence_ids)
        if form.get(f"label-{at}") in known
    }
    thumb = form.get("thumb", "")
    return Review(
        case=case,
        labels=labels if len(labels) == len(case.sentences) else {},
        answer=form.get("answer", ""),
        thumb=thumb if thumb in {"up", "down"} else "",
        run=run,
    )
