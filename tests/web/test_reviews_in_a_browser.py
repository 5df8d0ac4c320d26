"""The review pages in headless Chromium: nothing is lost, and the keyboard suffices."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from archqa.core.question import RecordQuestion
from tests.report.synthetic_runs import (
    cases_with_specialties,
    create_fhir_run,
    create_run,
)
from tests.web.browser import RecordedPage, open_page, require_chromium
from tests.web.served import served

pytestmark = pytest.mark.browser


@pytest.fixture(scope="module", autouse=True)
def _browser() -> None:
    require_chromium()


@pytest.fixture(scope="module")
def server_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Run `archqa serve` on a run of notes and one of questions, and yield its URL."""
    folder = tmp_path_factory.mktemp("reviewed")
    create_run(folder, cases_with_specialties(12), name="one")
    (folder / "record").mkdir()
    question = RecordQuestion(
        id="q" * 24, question="Last glucose?", patient_fhir_id="p"
    )
    answer = {
        "agent_answer": "83",
        "query": {"what": "lab"},
        "sentence": "The last glucose.",
    }
    path = create_fhir_run(folder / "record", "fhir-agentbench", [question], [answer])
    path.rename(folder / "fhir")
    with served(folder) as url:
        yield url


class ReviewPage:
    """A page of a named reviewer; every test has its own case and its own name."""

    def __init__(self, recorded: RecordedPage, server_url: str) -> None:
        self.recorded = recorded
        self.page: Any = recorded.page
        self._base, self._token = server_url.split("/?token=")

    def open(self, path: str) -> None:
        self.page.goto(f"{self._base}{path}")
        self.page.wait_for_load_state("load")

    def sign_in(self, name: str, *, blind: bool = False) -> None:
        self.page.goto(f"{self._base}/reviewer?token={self._token}")
        self.page.fill("#reviewer", name)
        if blind:
            self.page.check("[name=blind]")
        self.page.click("button.main")

    def pick(self, field: str, value: str) -> None:
        self.page.locator(f'[name="field-{field}"][value="{value}"]').click()

    def said(self, field: str) -> str | None:
        checked = self.page.locator(f'[name="field-{field}"]:checked')
        return str(checked.input_value()) if checked.count() else None

    def save(self) -> None:
        self.page.locator(".savebar button", has_text="Save").first.click()
        self.page.locator("[role=status]", has_text="✓ Saved").wait_for()


@contextmanager
def review_page(
    server_url: str, name: str, *, blind: bool = False, **options: Any
) -> Iterator[ReviewPage]:
    """Open a browser of a reviewer."""
    with open_page(**options) as recorded:
        reviewing = ReviewPage(recorded, server_url)
        reviewing.sign_in(name, blind=blind)
        yield reviewing


def test_a_reload_keeps_what_was_saved(server_url: str) -> None:
    with review_page(server_url, "Reload") as review:
        review.open("/runs/one/review/0")
        review.pick("sentence/4", "supplementary")
        review.pick("line/1", "not")
        review.save()
        review.page.reload()
        assert review.said("sentence/4") == "supplementary"
        assert review.said("line/1") == "not"
        assert review.said("sentence/5") is None
        assert review.recorded.console == []


def test_clear_clears(server_url: str) -> None:
    with review_page(server_url, "Clear") as review:
        review.open("/runs/one/review/1")
        review.pick("sentence/4", "essential")
        review.save()
        review.pick("sentence/4", "")
        review.save()
        assert review.said("sentence/4") is None
        review.pick("sentence/5", "essential")
        review.pick("sentence/5", "")
        assert review.page.locator("[data-unsaved]").inner_text() == ""


def test_a_stale_tab_deletes_nothing_and_says_what_differs(server_url: str) -> None:
    with review_page(server_url, "Stale", bypass_csp=True) as review:
        review.open("/runs/one/review/2")
        stale = review.page.context.new_page()
        stale.goto(review.page.url)
        review.pick("sentence/4", "essential")
        review.pick("sentence/5", "essential")
        review.save()
        stale.locator('[name="field-sentence/5"][value="not-relevant"]').check()
        stale.locator('[name="field-sentence/6"][value="essential"]').check()
        stale.locator(".savebar button", has_text="Save").first.click()
        stale.locator("legend", has_text="Sentence 5").wait_for()
        assert RecordedPage(stale).accessibility_violations() == []
        stale.locator("label", has_text="Save my edit").locator("input").check()
        stale.locator("button.main").click()
        stale.locator("[role=status]", has_text="✓ Saved").wait_for()
        review.page.reload()
        assert [review.said(f"sentence/{number}") for number in (4, 5, 6)] == [
            "essential",
            "not-relevant",
            "essential",
        ]


def test_leaving_with_unsaved_edits_warns(server_url: str) -> None:
    with review_page(server_url, "Leave") as review:
        review.open("/runs/one/review/3")
        review.pick("sentence/4", "essential")
        assert (
            "1 change is not saved"
            in review.page.locator("[data-unsaved]").inner_text()
        )
        review.page.locator("nav.bar a", has_text="The run").click(no_wait_after=True)
        review.page.wait_for_timeout(300)
        assert review.recorded.console == [
            "a dialog opened"
        ]  # The helper stays on the page.
        assert "/review/3" in review.page.url
        review.save()
        review.page.locator("nav.bar a", has_text="The run").click()
        review.page.wait_for_url("**/runs/one")


