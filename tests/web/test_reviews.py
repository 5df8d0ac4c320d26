"""Reviews through the pages: labels are what somebody said, and nobody's are lost."""

import json
import re
import stat
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("fastapi", reason="the extra `web` is not installed")

from archqa import tasks
from archqa.core.question import ClinicalTask, RecordQuestion
from archqa.evaluation.scoring import ScoreSettings, score
from archqa.settings import Settings
from archqa.web import WebConfig, create_app
from tests.report.synthetic_runs import (
    cases_with_specialties,
    create_fhir_run,
    create_run,
)
from tests.web.review_client import ReviewClient, form_fields

CASE = "/runs/one/review/0"
OVERVIEW = "/runs/one/reviews"
NOTE = "He had oedema.\n\nFurosemide 40 mg daily was given for fluid overload."


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    folder = tmp_path / "runs"
    folder.mkdir()
    create_run(folder, cases_with_specialties(3), name="one")
    return folder


@pytest.fixture
def app(runs: Path) -> Any:
    return create_app(WebConfig([runs]), settings=Settings())


@pytest.fixture
def anna(app: Any) -> ReviewClient:
    return ReviewClient(app, "Anna")


@pytest.fixture
def ben(app: Any) -> ReviewClient:
    return ReviewClient(app, "Ben")


def _events(runs: Path, case_set: str = "cases-00000000") -> list[dict[str, Any]]:
    path = runs / "annotations" / f"{case_set}.reviews.jsonl"
    return (
        [json.loads(line) for line in path.read_text().splitlines()]
        if path.is_file()
        else []
    )


def _said(runs: Path) -> list[tuple[str, str, str]]:
    return [
        (event["reviewer"], event["field"], event["value"]) for event in _events(runs)
    ]


async def _write_key(client: ReviewClient) -> str:
    page = await client.page(OVERVIEW)
    token = re.search(r'name="form_token" value="([^"]+)"', page)
    assert token
    written = await client.http.post(f"{OVERVIEW}/key", data={"form_token": token[1]})
    return await client.page(str(written.headers["location"]).split("#")[0])


async def test_a_page_preselects_nothing(anna: ReviewClient) -> None:
    page = await anna.page(CASE)
    assert " checked" not in page.split('id="review-form"')[1].split("</form>")[0]
    assert [
        name for name in await anna.form(CASE) if name.startswith("field-sentence")
    ] == []


async def test_an_untouched_form_saves_nothing(anna: ReviewClient, runs: Path) -> None:
    saved = await anna.save(CASE)
    assert "Nothing was changed" in await anna.page(str(saved.headers["location"]))
    assert _events(runs) == []


async def test_a_verdict_alone_writes_no_label_and_no_key(
    anna: ReviewClient, runs: Path
) -> None:
    await anna.save(CASE, answer_right="no")
    assert _said(runs) == [("Anna", "answer_right", "no")]
    assert "No key was written" in await _write_key(anna)
    assert not (runs / "annotations" / "cases-00000000_key.json").exists()


async def test_the_key_holds_the_reviewed_sentences_only(
    anna: ReviewClient, runs: Path
) -> None:
    await anna.save(CASE, sentence__3="essential", sentence__4="not-relevant")
    page = await _write_key(anna)
    assert "2 sentences of 1 case." in page
    path = runs / "annotations" / "cases-00000000_key.json"
    assert f"archqa score {runs / 'one'} --key {path}" in page
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    labels = tasks.load_key(path).keys["s1"].labels
    assert {name: label.value for name, label in labels.items()} == {
        "3": "essential",
        "4": "not-relevant",
    }


async def test_an_event_says_which_version_of_the_run_was_seen(
    anna: ReviewClient, runs: Path
) -> None:
    await anna.save(CASE, sentence__3="essential")
    [event] = _events(runs)
    assert event["run"] == "one"
    assert re.fullmatch("[0-9a-f]{12}", event["run_version"])
    assert event["blind"] is False


async def test_saved_labels_are_shown_again(anna: ReviewClient) -> None:
    await anna.save(
        CASE, sentence__3="supplementary", line__1="partly", remark="A\nremark."
    )
    form = await anna.form(CASE)
    assert form["field-sentence/3"] == "supplementary"
    assert form["field-line/1"] == "partly"
    assert form["field-remark"] == "A\nremark."


async def test_reviewers_have_labels_of_their_own(
    anna: ReviewClient, ben: ReviewClient
) -> None:
    await anna.save(CASE, sentence__3="essential")
    assert "field-sentence/3" not in await ben.form(CASE)


