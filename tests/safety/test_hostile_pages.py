"""Reports and live pages show ids, notes, names and replies as text, never as markup."""

import html
import json
from collections.abc import AsyncIterator
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import quote

import httpx2
import pytest

pytest.importorskip("fastapi", reason="the extra `web` is not installed")

from archqa.core.answer import CitedAnswer, Claim
from archqa.core.case import Case, Sentence
from archqa.core.judgement import Judgement, Relevance
from archqa.core.question import RecordQuestion
from archqa.core.step import Step
from archqa.core.usage import Usage
from archqa.report import show_case
from archqa.runs.folder import RunFolder
from archqa.runs.record import AgentBackend, CaseRecord, CaseStatus
from archqa.runs.run import Run
from archqa.settings import Settings
from archqa.web import WebConfig, create_app
from tests.conftest import ROOT
from tests.report.synthetic_runs import create_fhir_run, create_run
from tests.safety.command_line import archqa

MARKER = "pwned"
ATTACKS = f"<script>{MARKER}</script>\"'><img src=x onerror={MARKER}>{{{{7*7}}}}{{% {MARKER} %}}"
LINK = f"javascript:{MARKER}"
TEXT = f"{ATTACKS} {LINK}"
SENTENCE_ID = f"1<script>{MARKER}</script>\"'>{LINK}"
"""Ids of sentences hold no white space and no comma."""

_TEMPLATES = ROOT / "archqa" / "report" / "templates"
_SCRIPTS = [
    *(ROOT / "archqa" / "web" / "static").glob("*.js"),
    *_TEMPLATES.glob("*.js"),
]
_SERVED_SCRIPTS = {f"/static/{path.name}" for path in _SCRIPTS}
_REPORT_SCRIPT = (_TEMPLATES / "case_table.js").read_text(encoding="utf-8")
"""The one script that stands in a page: that of a report, which its policy names by its hash."""

_URL_ATTRIBUTES = frozenset(
    {"href", "src", "action", "formaction", "xlink:href", "srcdoc"}
)


class _Elements(HTMLParser):
    """Collects the names of elements and attributes, and what leads out of the page."""

    def __init__(self) -> None:
        super().__init__()
        self.scripts: list[str] = []
        self._is_script = False
        self.handlers: list[str] = []
        self.urls: list[str] = []
        self.tags: set[str] = set()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = dict(attrs)
        self.tags.add(tag)
        self._is_script = tag == "script"
        if values.get("src") and self._is_script:
            self.scripts.append(values["src"] or "")
        for name, value in attrs:
            if name.startswith("on") or MARKER in name:
                self.handlers.append(name)
            if name in _URL_ATTRIBUTES:
                self.urls.append(value or "")

    def handle_data(self, data: str) -> None:
        if self._is_script and data.strip():
            self.scripts.append(data)

    def handle_endtag(self, tag: str) -> None:
        self._is_script = False


def assert_harmless(page: str) -> None:
    elements = _Elements()
    elements.feed(page)
    assert set(elements.scripts) <= {*_SERVED_SCRIPTS, _REPORT_SCRIPT}
    assert not elements.handlers
    assert "img" not in elements.tags
    for url in elements.urls:
        assert url.startswith(("/", "#", "data:,")) or not url, url
    assert "{{7*7}}" in html.unescape(page)  # It is shown, and no template computes it.


def hostile_run(folder: Path, name: str = "run") -> Path:
    folder.mkdir(exist_ok=True)
    case_id = f"c{TEXT}"
    sentences = (Sentence(id=SENTENCE_ID, text=TEXT), Sentence(id="2", text=TEXT))
    case = Case(
        id=case_id,
        patient_narrative=TEXT,
        clinician_question=TEXT,
        sentences=sentences,
        clinical_specialty=TEXT,
        title=TEXT,
    )
    path = create_run(folder, [case], name=name)
    (path / "cases.jsonl").unlink()
    judgement = Judgement(
        sentence_id=SENTENCE_ID,
        label=Relevance.ESSENTIAL,
        rationale=TEXT,
        probability=0.9,
    )
    run = RunFolder(path)
    record = CaseRecord(
        id=case_id,
        status=CaseStatus.ANSWERED,
        answer=CitedAnswer(
            claims=(Claim(text=TEXT, citations=(SENTENCE_ID, f"9{TEXT}")),)
        ),
        evidence=(SENTENCE_ID,),
        judgements={f"agent {TEXT}": (judgement,)},
        experts=(TEXT,),
        remarks=(TEXT,),
        error=TEXT,
    )
    run.add(record)
    usage = Usage(calls=1)
    step = Step(
        agent=TEXT, backend="model", model=TEXT, reply=TEXT, rejected=TEXT, usage=usage
    )
    run.add_step(case_id, step)
    manifest = run.manifest()
    changes = {
        "settings": {"model": TEXT},
        "backends": {TEXT: AgentBackend(kind="model", name=TEXT, server=TEXT)},
        "prompts": {TEXT: TEXT},
        "versions": {TEXT: TEXT},
        "remarks": (TEXT,),
        "run": TEXT,
        "git_revision": TEXT,
    }
    run.write_manifest(manifest.model_copy(update=changes))
    return path


