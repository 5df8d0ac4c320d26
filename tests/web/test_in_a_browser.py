"""Report and pages in headless Chromium: legible, accessible, silent, and asking nobody else for anything."""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from archqa.core.case import Case, Sentence
from archqa.core.question import RecordQuestion
from archqa.report import write_report
from tests.report.made import cases_with_specialties, create_fhir_run, create_run
from tests.report.test_report import HOSTILE
from tests.web.browser import needed, opened

pytestmark = pytest.mark.browser

LOOKS = [(1280, "light"), (1280, "dark"), (390, "light"), (390, "dark")]


@pytest.fixture(scope="module", autouse=True)
def _browser() -> None:
    needed()


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """A report, a comparison, one about a record, and one of a hostile note."""
    folder = tmp_path_factory.mktemp("pages")
    cases = cases_with_specialties(6)
    one, two = (
        create_run(folder, cases, name="one"),
        create_run(folder, cases, name="two", threshold=0.35),
    )
    (folder / "record").mkdir()
    (folder / "hostile").mkdir()
    rows = tuple(Sentence(id=str(at), text=text) for at, text in enumerate(HOSTILE))
    hostile = Case(
        id="<i>h</i>", patient_narrative=HOSTILE[0], clinician_question=HOSTILE[1], sentences=rows
    )
    return {
        "report": write_report([one]),
        "comparison": write_report([one, two], folder / "both.html"),
        "record": write_report([_record(folder / "record")]),
        "hostile": write_report([create_run(folder / "hostile", [hostile])]),
        "bare": write_report([one], folder / "bare.html", text=False),
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
    item = RecordQuestion(id="q" * 24, question="What was the third glucose?", patient_fhir_id="p")
    return create_fhir_run(folder, "fhir-agentbench", [item], [{**result, **cited}])


@pytest.mark.parametrize("name", ["report", "comparison", "record", "hostile", "bare"])
def test_a_page_is_silent_alone_accessible_and_fits(pages: dict[str, Path], name: str) -> None:
    with opened(bypass_csp=True) as seen:  # Only so that axe-core can be brought in.
        seen.page.goto(pages[name].as_uri())
        assert seen.console == []
        assert seen.requests == [pages[name].as_uri()]
        for width, scheme in LOOKS:
            seen.page.set_viewport_size({"width": width, "height": 900})
            seen.page.emulate_media(color_scheme=scheme)
            assert seen.too_wide() <= 0, (width, scheme)
            assert seen.serious_faults() == [], (width, scheme)


def test_a_citation_leads_to_its_sentence(pages: dict[str, Path]) -> None:
    with opened(java_script_enabled=False) as seen:
        seen.page.goto(pages["report"].as_uri())
        citation = seen.page.locator("ol.answer a.cite").first
        wanted = citation.get_attribute("href")
        citation.click()
        assert seen.page.url.endswith(wanted)
        box = seen.page.locator(wanted).bounding_box()
        assert 40 <= box["y"] < 900  # In the window, below the bar.
        seen.page.locator(f"{wanted} a.back").first.click()
        assert "-a" in seen.page.url.rsplit("#", 1)[1]


def test_a_hostile_note_does_nothing(pages: dict[str, Path]) -> None:
    with opened(bypass_csp=True) as seen:
        seen.page.goto(pages["hostile"].as_uri())
        seen.page.wait_for_timeout(200)
        assert seen.page.title().startswith("Report")
        assert seen.console == []
        assert seen.page.locator("article script, article img").count() == 0
        assert HOSTILE[0] in seen.page.locator("ol.note").inner_text()
        direction = "getComputedStyle(e).direction"
        arabic = seen.page.locator("ol.note bdi", has_text="المريض")
        assert arabic.evaluate(f"e => {direction}") == "rtl"


def test_a_report_of_120_cases_opens_in_two_seconds(tmp_path: Path) -> None:
    path = write_report([create_run(tmp_path, cases_with_specialties(120))])
    assert path.stat().st_size <= 5_000_000
    with opened() as seen:
        clock = seen.page.context.new_cdp_session(seen.page)
        clock.send("Performance.enable", {"timeDomain": "threadTicks"})
        seen.page.goto(path.as_uri())
        seen.page.locator("h1").wait_for()
        metrics = {
            each["name"]: each["value"] for each in clock.send("Performance.getMetrics")["metrics"]
        }
    # The page's own processor time, so that what else the machine is doing does not count; on an idle one it is nearly
    # all there is to wait for.
    assert metrics["ThreadTime"] < 1.5


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """`archqa serve` over a folder with one run, on a port of its own; its address."""
    folder = tmp_path_factory.mktemp("served")
    create_run(folder, cases_with_specialties(2), name="one")
    command = [
        sys.executable,
        "-c",
        "from archqa.cli.main import run; run()",
        "serve",
        str(folder),
        "--port",
        "0",
    ]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as server:
        assert server.stdout is not None
        yield server.stdout.readline().strip()
        server.terminate()


@pytest.mark.parametrize(("width", "scheme"), [(1280, "light"), (390, "dark")])
def test_the_form_answers_a_pasted_note(served: str, width: int, scheme: str) -> None:
    note = "He was admitted with oedema.\n- ASA 81 mg p.o. daily\n\nFurosemide was given for fluid overload."
    with opened(width, scheme) as seen:
        seen.page.goto(served)
        seen.page.fill("#question", "Why was furosemide given?")
        seen.page.fill("#note", note)
        seen.page.locator("button.main").click()
        seen.page.locator("ol.answer").wait_for(timeout=60_000)
        assert "Furosemide was given" in seen.page.locator("ol.answer").inner_text()
        seen.page.locator("ol.answer a.cite").first.click()
        assert "#c1-s" in seen.page.url
        assert seen.too_wide() <= 0
        assert seen.console == []
        assert {each.split("/")[2] for each in seen.requests} - {""} <= {served.split("/")[2]}


@pytest.mark.parametrize("path", ["", "runs/one", "runs/one/review/0"])
def test_the_live_pages_are_accessible(served: str, path: str) -> None:
    with opened(390, "dark", bypass_csp=True) as seen:
        seen.page.goto(f"{served}{path}")
        assert seen.serious_faults() == []
        assert seen.too_wide() <= 0
        assert seen.console == []


def test_an_answer_is_copied_with_its_citations(served: str) -> None:
    with opened(permissions=["clipboard-read", "clipboard-write"]) as seen:
        seen.page.goto(f"{served}runs/one")
        seen.page.locator("button[data-copy]").first.click()
        seen.page.locator("[role=status]", has_text="Copied").first.wait_for()
        copied = seen.page.evaluate("navigator.clipboard.readText()")
        assert copied.startswith("As sentence")
        assert "|" in copied
        assert "[" in copied


def test_a_review_is_saved_from_the_page(served: str) -> None:
    with opened() as seen:
        seen.page.goto(f"{served}runs/one/review/0")
        seen.page.locator("input[value=down]").check()
        seen.page.locator("summary", has_text="Correct the evidence").click()
        seen.page.locator("select[name=label-3]").select_option("supplementary")
        seen.page.locator("button.main").click()
        seen.page.locator("text=✓ Saved").wait_for()
        assert seen.page.locator("select[name=label-3]").input_value() == "supplementary"