async def test_a_stale_page_deletes_nothing(anna: ReviewClient, runs: Path) -> None:
    stale = await anna.form(CASE)
    await anna.save(
        CASE, sentence__3="essential", sentence__4="essential", remark="Mine."
    )
    saved = await anna.post(CASE, stale, sentence__7="not-relevant")
    assert saved.status_code == 303
    form = await anna.form(CASE)
    assert form["field-remark"] == "Mine."
    assert form["field-sentence/3"] == form["field-sentence/4"] == "essential"
    assert form["field-sentence/7"] == "not-relevant"


async def test_a_conflict_says_what_is_stored_and_keeps_the_edit(
    anna: ReviewClient, runs: Path
) -> None:
    stale = await anna.form(CASE)
    await anna.save(CASE, sentence__3="essential")
    conflict = await anna.post(
        CASE, stale, sentence__3="supplementary", sentence__4="essential"
    )
    assert conflict.status_code == 409
    assert "Keep what is stored: <bdi" in conflict.text
    assert "saved by you, <bdi>Anna</bdi>" in conflict.text
    assert "your other 1 change is saved" in conflict.text
    choice = form_fields(conflict.text)
    assert (
        await anna.post(CASE, choice, sentence__3="supplementary")
    ).status_code == 303
    assert (await anna.form(CASE))["field-sentence/3"] == "supplementary"


async def test_keeping_what_is_stored_ends_a_conflict(
    anna: ReviewClient, runs: Path
) -> None:
    stale = await anna.form(CASE)
    await anna.save(CASE, sentence__3="essential")
    conflict = await anna.post(CASE, stale, sentence__3="supplementary")
    await anna.post(CASE, form_fields(conflict.text), sentence__3="essential")
    assert _said(runs) == [("Anna", "sentence/3", "essential")]


async def test_clearing_clears(anna: ReviewClient, runs: Path) -> None:
    await anna.save(CASE, sentence__3="essential", better_answer="Other words.")
    await anna.save(CASE, sentence__3="", better_answer="")
    form = await anna.form(CASE)
    assert "field-sentence/3" not in form
    assert form["field-better_answer"] == ""
    assert "No key was written" in await _write_key(anna)


async def test_the_last_save_is_undone(anna: ReviewClient) -> None:
    await anna.save(CASE, sentence__3="essential")
    await anna.save(CASE, sentence__3="supplementary", sentence__4="essential")
    form = await anna.form(CASE)
    undone = await anna.post(f"{CASE}/undo", {"form_token": form["form_token"]})
    assert "Taken back: 2 changes" in await anna.page(str(undone.headers["location"]))
    form = await anna.form(CASE)
    assert form["field-sentence/3"] == "essential"
    assert "field-sentence/4" not in form


async def test_the_history_says_who_said_what(
    anna: ReviewClient, ben: ReviewClient
) -> None:
    await anna.save(CASE, sentence__3="essential")
    await ben.save(CASE, remark="Unclear.")
    history = (await anna.page(CASE)).split('class="history"')[1]
    assert re.search(r"<bdi>Anna</bdi></td><td>sentence 3</td>", history)
    assert "Unclear." in history


async def test_what_others_say_is_hidden_until_one_has_said_something(
    anna: ReviewClient, ben: ReviewClient
) -> None:
    await anna.save(CASE, remark="Unclear.")
    assert "Unclear." not in await ben.page(CASE)
    await ben.save(CASE, sentence__1="essential")
    assert "Unclear." in await ben.page(CASE)


@pytest.mark.parametrize(
    ("field", "value"),
    [("sentence__3", "<script>"), ("sentence__99", "essential"), ("nonsense", "yes"), ("line__1", "essential")],
)  # fmt: skip
async def test_what_cannot_be_said_is_not_saved(
    anna: ReviewClient, runs: Path, field: str, value: str
) -> None:
    response = await anna.save(CASE, **{field: value})
    assert response.status_code == 422
    assert "<script>" not in re.sub(r"<script[^>]*src.*?</script>", "", response.text)
    assert _events(runs) == []


async def test_a_review_needs_a_name_which_is_asked_once(app: Any, runs: Path) -> None:
    nobody = ReviewClient(app)
    asked = await nobody.http.get(f"{CASE}?show=unreviewed")
    assert asked.status_code == 303
    page = await nobody.page(str(asked.headers["location"]))
    token = re.search(r'name="form_token" value="([^"]+)"', page)
    then = re.search(r'name="then" value="([^"]+)"', page)
    assert token
    assert then
    form = {"form_token": token[1], "then": then[1], "reviewer": " Zoë  Ōe "}
    named = await nobody.http.post("/reviewer", data=form)
    assert named.headers["location"] == f"{CASE}?show=unreviewed"
    assert all(
        "HttpOnly" in cookie and "SameSite=strict" in cookie
        for cookie in named.headers.get_list("set-cookie")
    )
    await nobody.save(CASE, sentence__1="essential")
    assert _said(runs) == [("Zoë Ōe", "sentence/1", "essential")]


