"""Reviews: what is stored is what somebody said, and nothing that was said is lost."""

import json
import multiprocessing
import stat
from pathlib import Path

import pytest

from archqa import tasks
from archqa.core.case import Case
from archqa.core.key import record_version
from archqa.core.question import RecordQuestion
from archqa.errors import CallerError, InputError
from archqa.review import AnswerVersion, ReviewStore, SubmittedReview, agreement
from tests.fakes.cases import synthetic_cases

SEEN = AnswerVersion("one", "0123456789ab")
BLIND = AnswerVersion("one", "", blind=True)
CASE, OTHER_CASE = synthetic_cases(2, 6)
S1, S2, S3 = (f"sentence/{sentence_id}" for sentence_id in CASE.sentence_ids[:3])


@pytest.fixture
def store(tmp_path: Path) -> ReviewStore:
    return ReviewStore(tmp_path / "annotations")


def save(
    store: ReviewStore,
    edits: dict[str, str],
    page_values: dict[str, str] | None = None,
    *,
    by: str = "Ann",
    version: AnswerVersion = SEEN,
    case: Case = CASE,
    adjudicates: bool = False,
) -> list[str]:
    """Save edits; return the fields in conflict."""
    review = SubmittedReview(by, edits, page_values or {}, version)
    outcome = store.save("set", case, review, adjudicates=adjudicates)
    return [conflict.field for conflict in outcome.conflicts]


def said(store: ReviewStore, reviewer: str = "Ann", run: str = "one") -> dict[str, str]:
    words = store.reviews("set").case(CASE.id).reviewer_events(reviewer, run)
    return {field: event.value for field, event in words.items()}


def test_only_what_was_set_is_stored_with_who_when_and_what_was_seen(
    store: ReviewStore,
) -> None:
    save(store, {S2: "essential"})
    [event] = store.history("set", CASE.id)
    assert (event.field, event.value, event.reviewer) == (S2, "essential", "Ann")
    assert (event.run, event.run_version, event.blind) == ("one", "0123456789ab", False)
    assert stat.S_IMODE(store.log_path("set").stat().st_mode) == 0o600
    assert said(store) == {S2: "essential"}


def test_a_stale_tab_keeps_the_labels_of_the_other_and_says_what_changed(
    store: ReviewStore,
) -> None:
    save(store, {S1: "essential", S2: "essential"})
    stale = {S1: "", S2: ""}
    assert save(store, {S1: "not-relevant", S3: "supplementary"}, stale) == [S1]
    assert said(store) == {S1: "essential", S2: "essential", S3: "supplementary"}
    review = SubmittedReview("Ann", {S1: "not-relevant"}, stale, SEEN)
    outcome = store.save("set", CASE, review)
    [conflict] = outcome.conflicts
    assert (conflict.stored, conflict.edit, conflict.reviewer) == (
        "essential",
        "not-relevant",
        "Ann",
    )
    assert conflict.at == store.history("set", CASE.id)[0].at


def test_two_tabs_that_say_the_same_do_not_conflict(store: ReviewStore) -> None:
    save(store, {S1: "essential"})
    assert save(store, {S1: "essential"}, {S1: ""}) == []
    assert len(store.history("set", CASE.id)) == 1


def test_a_field_that_was_cleared_meanwhile_is_a_conflict_too(
    store: ReviewStore,
) -> None:
    save(store, {S1: "essential"})
    save(store, {S1: ""}, {S1: "essential"})
    assert said(store) == {}
    assert save(store, {S1: "supplementary"}, {S1: "essential"}) == [S1]


def test_undo_takes_back_one_save_after_the_other_and_the_log_only_grows(
    store: ReviewStore,
) -> None:
    save(store, {S1: "essential", "remark": "first"})
    save(store, {S1: "supplementary"}, {S1: "essential"})
    [restored] = store.undo("set", CASE.id, "Ann")
    assert (restored.field, restored.value) == (S1, "essential")
    assert said(store) == {S1: "essential", "remark": "first"}
    assert len(store.undo("set", CASE.id, "Ann")) == 2
    assert said(store) == {}
    assert store.undo("set", CASE.id, "Ann") == ()
    assert len(store.history("set", CASE.id)) == 6


