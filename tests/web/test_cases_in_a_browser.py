"""The table of cases and the page of a case in headless Chromium."""

import asyncio
import json
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("fastapi", reason="the extra `web` is not installed")

import uvicorn

from archqa.report import write_report
from archqa.settings import Settings
from archqa.web import WebConfig, create_app
from tests.report.synthetic_runs import (
    cases_with_specialties,
    create_fhir_run_of_questions,
    create_run,
    keep_first_cases,
)
from tests.web.browser import RecordedPage, open_page, require_chromium

pytestmark = pytest.mark.browser

MANY = 2522


@pytest.fixture(scope="module", autouse=True)
def _browser() -> None:
    require_chromium()


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("served")
    create_fhir_run_of_questions(folder, MANY, name="many")
    create_run(folder, cases_with_specialties(6, sentences=80), name="one")
    create_run(
        folder, cases_with_specialties(6, sentences=80), name="two", threshold=0.35
    )
    return folder


@pytest.fixture(scope="module")
def url(runs: Path) -> Iterator[str]:
    """Serve the runs from a thread and yield the address."""
    app = create_app(WebConfig([runs]), on_loopback=True, settings=Settings())
    server = uvicorn.Server(uvicorn.Config(app, port=0, log_level="warning"))
    thread = threading.Thread(target=lambda: asyncio.run(server.serve()), daemon=True)
    thread.start()
    while not server.started:
        time.sleep(0.05)
    port = server.servers[0].sockets[0].getsockname()[1]
    yield f"http://127.0.0.1:{port}"
    server.should_exit = True
    thread.join(timeout=10)


def _wait_for_count(recorded: RecordedPage, words: str) -> None:
    recorded.page.locator("[data-count]", has_text=words).wait_for(timeout=60_000)


def _open_many(recorded: RecordedPage, url: str, fragment: str = "") -> Any:
    """Open the run of many cases once the scores of its cases are there."""
    recorded.page.goto(f"{url}/runs/many{fragment}")
    recorded.page.locator("th.k-score").wait_for(timeout=120_000)
    recorded.page.locator("form.filters:not([hidden])").wait_for(timeout=60_000)
    return recorded.page


def _processor_seconds(recorded: RecordedPage, what: Any) -> float:
    """The page's own processor time, so that other load on the machine does not count."""
    session = recorded.page.context.new_cdp_session(recorded.page)
    session.send("Performance.enable", {"timeDomain": "threadTicks"})

    def taken() -> float:
        metrics = session.send("Performance.getMetrics")["metrics"]
        return next(each["value"] for each in metrics if each["name"] == "ThreadTime")

    before = taken()
    what()
    return taken() - before


def test_many_cases_open_and_filter_quickly(url: str) -> None:
    with open_page() as recorded:
        _open_many(recorded, url)
        # A fresh page: what was computed of the run is there.
        page = recorded.page.context.new_page()
        fresh = RecordedPage(page)

        def open_again() -> None:
            page.goto(f"{url}/runs/many")
            _wait_for_count(fresh, "2\u202f522 cases")

        assert _processor_seconds(fresh, open_again) < 1.5
        search = page.locator("[data-search]")
        for words, count in (
            ("glucose", "841 of"),
            ("glucose 120", "of 2"),
            ("", "2\u202f522"),
        ):
            assert _processor_seconds(fresh, lambda text=words: search.fill(text)) < 0.1  # type: ignore[misc]
            _wait_for_count(fresh, count)
        sort = page.get_by_role("button", name="Time")
        assert _processor_seconds(fresh, sort.click) < 0.15
        assert fresh.console == []


def test_rows_are_filtered_sorted_and_come_as_the_page_is_scrolled(url: str) -> None:
    with open_page() as recorded:
        page = _open_many(recorded, url)
        page.locator("[data-filter=status]").select_option("failed")
        _wait_for_count(recorded, "25 of")
        assert set(page.locator("tbody .status").all_inner_texts()) == {"failed"}
        page.get_by_role("button", name="Clear").click()
        _wait_for_count(recorded, "2\u202f522 cases")
        page.locator("[data-from=score]").fill("1")
        page.get_by_role("button", name="Time").click()
        page.get_by_role("button", name="Time").click()
        assert page.locator("th.k-seconds").get_attribute("aria-sort") == "descending"
        rows = page.evaluate(
            "document.querySelector('[data-case-table]').caseTable.shown"
        )
        seconds = [row["seconds"] for row in rows]
        assert seconds == sorted(seconds, reverse=True)
        assert {row["score"] for row in rows} == {1}
        placed = page.locator("tbody tr").count()
        assert placed < len(rows)
        page.locator("[data-more]").scroll_into_view_if_needed()
        page.locator("tbody tr").nth(placed).wait_for(state="attached")