async def test_a_review_without_a_name_is_kept_until_it_has_one(
    app: Any, anna: ReviewClient, runs: Path
) -> None:
    form = await anna.form(CASE)
    del form["reviewer"]
    nobody = ReviewClient(app)
    unsaved = await nobody.post(CASE, form, sentence__1="essential", remark="Mine.")
    assert unsaved.status_code == 422
    assert "Mine." in unsaved.text
    assert 'name="field-sentence/1" value="essential"' in unsaved.text
    assert _events(runs) == []


@pytest.mark.parametrize(
    "then", ["//evil.example/", "https://evil.example/", "/\\evil.example"]
)
async def test_the_name_leads_to_no_other_site(anna: ReviewClient, then: str) -> None:
    form = await anna.form(CASE)
    data = {"form_token": form["form_token"], "reviewer": "Anna", "then": then}
    assert (await anna.http.post("/reviewer", data=data)).headers["location"] == "/"


async def test_a_damaged_log_keeps_the_review_on_a_page(
    anna: ReviewClient, runs: Path
) -> None:
    form = await anna.form(CASE)
    log = runs / "annotations" / "cases-00000000.reviews.jsonl"
    log.parent.mkdir()
    log.write_text("not a log\n")
    unsaved = await anna.post(CASE, form, remark="What I think.")
    assert unsaved.status_code == 507
    assert "What I think." in unsaved.text
    assert log.read_text() == "not a log\n"


async def test_a_blind_page_shows_neither_answer_nor_key_nor_score(
    app: Any, runs: Path
) -> None:
    blind = ReviewClient(app, "Anna", blind=True)
    page = await blind.page(CASE)
    for shown in ("As sentence", "▸", "cited", "key:", "answer_right", "worst score"):
        assert shown not in page, shown
    await blind.save(CASE, sentence__3="essential")
    [event] = _events(runs)
    assert (event["blind"], event["run_version"]) == (True, "")


@pytest.mark.parametrize(
    "url",
    [
        "/runs/one",
        "/runs/one/cases.json",
        "/runs/one/figures",
        "/runs/one/cases/0",
        "/runs/one/cases/0/trace",
        "/compare?first=one&second=two",
        "/compare/cases.json?first=one&second=two",
        "/compare/cases/0?first=one&second=two",
    ],
)
async def test_pages_of_answers_are_hidden_from_a_blind_reviewer(
    app: Any, anna: ReviewClient, url: str
) -> None:
    blind = ReviewClient(app, "Ben", blind=True)
    hidden = await blind.http.get(url)
    assert hidden.status_code == 403
    assert "You review blind" in hidden.text
    assert "furosemide" not in hidden.text.lower()
    assert "You review blind" not in (await anna.http.get(url)).text


async def test_a_blind_reviewer_may_stop_reviewing_blind_to_see_a_run(
    app: Any,
) -> None:
    blind = ReviewClient(app, "Ben", blind=True)
    hidden = await blind.http.get("/runs/one?page=1")
    form = dict(re.findall(r'type="hidden" name="(\w+)" value="([^"]*)"', hidden.text))
    shown = await blind.http.post("/reviewer", data=form)
    assert (shown.status_code, shown.headers["location"]) == (303, "/runs/one?page=1")
    assert (await blind.http.get("/runs/one")).status_code == 200


async def test_the_queue_of_a_blind_reviewer_does_not_tell_the_scores(
    app: Any, anna: ReviewClient
) -> None:
    url = "/runs/one/review?order=worst"
    sighted = await anna.http.get(url)
    assert not str(sighted.headers["location"]).startswith(CASE)
    blind = await ReviewClient(app, "Ben", blind=True).http.get(url)
    assert str(blind.headers["location"]).startswith(CASE)


async def test_a_key_made_while_looking_at_the_run_is_called_circular(
    anna: ReviewClient, runs: Path
) -> None:
    await anna.save(CASE, sentence__3="essential", sentence__4="not-relevant")
    page = await _write_key(anna)
    assert "set while looking at answers of this very run" in page
    assert "THE KEY IS CIRCULAR" in page