def test_undo_leaves_other_reviewers_and_other_cases_alone(store: ReviewStore) -> None:
    save(store, {S1: "essential"})
    save(store, {S1: "supplementary"}, by="Ben")
    save(store, {S1: "essential"}, case=OTHER_CASE)
    store.undo("set", CASE.id, "Ann")
    assert said(store) == {}
    assert said(store, "Ben") == {S1: "supplementary"}
    assert store.reviews("set").case(OTHER_CASE.id).reviewers == ("Ann",)


def test_after_an_undo_a_new_save_is_the_next_to_be_taken_back(
    store: ReviewStore,
) -> None:
    save(store, {S1: "essential"})
    store.undo("set", CASE.id, "Ann")
    save(store, {S2: "essential"})
    store.undo("set", CASE.id, "Ann")
    assert said(store) == {}


def test_verdicts_belong_to_one_run_and_labels_to_the_note(store: ReviewStore) -> None:
    save(store, {S1: "essential", "answer_right": "no", "line/1": "partly"})
    assert said(store, run="two") == {S1: "essential"}
    save(store, {"answer_right": "yes"}, version=AnswerVersion("two", "ba9876543210"))
    assert said(store)["answer_right"] == "no"
    assert said(store, run="two") == {S1: "essential", "answer_right": "yes"}


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("sentence/none", "essential"),
        (S1, "<script>"),
        ("line/0", "not"),
        ("thumb", "up"),
        ("answer_right", "up"),
    ],
)
def test_what_cannot_be_said_of_a_case_is_refused_as_a_whole(
    store: ReviewStore, field: str, value: str
) -> None:
    with pytest.raises(CallerError):
        save(store, {S2: "essential", field: value})
    assert not store.folder.exists()


def test_a_question_on_a_record_takes_verdicts_but_no_labels(
    store: ReviewStore,
) -> None:
    question = RecordQuestion(id="q1", question="How many visits?")
    edits = {"answer_right": "partly", "query_right": "no"}
    store.save("set", question, SubmittedReview("Ann", edits, version=SEEN))
    assert (
        store.reviews("set").case("q1").reviewer_events("Ann", "one").keys()
        == edits.keys()
    )
    assert store.write_key("set") is None
    with pytest.raises(CallerError):
        store.save("set", question, SubmittedReview("Ann", {"sentence/1": "essential"}))


def test_a_review_needs_a_name(store: ReviewStore) -> None:
    with pytest.raises(CallerError, match="name of its reviewer"):
        save(store, {S1: "essential"}, by="  ")


def _save_often(folder: Path, reviewer: str) -> None:
    store = ReviewStore(folder)
    for number in range(20):
        save(store, {"remark": f"{number}"}, {"remark": f"{number - 1}"}, by=reviewer)


def test_processes_that_save_at_once_lose_nothing(store: ReviewStore) -> None:
    context = multiprocessing.get_context("fork")
    names = ("Ann", "Ben", "Cem")
    writers = [
        context.Process(target=_save_often, args=(store.folder, name)) for name in names
    ]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()
    events = store.history("set", CASE.id)
    assert len(events) == 60
    assert len({event.at for event in events}) == 60
    assert [said(store, name) for name in names] == [{"remark": "19"}] * 3
    assert sorted(path.name for path in store.folder.iterdir()) == [
        "set.json",
        "set.reviews.jsonl",
    ]


def test_a_line_that_a_kill_cut_short_is_dropped_and_others_stay(
    store: ReviewStore,
) -> None:
    save(store, {S1: "essential"})
    path = store.log_path("set")
    path.write_bytes(path.read_bytes() + b'{"case_id": "s1", "fie')
    assert said(store) == {S1: "essential"}
    save(store, {S2: "essential"})
    assert said(store) == {S1: "essential", S2: "essential"}


@pytest.mark.parametrize("damage", ["{}\n", "[1]\n", "\n", "[" * 100_000 + "\n"])
def test_a_damaged_log_is_named_and_not_overwritten(
    store: ReviewStore, damage: str
) -> None:
    save(store, {S1: "essential"})
    store.log_path("set").write_text(damage)
    with pytest.raises(InputError, match="not a log of reviews"):
        save(store, {S2: "essential"})
    assert store.log_path("set").read_text() == damage