def hostile_record_run(folder: Path) -> Path:
    question = RecordQuestion(
        id=TEXT, question=TEXT, patient_fhir_id=TEXT, assumption=TEXT
    )
    row = {
        "name": TEXT,
        "value": TEXT,
        "time": TEXT,
        "unit": TEXT,
        "references": [TEXT],
    }
    result = {
        "agent_answer": TEXT,
        "agent_fhir_resources": {TEXT: [TEXT]},
        "trace": [{"role": TEXT, "content": TEXT}],
        "sentence": TEXT,
        "rows": [row],
        "warnings": [TEXT],
        "faults": {TEXT: 1},
    }
    return create_fhir_run(folder, "fhir-agentbench", [question], [result])


def test_a_report_of_a_hostile_run_is_text(tmp_path: Path) -> None:
    run = hostile_run(tmp_path)
    assert archqa("report", str(run)).returncode == 0
    assert_harmless((run / "report.html").read_text())


def test_a_comparison_of_hostile_runs_is_text(tmp_path: Path) -> None:
    runs = [hostile_run(tmp_path / part) for part in ("1", "2")]
    out = tmp_path / "out.html"
    assert archqa("report", *map(str, runs), "--out", str(out)).returncode == 0
    assert_harmless(out.read_text())


def test_a_report_of_hostile_questions_to_a_record_is_text(tmp_path: Path) -> None:
    run = hostile_record_run(tmp_path)
    assert archqa("report", str(run)).returncode == 0
    assert_harmless((run / "report.html").read_text())


def test_a_hostile_case_in_a_notebook_is_text(tmp_path: Path) -> None:
    run = hostile_run(tmp_path)
    assert_harmless(show_case(run, f"c{TEXT}").html)
    frame = show_case(run, f"c{TEXT}")._repr_html_()
    elements = _Elements()
    elements.feed(frame)
    assert elements.tags == {"iframe"}
    record = Run.open(run).records[0]
    for shown in (record._repr_html_(), Run.open(run).cases[0]._repr_html_()):
        assert "<script" not in shown
        assert "<img" not in shown


@pytest.fixture
async def client(tmp_path: Path) -> AsyncIterator[httpx2.AsyncClient]:
    runs = tmp_path / "runs"
    hostile_run(runs, name=f"run{ATTACKS.replace('/', '')}")
    hostile_run(runs, name="bytes\udce9")
    app = create_app(WebConfig([runs]), token=None, settings=Settings())
    transport = httpx2.ASGITransport(app=app)  # type: ignore[arg-type]
    async with httpx2.AsyncClient(
        transport=transport, base_url="http://127.0.0.1:8484"
    ) as connected:
        yield connected


async def test_live_pages_of_hostile_runs_are_text(client: httpx2.AsyncClient) -> None:
    name = quote(f"run{ATTACKS.replace('/', '')}", safe="")
    compared = f"/compare?first={name}&second={name}"
    client.cookies.set("archqa_reviewer", "Anna")  # Reviews ask for a name first.
    parts = ("", "/figures", "/cases/0", "/cases/0/trace", "/review/0", "/reviews")
    for path in ("/", *(f"/runs/{name}{part}" for part in parts), compared):
        page = await client.get(path)
        assert page.status_code == 200, path
        assert_harmless(page.text)


async def test_a_run_folder_whose_name_is_not_utf8_stops_no_page(
    client: httpx2.AsyncClient,
) -> None:
    assert (await client.get("/")).status_code == 200
    page = await client.get("/runs/" + quote("bytes\ufffd"))
    assert page.status_code == 200


async def test_a_hostile_answer_to_a_question_is_text(
    client: httpx2.AsyncClient,
) -> None:
    token = (
        (await client.get("/"))
        .text.partition('name="form_token" value="')[2]
        .partition('"')[0]
    )
    form = {
        "form_token": token,
        "question": f"Why {TEXT}?",
        "note": f"Heparin {TEXT} was given.",
    }
    asked = await client.post("/ask", data=form)
    assert asked.status_code == 303
    answer = str(asked.headers["location"])
    events = await client.get(f"{answer}/events")
    assert json.loads(events.text.rstrip().splitlines()[-1].removeprefix("data: "))
    assert_harmless((await client.get(answer)).text)