def test_a_blind_reviewer_sees_the_answer_after_saving(server_url: str) -> None:
    with review_page(server_url, "Blind", blind=True) as review:
        review.open("/runs/one/review/4")
        assert "As sentence" not in review.page.content()
        assert review.page.locator(".cite, .m-cited, .key").count() == 0
        review.pick("sentence/4", "essential")
        review.save()
        assert review.page.locator(".m-cited").count() > 0
        assert review.page.locator(".key").count() > 0


def test_the_last_save_is_taken_back(server_url: str) -> None:
    with review_page(server_url, "Undo") as review:
        review.open("/runs/one/review/5")
        review.pick("sentence/4", "essential")
        review.save()
        review.page.get_by_role("button", name="Undo my last save").click()
        review.page.locator("[role=status]", has_text="Taken back").wait_for()
        assert review.said("sentence/4") is None


def test_a_case_is_reviewed_by_keyboard_alone(server_url: str) -> None:
    with review_page(server_url, "Keys") as review:
        review.open("/runs/one/review/6")
        for key in ("j", "e", "j", "n", "j", "s", "k", "c", "l", "2", "q", "1"):
            review.page.keyboard.press(key)
        assert review.said("sentence/1") == "essential"
        assert review.said("sentence/2") is None
        assert review.said("sentence/3") == "supplementary"
        assert review.said("line/1") == "partly"
        assert review.said("answer_right") == "yes"
        review.page.keyboard.press("Control+Enter")
        review.page.wait_for_url("**/review/7?saved=4*")
        review.page.keyboard.press("[")
        review.page.wait_for_url("**/review/6")


def test_letters_typed_into_a_text_are_no_hotkeys(server_url: str) -> None:
    with review_page(server_url, "Typing") as review:
        review.open("/runs/one/review/8")
        review.page.locator("#field-remark").click()
        review.page.keyboard.type("jesnc]?")
        assert review.page.locator("#field-remark").input_value() == "jesnc]?"
        assert (
            "1 change is not saved"
            in review.page.locator("[data-unsaved]").inner_text()
        )


def test_hotkeys_are_listed_and_can_be_turned_off(server_url: str) -> None:
    with review_page(server_url, "Off") as review:
        review.open("/runs/one/review/9")
        review.page.keyboard.press("?")
        assert review.page.locator("dialog#hotkeys").is_visible()
        review.page.locator("[data-hotkeys-on]").uncheck()
        review.page.keyboard.press("Escape")
        review.page.reload()
        for key in ("j", "e"):
            review.page.keyboard.press(key)
        assert review.said("sentence/1") is None


def test_pages_work_without_scripts(server_url: str) -> None:
    with review_page(server_url, "Scriptless", java_script_enabled=False) as review:
        review.open("/runs/one/review/10")
        review.pick("sentence/4", "essential")
        review.save()
        assert review.said("sentence/4") == "essential"


def test_a_long_note_is_labelled_without_delay(tmp_path: Path) -> None:
    create_run(tmp_path, cases_with_specialties(1, sentences=1500), name="long")
    with served(tmp_path) as url, review_page(url, "Long") as review:
        review.open("/runs/long/review/0")
        clock = review.page.context.new_cdp_session(review.page)
        clock.send("Performance.enable", {"timeDomain": "threadTicks"})
        before = _processor_seconds(clock)
        for _ in range(10):
            review.page.keyboard.press("j")
            review.page.keyboard.press("e")
        assert (_processor_seconds(clock) - before) / 20 < 0.1
        assert "10 changes" in review.page.locator("[data-unsaved]").inner_text()


def _processor_seconds(clock: Any) -> float:
    """The page's own processor time, so that other load on the machine does not count."""
    metrics = clock.send("Performance.getMetrics")["metrics"]
    return next(
        float(metric["value"]) for metric in metrics if metric["name"] == "ThreadTime"
    )


@pytest.mark.parametrize(("width", "scheme"), [(1440, "light"), (390, "dark")])
def test_the_pages_are_accessible(server_url: str, width: int, scheme: str) -> None:
    for name in ("First", "Second"):
        with review_page(server_url, f"{name} {width}") as review:
            review.open("/runs/one/review/11")
            review.pick(
                "sentence/4", "essential" if name == "First" else "not-relevant"
            )
            review.pick("answer_right", "yes")
            review.save()
    with review_page(
        server_url, f"Eye {width}", width=width, scheme=scheme, bypass_csp=True
    ) as review:
        for path in (
            "/reviewer",
            "/runs/one/review/11?show=disagreeing",
            "/runs/fhir/review/0",
            "/runs/one/reviews",
        ):
            review.open(path)
            assert review.recorded.accessibility_violations() == [], path
            assert review.recorded.overflow_width() <= 0, path
        assert review.recorded.console == []


@pytest.mark.parametrize(("width", "scheme"), [(1440, "light"), (390, "dark")])
def test_the_page_in_place_of_answers_is_accessible_and_opens_them(
    server_url: str, width: int, scheme: str
) -> None:
    options = {"width": width, "scheme": scheme, "bypass_csp": True}
    with review_page(server_url, f"Blind {width}", blind=True, **options) as review:
        review.open("/runs/one/cases/11")
        assert review.page.locator("h1").inner_text() == "You review blind"
        assert review.recorded.accessibility_violations() == []
        assert review.recorded.overflow_width() <= 0
        review.page.get_by_role("button", name="Review blind no longer").click()
        review.page.wait_for_url("**/runs/one/cases/11")
        assert review.page.locator("h1").inner_text() != "You review blind"