def test_the_key_holds_agreed_and_adjudicated_sentences_and_counts_the_others(
    store: ReviewStore,
) -> None:
    save(store, {S1: "essential", S2: "essential", S3: "supplementary"})
    save(
        store,
        {S1: "essential", S2: "not-relevant", S3: "essential"},
        by="Ben",
        version=BLIND,
    )
    assert [
        disagreement.field for disagreement in store.reviews("set").disagreements
    ] == [S2, S3]
    save(store, {S3: "essential"}, by="Cem", adjudicates=True)
    key = store.write_key("set")
    assert key is not None
    assert (key.cases, key.sentences, key.disagreements) == (1, 2, 1)
    labels = tasks.load_key(key.path).keys[CASE.id].labels
    assert labels == {
        CASE.sentence_ids[0]: "essential",
        CASE.sentence_ids[2]: "essential",
    }
    [row] = json.loads(key.path.read_text())
    review = row["review"]
    assert review["reviewers"] == ["Ann", "Ben", "Cem"]
    assert (review["runs"], review["run_versions"]) == (["one"], ["0123456789ab"])
    assert (review["blind"], review["disagreements"]) == (False, 1)
    assert [case.id for case in tasks.load_cases(store.case_path("set")).cases] == [
        CASE.id
    ]


def test_a_blind_key_names_no_run(store: ReviewStore) -> None:
    save(store, {S1: "essential", "better_answer": "Because\r\nof it."}, version=BLIND)
    key = store.write_key("set")
    assert key is not None
    [row] = json.loads(key.path.read_text())
    assert (row["review"]["blind"], row["review"]["runs"]) == (True, [])
    assert row["clinician_answer"] == "Because\nof it."
    assert stat.S_IMODE(key.path.stat().st_mode) == 0o600


def test_a_key_whose_labels_were_all_cleared_is_removed(store: ReviewStore) -> None:
    save(store, {S1: "essential"})
    assert store.write_key("set")
    save(store, {S1: ""}, {S1: "essential"})
    assert store.write_key("set") is None
    assert not store.key_path("set").exists()


def test_a_key_from_before_the_log_is_kept_beside_the_new_one(
    store: ReviewStore,
) -> None:
    store.folder.mkdir()
    old = json.dumps(
        [{"case_id": "s1", "answers": [], "review": {"thumb": "up", "run": "one"}}]
    )
    store.key_path("set").write_text(old)
    save(store, {S1: "essential"})
    assert store.write_key("set")
    assert (store.folder / "set_key.before-reviews.json").read_text() == old
    assert store.write_key("set")
    assert len(list(store.folder.glob("*before-reviews*"))) == 1


def test_an_adjudication_counts_until_it_is_cleared(store: ReviewStore) -> None:
    save(store, {S1: "essential"})
    save(store, {S1: "not-relevant"}, by="Ben")
    save(store, {S1: "supplementary"}, by="Cem", adjudicates=True)
    [disagreement] = store.reviews("set").disagreements
    assert not disagreement.is_open
    stale = SubmittedReview("Dora", {S1: "essential"})
    outcome = store.save("set", CASE, stale, adjudicates=True)
    assert [conflict.reviewer for conflict in outcome.conflicts] == ["Cem"]
    save(store, {S1: ""}, {S1: "supplementary"}, by="Dora", adjudicates=True)
    [disagreement] = store.reviews("set").disagreements
    assert disagreement.is_open


def test_agreement_is_percent_and_kappa_by_pair_and_label(store: ReviewStore) -> None:
    fields = [f"sentence/{sentence_id}" for sentence_id in CASE.sentence_ids[:4]]
    e, s, n = "essential", "supplementary", "not-relevant"
    save(store, dict(zip(fields, (e, e, n, n), strict=True)))
    save(store, dict(zip(fields, (e, s, n, n), strict=True)), by="Ben")
    rows = {row.label: row for row in agreement(store.reviews("set"))}
    assert (rows[""].kind, rows[""].field_count, rows[""].percent) == (
        "sentence",
        4,
        75.0,
    )
    # By chance: essential .5 * .25, not relevant .5 * .5, together .375.
    assert rows[""].kappa == pytest.approx((0.75 - 0.375) / (1 - 0.375))
    assert rows["not-relevant"].kappa == 1.0
    assert rows["essential"].kappa == pytest.approx(0.5)


def test_agreement_on_one_value_alone_has_no_kappa(store: ReviewStore) -> None:
    save(store, {"answer_right": "yes"})
    save(store, {"answer_right": "yes"}, by="Ben")
    row = agreement(store.reviews("set"))[0]
    assert (row.percent, row.kappa) == (100.0, None)


def test_the_version_of_a_record_is_of_its_line_without_the_line_end() -> None:
    assert record_version(b'{"id": "1"}\n') == record_version('{"id": "1"}')
    assert len(record_version("")) == 12