def test_back_keeps_the_filter_and_next_follows_the_table(url: str) -> None:
    with open_page() as recorded:
        page = _open_many(recorded, url)
        page.locator("[data-search]").fill("weight")
        page.get_by_role("button", name="Time").click()
        _wait_for_count(recorded, "of 2\u202f522")
        shown = page.evaluate(
            "document.querySelector('[data-case-table]').caseTable.shown.map((row) => row.index)"
        )
        page.locator("tbody tr a").nth(2).click()
        page.wait_for_url(f"**/cases/{shown[2]}")
        page.locator("a[rel=next]").click()
        page.wait_for_url(f"**/cases/{shown[3]}")
        assert (
            f"4 of {len(shown)} in the table"
            in page.locator("[data-place]").inner_text()
        )
        page.go_back()
        page.go_back()
        page.wait_for_url("**/runs/many#*")
        _wait_for_count(recorded, "of 2\u202f522")
        assert page.locator("[data-search]").input_value() == "weight"
        assert page.locator("th.k-seconds").get_attribute("aria-sort") == "ascending"
        page.goto(f"{url}/runs/many/cases/{shown[0]}")
        page.locator("a[data-back]").click()
        page.wait_for_url("**/runs/many#q=weight*")


def test_a_citation_lights_its_sentence_and_the_answer_stays_in_view(url: str) -> None:
    with open_page(1440) as recorded:
        page = recorded.page
        page.goto(f"{url}/runs/one/cases/0")
        citation = page.locator("ol.answer a.cite").last
        sentence = page.locator(citation.get_attribute("href"))
        citation.hover()
        assert "lit" in sentence.get_attribute("class")
        citation.click()
        for element in (sentence, citation):
            box = element.bounding_box()
            assert 0 <= box["y"] < 900
        sentence.hover()
        assert "lit" in citation.get_attribute("class")
        assert recorded.console == []


def test_a_run_that_runs_refreshes_itself_until_it_is_paused(
    url: str, runs: Path
) -> None:
    path = create_run(runs, cases_with_specialties(6), name="growing")
    whole = (path / "cases.jsonl").read_text()
    keep_first_cases(path, 2)
    with open_page() as recorded:
        page = recorded.page
        page.goto(f"{url}/runs/growing")
        page.locator(".stands", has_text="running: 2 of 6 cases").wait_for()
        page.locator("[data-search]").fill("q")
        keep = whole.splitlines(keepends=True)
        (path / "cases.jsonl").write_text("".join(keep[:4]))
        page.locator(".stands", has_text="running: 4 of 6 cases").wait_for(
            timeout=60_000
        )
        page.locator(".over", has_text="over 4 of 6 cases").wait_for(timeout=60_000)
        assert page.locator("[data-search]").input_value() == "q"
        page.get_by_role("button", name="Pause refreshing").click()
        asked = len(recorded.requests)
        page.wait_for_timeout(5000)
        assert len(recorded.requests) == asked
        manifest = json.loads((path / "run.json").read_text()) | {"status": "finished"}
        (path / "cases.jsonl").write_text(whole)
        (path / "run.json").write_text(json.dumps(manifest))
        page.get_by_role("button", name="Pause refreshing").click()
        page.locator(".stands", has_text="finished: 6 cases").wait_for(timeout=60_000)
        page.get_by_role("button", name="Pause refreshing").wait_for(state="hidden")
        assert recorded.console == []


def test_compared_cases_are_filtered_and_shown_side_by_side(url: str) -> None:
    with open_page(1440) as recorded:
        page = recorded.page
        page.goto(f"{url}/compare?first=one&second=two")
        page.locator("[data-filter=kinds]").select_option("evidence differs")
        _wait_for_count(recorded, "case")
        page.locator("tbody a").first.click()
        page.get_by_role("region", name="Answer of run 2").wait_for()
        assert page.get_by_role("region", name="Answer of run 1").is_visible()
        assert recorded.console == []


@pytest.mark.parametrize(
    ("width", "scheme"), [(1440, "dark"), (390, "light"), (390, "dark")]
)
def test_the_pages_fit_and_are_accessible(url: str, width: int, scheme: str) -> None:
    paths = [
        "runs/one", "runs/one/cases/1", "runs/many/cases/7", "compare?first=one&second=two",
        "compare/cases/1?first=one&second=two",
    ]  # fmt: skip
    with open_page(width, scheme, bypass_csp=True) as recorded:
        for path in paths:
            recorded.page.goto(f"{url}/{path}")
            recorded.page.wait_for_timeout(300)
            assert recorded.overflow_width() <= 0, path
            assert recorded.console == [], path
        for path in paths:
            recorded.page.goto(f"{url}/{path}")
            assert recorded.accessibility_violations() == [], path


def test_the_table_of_the_single_file_filters_and_its_first_case_is_near(
    tmp_path: Path,
) -> None:
    report = write_report([create_fhir_run_of_questions(tmp_path, MANY)])
    with open_page() as recorded:
        page = recorded.page

        def open_report() -> None:
            page.goto(report.as_uri())
            _wait_for_count(recorded, "2\u202f522 cases")

        assert _processor_seconds(recorded, open_report) < 2.5
        assert report.stat().st_size < 6_000_000
        assert page.locator("article").first.bounding_box()["y"] < 1800
        search = page.locator("[data-search]")
        assert _processor_seconds(recorded, lambda: search.fill("weight")) < 0.15
        _wait_for_count(recorded, "of 2")
        assert recorded.console == []
    with open_page(java_script_enabled=False) as recorded:
        recorded.page.goto(report.as_uri())
        assert recorded.page.locator("tbody tr[data-row]").count() == MANY
        assert recorded.page.locator("form.filters").is_hidden()