async def test_a_blind_key_is_not_called_circular(app: Any, runs: Path) -> None:
    blind = ReviewClient(app, "Anna", blind=True)
    await blind.save(CASE, sentence__3="essential", sentence__4="not-relevant")
    page = await _write_key(blind)
    assert "set without seeing any answer" in page
    assert "CIRCULAR" not in page


async def test_a_blind_reviewer_sees_answer_and_key_after_saving(
    app: Any, runs: Path
) -> None:
    blind = ReviewClient(app, "Anna", blind=True)
    await blind.save(CASE, sentence__3="essential")
    page = await blind.page(CASE)
    assert "As sentence" in page
    assert "key: essential" in page
    await blind.save(CASE, sentence__4="essential")
    assert [event["blind"] for event in _events(runs)] == [True, False]


async def test_undoing_a_blind_save_does_not_make_the_reviewer_blind_again(
    app: Any, runs: Path
) -> None:
    blind = ReviewClient(app, "Anna", blind=True)
    await blind.save(CASE, sentence__3="essential")
    form = await blind.form(CASE)
    await blind.post(f"{CASE}/undo", {"form_token": form["form_token"]})
    await blind.save(CASE, sentence__3="essential")
    assert _events(runs)[-1]["blind"] is False


async def test_a_page_that_is_not_blind_shows_the_answer_but_no_key(
    anna: ReviewClient,
) -> None:
    await anna.save(CASE, sentence__3="essential")
    page = await anna.page(CASE)
    assert "As sentence" in page
    assert "key: essential" not in page
    assert "missed" not in page


async def test_the_queue_begins_with_the_first_unreviewed_case(
    anna: ReviewClient, ben: ReviewClient
) -> None:
    await anna.save(CASE, sentence__3="essential")
    first = await anna.http.get("/runs/one/review")
    assert first.headers["location"] == "/runs/one/review/1"
    assert "1 of 3 reviewed" in await anna.page("/runs/one/review/1")
    assert (await ben.http.get("/runs/one/review")).headers["location"] == CASE


async def test_save_and_next_follows_the_filters(anna: ReviewClient) -> None:
    url = f"{CASE}?show=unreviewed&specialty=oncology"
    form = await anna.form(url)
    saved = await anna.post(url, {**form, "then": "next"}, sentence__3="essential")
    assert str(saved.headers["location"]).startswith(
        "/runs/one/review/2?show=unreviewed&specialty=oncology&saved=1"
    )


async def test_after_the_last_case_come_the_ones_that_were_passed_over(
    anna: ReviewClient,
) -> None:
    url = "/runs/one/review/2?show=unreviewed"
    saved = await anna.post(
        url, {**await anna.form(url), "then": "next"}, answer_right="yes"
    )
    assert str(saved.headers["location"]).startswith(f"{CASE}?show=unreviewed")


async def test_the_end_of_the_queue_is_said(anna: ReviewClient) -> None:
    for index in range(3):
        await anna.save(f"/runs/one/review/{index}", answer_right="yes")
    end = await anna.http.get("/runs/one/review?show=unreviewed")
    assert end.headers["location"] == "/runs/one/reviews?queue=done"
    assert "No case is left" in await anna.page(str(end.headers["location"]))


async def test_the_worst_case_comes_first_where_that_is_chosen(
    anna: ReviewClient, runs: Path
) -> None:
    first = await anna.http.get("/runs/one/review?order=worst")
    settings = ScoreSettings(metrics=("strict_micro_f1",), bootstrap=0)
    scores = score(runs / "one", settings=settings, keep=False).scores.per_case
    worst = min(range(3), key=lambda index: scores[f"s{index + 1}"]["strict_micro_f1"])
    assert str(first.headers["location"]) == f"/runs/one/review/{worst}?order=worst"


async def test_disagreements_are_counted_and_decided(
    anna: ReviewClient, ben: ReviewClient, runs: Path
) -> None:
    await anna.save(CASE, sentence__3="essential", sentence__4="not-relevant")
    await ben.save(CASE, sentence__3="supplementary", sentence__4="not-relevant")
    queue = await anna.http.get("/runs/one/review?show=disagreeing")
    assert str(queue.headers["location"]) == f"{CASE}?show=disagreeing"
    page = await _write_key(anna)
    assert "1 is left out" in page
    assert re.search(
        r"<td>sentence</td><td>all</td><td class=\"num\">2</td>.*?50\.0",
        page,
        re.DOTALL,
    )
    form = {"form_token": (await anna.form(CASE))["form_token"], "reviewer": "Cleo"}
    decided = await anna.post(f"{OVERVIEW}/0", form, sentence__3="essential")
    assert "adjudicated=1" in decided.headers["location"]
    last = _events(runs)[-1]
    assert (last["reviewer"], last["adjudicated"]) == ("Cleo", True)
    await _write_key(anna)
    key = tasks.load_key(runs / "annotations" / "cases-00000000_key.json").keys["s1"]
    assert key.labels["3"].value == "essential"
    done = await anna.http.get("/runs/one/review?show=disagreeing")
    assert done.headers["location"] == "/runs/one/reviews?queue=done"


