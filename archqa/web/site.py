"""What the pages of one server share: runs, reviews, questions, templates, and form tokens."""

import secrets
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import quote

from fastapi import Request
from fastapi.responses import HTMLResponse, Response

from archqa.report.page import render
from archqa.review import ReviewStore
from archqa.safety.text import without_surrogates
from archqa.settings import Settings
from archqa.web.library import RunLibrary
from archqa.web.question_jobs import QuestionJobs
from archqa.web.run_cache import ReviewableRuns, RunCache

_TEMPLATES = Path(__file__).resolve().parent / "templates"
_MAX_FORM_FIELDS = 5000
_MAX_FIELD_BYTES = 4 * 2**20


class WebConfig(NamedTuple):
    """What a server shows: folders of runs and, if set, a record whose patients may be asked about.

    `annotations` is the folder for reviews; without it, they are saved next to the runs.
    """

    runs: Sequence[Path]
    record: str | None = None
    key: Path | None = None
    annotations: Path | None = None


class NoSuchPage(Exception):
    """There is no such page, run, case or answer."""


class InvalidForm(Exception):
    """A form is too old, or not from these pages."""


class Site:
    """The runs, reviews and questions of one server, and its pages. Every form has its form token.

    Raises `InputError` if a folder of runs does not exist.
    """

    def __init__(self, config: WebConfig, settings: Settings) -> None:
        self.settings = settings
        self.record = config.record
        self.library = RunLibrary(config.runs)
        self.runs = RunCache(config.key)
        self.reviewable_runs = ReviewableRuns(self.library, config.key)
        self.reviews = ReviewStore(
            config.annotations or self.library.base_dir / "annotations"
        )
        self.jobs = QuestionJobs()
        self._form_token = secrets.token_urlsafe(24)

    def close(self) -> None:
        """Drop what has not been begun, and stop the questions in progress."""
        self.jobs.close()
        self.runs.close()

    def run_path(self, name: str) -> Path:
        """Return the folder of a run. Raises `NoSuchPage`."""
        path = self.library.find(name)
        if path is None:
            raise NoSuchPage
        return path

    def html(self, template_name: str, **values: Any) -> str:
        """Fill in a template of the pages or of the report."""
        return render(
            template_name,
            (_TEMPLATES,),
            live=True,
            form_token=self._form_token,
            text=True,
            part_level=3,
            **values,
        )

    def page(
        self,
        template_name: str,
        status: int = 200,
        **values: Any,
    ) -> Response:
        """Return the page of a template."""
        return HTMLResponse(self.html(template_name, **values), status)

    def error_page(self, message: str) -> Response:
        """Return the page that says why another cannot be shown."""
        return self.page("error.html.jinja", 422, message=message)

    async def read_form(self, request: Request) -> dict[str, str]:
        """Return the text fields of a form; files are refused. Raises `InvalidForm`."""
        form = await request.form(
            max_files=0, max_fields=_MAX_FORM_FIELDS, max_part_size=_MAX_FIELD_BYTES
        )
        fields = {}
        for name, field in form.items():
            if isinstance(field, str):
                fields[name] = field
        form_token = fields.get("form_token", "").encode()
        if not secrets.compare_digest(form_token, self._form_token.encode()):
            raise InvalidForm
        return fields


def text_response(
    content: str,
    media_type: str,
    file_name: str = "",
) -> Response:
    """Return text that is no page; with a name, it is a file to be saved."""
    headers = {}
    if file_name:
        headers["content-disposition"] = f'attachment; filename="{file_name}"'
    return Response(without_surrogates(content), media_type=media_type, headers=headers)


def redirect(url: str) -> Response:
    """Redirect to the page that shows the effect of a form."""
    return Response(status_code=303, headers={"location": url})


def run_url(name: str) -> str:
    """Return the URL of a run."""
    return f"/runs/{quote(name, safe='')}"


def review_url(name: str) -> str:
    """Return the URL of the reviews of a run's cases."""
    return f"{run_url(name)}/review"


class Pages:
    """Some pages of a site."""

    def __init__(self, site: Site) -> None:
        self._site = site
