"""The ask page in headless Chromium: the choice, the keyboard alone, elapsed time, cancelling."""

from collections.abc import Iterator
from typing import Any

import pytest

from tests.asking.test_asking import small_record
from tests.web.asking import NOTE
from tests.web.browser import open_page, require_chromium
from tests.web.served import served

pytestmark = pytest.mark.browser

LOOKS = [(1440, "light"), (390, "dark")]
LONG_NOTE = "\n".join(
    f"Furosemide {day} mg was given on day {day} for oedema." for day in range(800)
)


@pytest.fixture(scope="module", autouse=True)
def _browser() -> None:
    require_chromium()


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Run `archqa serve` with a record and without a token; yield its address."""
    folder = tmp_path_factory.mktemp("served")
    record = small_record(tmp_path_factory.mktemp("record"))
    with served(folder, "--record", str(record), "--no-token") as address:
        yield address


def _is_shown(page: Any, field: str) -> bool:
    return bool(page.locator(f"#{field}").is_visible())


def _ask(page: Any, url: str, **fields: str) -> None:
    page.goto(url)
    for name, value in fields.items():
        if name == "about":
            page.check(f"input[name=about][value={value}]")
        else:
            page.locator(f"#{name}").evaluate(
                "(field, text) => { field.value = text; }", value
            )
    page.locator("form[data-ask] button.main").click()


def test_the_choice_shows_its_fields_and_a_hidden_one_is_not_sent(url: str) -> None:
    with open_page() as recorded:
        page = recorded.page
        page.goto(url)
        assert _is_shown(page, "note")
        assert not _is_shown(page, "patient")
        page.fill("#note", NOTE)
        page.check("input[name=about][value=patient]")
        assert not _is_shown(page, "note")
        assert _is_shown(page, "patient")
        page.fill("#question", "last creatinine?")
        page.fill("#patient", "Ada Example")
        page.locator("form[data-ask] button.main").click()
        page.locator(".outcome-status.answered").wait_for(timeout=60_000)
        assert "Ada Example" in page.locator(".asked-about").inner_text()
        page.goto(url)
        page.check("input[name=about][value=both]")
        assert _is_shown(page, "note")
        assert _is_shown(page, "patient")


def test_a_question_is_asked_with_the_keyboard_alone(url: str) -> None:
    with open_page() as recorded:
        page = recorded.page
        page.goto(url)
        page.focus("#question")
        keyboard = page.keyboard
        keyboard.type("last creatinine?")
        keyboard.press("Tab")
        keyboard.press("ArrowDown")
        keyboard.press("Tab")
        keyboard.type("p1")
        keyboard.press("Enter")
        page.locator(".outcome-status.answered").wait_for(timeout=60_000)
        citation = page.locator("ol.answer a.cite").first
        citation.focus()
        keyboard.press("Enter")
        assert page.url.endswith("#e0")
        page.locator("#e0 a.back").first.focus()
        keyboard.press("Enter")
        assert page.url.endswith("#c1-r0-a0")


def test_a_field_that_is_wrong_has_the_focus_and_keeps_its_text(url: str) -> None:
    with open_page() as recorded:
        page = recorded.page
        _ask(
            page,
            url,
            about="patient",
            question="last creatinine?",
            patient="Ada Exampel",
        )
        page.locator("#patient-error").wait_for()
        assert page.evaluate("document.activeElement.id") == "patient"
        assert page.input_value("#patient") == "Ada Exampel"
        page.locator(".candidates label", has_text="Ada Example").click()
        page.locator("form[data-ask] button.main").click()
        page.locator(".outcome-status.answered").wait_for(timeout=60_000)


def test_the_time_counts_up_and_a_long_question_is_cancelled(url: str) -> None:
    with open_page() as recorded:
        page = recorded.page
        _ask(page, url, question="Why was furosemide given?", note=LONG_NOTE)
        elapsed = page.locator("[data-elapsed]")
        elapsed.filter(has_text="2 s").wait_for(timeout=20_000)
        assert page.title().startswith("Answering")
        page.get_by_role("button", name="Cancel").click()
        page.get_by_text("Cancelled", exact=False).first.wait_for(timeout=20_000)
        assert page.input_value("#note") == LONG_NOTE
        assert page.input_value("#question") == "Why was furosemide given?"
        _ask(page, url, question="Why was furosemide given?", note=NOTE)
        page.locator(".outcome-status.answered").wait_for(timeout=20_000)
        assert recorded.console == []


def test_the_note_stands_beside_the_answer_and_a_citation_leaves_both_in_view(
    url: str,
) -> None:
    with open_page(1440) as recorded:
        page = recorded.page
        note = "\n\n".join(
            [*(f"Nothing else happened on day {day}." for day in range(60)), NOTE]
        )
        _ask(page, url, question="Why was furosemide given?", note=note)
        line = page.locator("ol.answer li").first
        line.wait_for(timeout=60_000)
        beside = page.locator(".ask-beside").bounding_box()
        assert beside["x"] > line.bounding_box()["x"] + line.bounding_box()["width"]
        citation = page.locator("ol.answer a.cite").first
        anchor = citation.get_attribute("href")
        citation.click()
        for place in (line, page.locator(anchor)):
            box = place.bounding_box()
            assert 40 <= box["y"] < 900


@pytest.mark.parametrize(("width", "scheme"), LOOKS)
def test_form_answer_and_choice_are_accessible(
    url: str, width: int, scheme: str
) -> None:
    with open_page(width, scheme, bypass_csp=True) as recorded:
        page = recorded.page
        page.goto(url)
        _assert_accessible(recorded)
        _ask(page, url, question="Why was furosemide given?", note=NOTE)
        page.locator(".outcome").wait_for(timeout=60_000)
        _assert_accessible(recorded)
        _ask(
            page,
            url,
            about="both",
            question="last creatinine?",
            note=NOTE,
            patient="Ada Exampel",
        )
        page.locator(".candidates").wait_for(timeout=60_000)
        _assert_accessible(recorded)
        assert recorded.console == []


def _assert_accessible(recorded: Any) -> None:
    assert recorded.overflow_width() <= 0
    assert recorded.accessibility_violations() == []


def test_without_scripts_everything_can_be_asked_and_read(url: str) -> None:
    with open_page(java_script_enabled=False) as recorded:
        page = recorded.page
        page.goto(url)
        assert _is_shown(page, "note")
        assert _is_shown(page, "patient")
        page.check("input[name=about][value=patient]")
        page.fill("#question", "last creatinine?")
        page.fill("#patient", "p1")
        page.locator("form[data-ask] button.main").click()
        page.locator(".outcome-status.answered").wait_for(
            timeout=60_000
        )  # By the page's own reloading.