async def test_a_key_older_than_the_reviews_is_said(anna: ReviewClient) -> None:
    await anna.save(CASE, sentence__3="essential")
    await _write_key(anna)
    assert "saved after the key" not in await anna.page(OVERVIEW)
    await anna.save(CASE, sentence__4="essential")
    assert "1 change was saved after the key" in await anna.page(OVERVIEW)


@pytest.fixture
def record_runs(tmp_path: Path) -> Path:
    """A run of FHIR-AgentBench and one of MedAgentBench, each with one item."""
    folder = tmp_path / "record"
    (folder / "a").mkdir(parents=True)
    (folder / "b").mkdir()
    question = RecordQuestion(
        id="q" * 24, question="What was the last glucose?", patient_fhir_id="p"
    )
    answer = {
        "agent_answer": "83",
        "query": {"what": "lab"},
        "sentence": "The last glucose.",
    }
    create_fhir_run(folder / "a", "fhir-agentbench", [question], [answer]).rename(
        folder / "fhir"
    )
    task = ClinicalTask(id="t1", instruction="What is the MRN?")
    conversation = {
        "result": '["S1"]',
        "history": [{"role": "agent", "content": "FINISH(S1)"}],
    }
    path = create_fhir_run(folder / "b", "medagentbench", [task], [conversation])
    path.rename(folder / "tasks")
    return folder


@pytest.mark.parametrize(
    ("run", "text", "fields"),
    [
        (
            "fhir",
            "What was the last glucose?",
            {"answer_right", "evidence_right", "query_right"},
        ),
        ("tasks", "What is the MRN?", {"answer_right", "evidence_right"}),
    ],
)
async def test_questions_and_tasks_on_a_record_are_reviewed(
    record_runs: Path, run: str, text: str, fields: set[str]
) -> None:
    anna = ReviewClient(
        create_app(WebConfig([record_runs]), settings=Settings()), "Anna"
    )
    url = f"/runs/{run}/review/0"
    page = await anna.page(url)
    assert text in page
    offered = set(re.findall(r'type="radio" name="field-([a-z_/0-9]+)"', page))
    assert offered == fields
    await anna.save(url, answer_right="partly", better_answer="84")
    form = await anna.form(url)
    assert form["field-answer_right"] == "partly"
    assert form["field-better_answer"] == "84"
    assert "make no key" in await anna.page(f"/runs/{run}/reviews")


async def test_a_blind_question_shows_no_answer(record_runs: Path) -> None:
    app = create_app(WebConfig([record_runs]), settings=Settings())
    page = await ReviewClient(app, "Anna", blind=True).page("/runs/fhir/review/0")
    assert "The last glucose." not in page
    assert ">83<" not in page
    assert "field-answer_right" not in page


async def test_an_asked_answer_is_reviewed(app: Any, runs: Path) -> None:
    nobody = ReviewClient(app)
    page = await nobody.page("/")
    token = re.search(r'name="form_token" value="([^"]+)"', page)
    assert token
    question = {"form_token": token[1], "question": "Why furosemide?", "note": NOTE}
    url = str((await nobody.http.post("/ask", data=question)).headers["location"])
    await nobody.http.get(f"{url}/events")
    form = await nobody.form(url)
    changes = {"field-sentence/1": "not-relevant", "field-line/1": "supported"}
    saved = await nobody.http.post(url, data={**form, **changes, "reviewer": "Anna"})
    assert saved.status_code == 303
    form = await nobody.form(url)  # The name is known from now on.
    assert form["reviewer"] == "Anna"
    assert form["field-sentence/1"] == "not-relevant"
    assert {event["field"] for event in _events(runs, "asked")} == {
        "sentence/1",
        "line/1",
    }
    [case] = tasks.load_cases(runs / "annotations" / "asked.json").notes
    assert case.note_excerpt == NOTE


async def test_hostile_names_and_remarks_stay_text(app: Any) -> None:
    name = "<img src=x>"
    client = ReviewClient(app, name)
    await client.save(
        CASE, remark="</textarea><script>alert(1)</script>", sentence__1="essential"
    )
    for url in (CASE, OVERVIEW):
        page = await client.page(url)
        assert "<img" not in page
        assert "<script>alert" not in page
