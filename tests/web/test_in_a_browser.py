"""Report and pages in headless Chromium: readable, accessible, without errors or other hosts."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from archqa.core.case import Case, Sentence
from archqa.core.question import RecordQuestion
from archqa.report import write_report
from tests.report.synthetic_runs import (
    cases_with_specialties,
    create_fhir_run,
    create_run,
)
from tests.report.test_report import HOSTILE
from tests.web.browser import open_page, require_chromium
from tests.web.served import page_url, served

pytestmark = pytest.mark.browser

LOOKS = [(1280, "light"), (390, "dark")]
"""Every width and every color scheme once: axe-core takes seconds."""


@pytest.fixture(scope="module", autouse=True)
def _browser() -> None:
    require_chromium()


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Reports of a run, of two runs, of questions on a record, and of a hostile note."""
    folder = tmp_path_factory.mktemp("pages")
    cases = cases_with_specialties(3, sentences=12)
    run_1 = create_run(folder, cases, name="one")
    run_2 = create_run(folder, cases, name="two", threshold=0.35)
    (folder / "record").mkdir()
    (folder / "hostile").mkdir()
    rows = tuple(Sentence(id=str(at), text=text) for at, text in enumerate(HOSTILE))
    hostile = Case(
        id="<i>h</i>",
        patient_narrative=HOSTILE[0],
        clinician_question=HOSTILE[1],
        sentences=rows,
    )
    return {
        "report": write_report([run_1]),
        "comparison": write_report([run_1, run_2], folder / "both.html"),
        "record": write_report([_record(folder / "record")]),
        "hostile": write_report([create_run(folder / "hostile", [hostile])]),
        "bare": write_report([run_1], folder / "bare.html", text=False),
    }


def _record(folder: Path) -> Path:
    rows = [
        {"time": f"2150-01-{day:02}T06:00:00", "name": "Glucose", "value": 80 + day % 7, "unit": "mg/dL",
         "references": [f"Observation/{day:036}"], "chosen": day == 3}
        for day in range(1, 28)
    ]  # fmt: skip
    result = {
        "agent_answer": "83",
        "sentence": "The third value of 'Glucose'.",
        "query": {"what": "lab"},
        "rows": rows,
    }
    cited = {"cited_fhir_resources": {"Observation": [f"{3:036}"]}}
    item = RecordQuestion(
        id="q" * 24, question="What was the third glucose?", patient_fhir_id="p"
    )
    return create_fhir_run(folder, "fhir-agentbench", [item], [{**result, **cited}])


@pytest.mark.parametrize("name", ["report", "comparison", "record", "hostile", "bare"])
def test_a_page_has_no_errors_no_requests_and_is_accessible(
    pages: dict[str, Path], name: str
) -> None:
    with open_page(
        bypass_csp=True
    ) as recorded:  # Only so that axe-core can be injected.
        recorded.page.goto(pages[name].as_uri())
        assert recorded.console == []
        assert recorded.requests == [pages[name].as_uri()]
        for width, scheme in LOOKS:
            recorded.page.set_viewport_size({"width": width, "height": 900})
            recorded.page.emulate_media(color_scheme=scheme)
            assert recorded.overflow_width() <= 0, (width, scheme)
            assert recorded.accessibility_violations() == [], (width, scheme)


def test_a_citation_leads_to_its_sentence(pages: dict[str, Path]) -> None:
    with open_page(java_script_enabled=False) as recorded:
        recorded.page.goto(pages["report"].as_uri())
        citation = recorded.page.locator("ol.answer a.cite").first
        sentence_anchor = citation.get_attribute("href")
        citation.click()
        assert recorded.page.url.endswith(sentence_anchor)
        box = recorded.page.locator(sentence_anchor).bounding_box()
        assert 40 <= box["y"] < 900  # In the window, below the bar.
        recorded.page.locator(f"{sentence_anchor} a.back").first.click()
        assert "-a" in recorded.page.url.rsplit("#", 1)[1]


def test_a_hostile_note_does_nothing(pages: dict[str, Path]) -> None:
    with open_page(bypass_csp=True) as recorded:
        recorded.page.goto(pages["hostile"].as_uri())
        recorded.page.wait_for_timeout(200)
        assert recorded.page.title().startswith("Report")
        assert recorded.console == []
        assert recorded.page.locator("article script, article img").count() == 0
        assert HOSTILE[0] in recorded.page.locator("ol.note").inner_text()
        direction = "getComputedStyle(e).direction"
        arabic = recorded.page.locator("ol.note bdi", has_text="المريض")
        assert arabic.evaluate(f"e => {direction}") == "rtl"


def test_a_report_of_120_cases_opens_in_two_seconds(tmp_path: Path) -> None:
    path = write_report([create_run(tmp_path, cases_with_specialties(120))])
    assert path.stat().st_size <= 5_000_000
    with open_page() as recorded:
        clock = recorded.page.context.new_cdp_session(recorded.page)
        clock.send("Performance.enable", {"timeDomain": "threadTicks"})
        recorded.page.goto(path.as_uri())
        recorded.page.locator("h1").wait_for()
        metrics = {
            metric["name"]: metric["value"]
            for metric in clock.send("Performance.getMetrics")["metrics"]
        }
    # The page's own processor time, so that other load on the machine does not count.
    assert metrics["ThreadTime"] < 1.5


@pytest.fixture(scope="module")
def server_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Run `archqa serve` on a folder with one run and yield its URL."""
    folder = tmp_path_factory.mktemp("served")
    create_run(folder, cases_with_specialties(2), name="one")
    with served(folder) as url:
        yield url


@pytest.mark.parametrize(("width", "scheme"), [(1280, "light"), (390, "dark")])
def test_the_form_answers_a_pasted_note(
    server_url: str, width: int, scheme: str
) -> None:
    note = "He was admitted with oedema.\n- ASA 81 mg p.o. daily\n\nFurosemide was given for fluid overload."
    with open_page(width, scheme) as recorded:
        recorded.page.goto(server_url)
        recorded.page.fill("#question", "Why was furosemide given?")
        recorded.page.fill("#note", note)
        recorded.page.locator("button.main").click()
        recorded.page.locator("article ol.answer").wait_for(timeout=60_000)
        assert (
            "Furosemide was given"
            in recorded.page.locator("article ol.answer").inner_text()
        )
        recorded.page.locator("ol.answer a.cite").first.click()
        assert "#c1-s" in recorded.page.url
        assert recorded.overflow_width() <= 0
        assert recorded.console == []
        assert {url.split("/")[2] for url in recorded.requests} - {""} <= {
            server_url.split("/")[2]
        }


@pytest.mark.parametrize(
    "path",
    [
        "",
        "runs/one",
        "runs/one/figures",
        "runs/one/cases/0",
        "runs/one/cases/0/trace",
        "runs/one/review/0",
    ],
)
def test_the_live_pages_are_accessible(server_url: str, path: str) -> None:
    with open_page(390, "dark", bypass_csp=True) as recorded:
        recorded.page.goto(page_url(server_url, path))
        assert recorded.accessibility_violations() == []
        assert recorded.overflow_width() <= 0
        assert recorded.console == []


def test_an_answer_is_copied_with_its_citations(server_url: str) -> None:
    with open_page(permissions=["clipboard-read", "clipboard-write"]) as recorded:
        recorded.page.goto(page_url(server_url, "runs/one/cases/0"))
        recorded.page.locator("button[data-copy]").first.click()
        recorded.page.locator("[role=status]", has_text="Copied").first.wait_for()
        copied = recorded.page.evaluate("navigator.clipboard.readText()")
        assert copied.startswith("As sentence")
        assert "|" in copied
        assert "[" in copied


def test_each_text_of_a_trace_is_a_click_away_without_scripts(server_url: str) -> None:
    with open_page(java_script_enabled=False) as recorded:
        recorded.page.goto(page_url(server_url, "runs/one/cases/0/trace"))
        reply = recorded.page.locator("pre", has_text="What the model said.")
        assert not reply.is_visible()
        recorded.page.locator("summary", has_text="Reply").click()
        assert reply.is_visible()
        assert not recorded.page.locator("[data-trace-tools]").is_visible()


def test_a_trace_is_filtered_and_opened_by_keyboard(server_url: str) -> None:
    with open_page() as recorded:
        recorded.page.goto(page_url(server_url, "runs/one/cases/0/trace"))
        reply = recorded.page.locator("pre", has_text="What the model said.")
        recorded.page.locator("#trace-filter").focus()
        recorded.page.keyboard.type("model said")
        reply.wait_for(state="visible")
        recorded.page.keyboard.type(" nowhere")
        recorded.page.locator("[role=status]", has_text="0 of 1").wait_for()
        assert recorded.page.locator(".t-stage:visible").count() == 0
        recorded.page.locator("#trace-filter").fill("")
        recorded.page.locator(".t-stage").wait_for()
        recorded.page.locator("[data-open=false]").press("Enter")
        assert not reply.is_visible()
        recorded.page.locator("[data-open=true]").press("Enter")
        assert reply.is_visible()
        assert recorded.console == []
