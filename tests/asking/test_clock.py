"""The time of a question: the present, or the end of a dead patient's or a shifted record."""

from datetime import date, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

import archqa
from archqa.asking.clock import Clock, clock, stated_time
from archqa.fhir import FhirError, FhirService, Page, Record, Store
from tests.fhir.invented import Resource, build_store, encounter, observation, patient
from tests.fhir.serving import BASE, client_of

TODAY = date.today()


def days(count: int) -> str:
    return (TODAY + timedelta(days=count)).isoformat()


def clock_of(
    folder: Path, *resources: Resource, now: datetime | None = None, **of_patient: Any
) -> Clock:
    """The clock of the patient p, by the store and by a server, which must agree."""
    store = build_store(folder, [patient("p", **of_patient), *resources])
    found = clock(store, "p", now)
    service = FhirService(store.as_profile("hapi"), BASE)
    served = clock(client_of(service), "p", now)
    assert served.remark == found.remark
    assert abs(served.now - found.now) < timedelta(minutes=1)
    return found


def is_present(found: Clock) -> bool:
    return abs(found.now - datetime.now()) < timedelta(minutes=1)


def test_a_time_that_is_given_is_the_time(tmp_path: Path) -> None:
    now = datetime(2001, 2, 3, 4)
    found = clock_of(
        tmp_path,
        observation("o", "p", when="2153-01-01"),
        now=now,
        deceasedDateTime="2160-01-01",
    )
    assert found == Clock(now, "")


@pytest.mark.parametrize("age", [0, 1, 400, 5 * 365, 19 * 365])
def test_an_ordinary_record_is_asked_as_of_today(tmp_path: Path, age: int) -> None:
    found = clock_of(
        tmp_path, observation("o", "p", when=f"{days(-age)}T10:00:00+02:00")
    )
    assert is_present(found)
    assert found.remark == ""


def test_a_record_without_dates_is_asked_as_of_today(tmp_path: Path) -> None:
    found = clock_of(tmp_path, observation("o", "p"))
    assert (is_present(found), found.remark) == (True, "")


@pytest.mark.parametrize(
    ("death", "now"),
    [
        ("2011-07-17T16:44:03.000445+00:00", datetime(2011, 7, 17, 16, 44, 4)),
        ("2011-07-17T16:44:03-05:00", datetime(2011, 7, 17, 16, 44, 3)),
        ("2011-07-17", datetime(2011, 7, 17, 23, 59, 59)),
        ("2180-02", datetime(2180, 2, 29, 23, 59, 59)),
        ("2180", datetime(2180, 12, 31, 23, 59, 59)),
    ],
)
def test_a_dead_patient_is_asked_about_as_of_the_death(
    tmp_path: Path, death: str, now: datetime
) -> None:
    found = clock_of(
        tmp_path, observation("o", "p", when="2011-08-01"), deceasedDateTime=death
    )
    assert found.now == now
    assert found.remark == (
        f"The patient died on {now:%Y-%m-%d}: asked as of then; --now sets another."
    )


@pytest.mark.parametrize(
    "of_patient", [{"deceasedBoolean": True}, {"deceasedDateTime": "soon"}]
)
def test_without_the_time_of_death_the_records_last_date_counts(
    tmp_path: Path, of_patient: dict[str, Any]
) -> None:
    found = clock_of(
        tmp_path, observation("o", "p", when="2019-03-04T10:00:00Z"), **of_patient
    )
    assert found.now == datetime(2019, 3, 4, 23, 59, 59)
    assert "does not say when" in found.remark
    assert "2019-03-04" in found.remark


def test_a_death_without_any_date_is_said_too(tmp_path: Path) -> None:
    found = clock_of(tmp_path, deceasedBoolean=True)
    assert is_present(found)
    assert "asked as of today" in found.remark


def test_who_has_not_died_is_not_dead(tmp_path: Path) -> None:
    found = clock_of(
        tmp_path, observation("o", "p", when=days(-9)), deceasedBoolean=False
    )
    assert (is_present(found), found.remark) == (True, "")


def test_a_shifted_record_is_asked_as_of_its_last_date(tmp_path: Path) -> None:
    found = clock_of(
        tmp_path,
        encounter("e", "p", "2153-12-20T10:00:00-05:00", "2153-12-31T09:00:00-05:00"),
        observation("o", "p", when="2153-12-29T23:00:00-05:00"),
    )
    assert found.now == datetime(2153, 12, 31, 23, 59, 59)
    assert found.remark == (
        "The record's dates lie in the future (until 2153-12-31): asked as of that date; "
        "--now sets another."
    )


def test_the_record_of_another_patient_does_not_count(tmp_path: Path) -> None:
    other = observation("o2", "q", when="2153-12-29")
    found = clock_of(tmp_path, observation("o", "p", when=days(-9)), other)
    assert is_present(found)


@pytest.mark.parametrize(("wrong", "is_shifted"), [(1, False), (3, True)])
def test_one_wrong_year_is_no_shift_and_is_said(
    tmp_path: Path, wrong: int, is_shifted: bool
) -> None:
    right = [observation(f"r{number}", "p", when=days(-number)) for number in range(19)]
    future = [
        observation(f"w{number}", "p", when="2162-05-01") for number in range(wrong)
    ]
    found = clock_of(tmp_path, *right, *future)
    assert is_present(found) is not is_shifted
    assert found.remark.startswith(
        "The" if is_shifted else "Some of the record's dates"
    )
    assert "2162-05-01" in found.remark


@pytest.mark.parametrize("ahead", [0, 1])
def test_a_clock_that_is_fast_is_no_shift(tmp_path: Path, ahead: int) -> None:
    found = clock_of(tmp_path, observation("o", "p", when=days(ahead)))
    assert (is_present(found), found.remark) == (True, "")


@pytest.mark.parametrize(
    "visit",
    [
        encounter("e", "p", days(30), None, status="planned"),
        encounter("e", "p", days(30), None, status="cancelled"),
        encounter("e", "p", days(-3), days(30), status="in-progress"),
        encounter("e", "p", days(-3), None),
        encounter("e", "p", days(-3), "9999-12-31"),
        observation("w", "p", when=days(300), status="entered-in-error"),
    ],
    ids=[
        "planned",
        "cancelled",
        "expected end",
        "no end",
        "the end of time",
        "mistake",
    ],
)
def test_what_is_planned_open_or_a_mistake_does_not_move_the_clock(
    tmp_path: Path, visit: Resource
) -> None:
    found = clock_of(tmp_path, visit, observation("o", "p", when=days(-2)))
    assert (is_present(found), found.remark) == (True, "")


def test_dates_two_days_ahead_are_no_fast_clock(tmp_path: Path) -> None:
    found = clock_of(tmp_path, observation("o", "p", when=days(2)))
    assert found.now.date() == TODAY + timedelta(days=2)


def test_nine_planned_visits_do_not_hide_what_happened(tmp_path: Path) -> None:
    planned = [
        encounter(f"e{number}", "p", f"2170-01-0{number}", None, status="planned")
        for number in range(1, 10)
    ]
    happened = encounter("e", "p", "2153-01-01", "2153-01-02")
    assert clock_of(tmp_path, *planned, happened).now.date() == date(2153, 1, 2)


def test_open_visits_do_not_hide_that_a_record_is_shifted(tmp_path: Path) -> None:
    visits = [
        encounter(f"e{year}", "p", f"{year}-01-01", None) for year in range(2150, 2154)
    ]
    assert clock_of(tmp_path, *visits).now == datetime(2153, 1, 1, 23, 59, 59)


@pytest.mark.parametrize(("years", "is_old"), [(19, False), (21, True), (60, True)])
def test_a_record_that_ended_decades_ago_is_asked_as_of_its_end(
    tmp_path: Path, years: int, is_old: bool
) -> None:
    last = days(-years * 365)
    found = clock_of(tmp_path, observation("o", "p", when=f"{last}T08:00:00Z"))
    assert is_present(found) is not is_old
    assert found.remark == (
        f"The record ends on {last}: asked as of that date; --now sets another."
        if is_old
        else ""
    )


def _order(order_id: str, authored: str) -> Resource:
    return {
        "resourceType": "MedicationRequest",
        "id": order_id,
        "status": "active",
        "intent": "order",
        "medicationCodeableConcept": {"text": "Aspirin"},
        "subject": {"reference": "Patient/p"},
        "authoredOn": authored,
    }


def test_what_is_no_visit_or_observation_keeps_a_record_in_the_present(
    tmp_path: Path,
) -> None:
    old = observation("o", "p", when="1990-01-01")
    assert is_present(clock_of(tmp_path / "1", old, _order("m", days(-20))))
    ended = clock_of(tmp_path / "2", old, _order("m", "1991-05-06"))
    assert ended.now.date() == date(1991, 5, 6)


def test_the_last_date_is_searched_once_for_an_open_record(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    resources = [patient("p"), observation("o", "p", when=days(-1))]
    store = build_store(tmp_path, resources)
    searches: list[str] = []
    search = store.search

    def counted(query: str, *more: Any, **named: Any) -> Page:
        searches.append(query)
        return search(query, *more, **named)

    monkeypatch.setattr(store, "search", counted)
    for _ in range(3):
        clock(store, "p", None)
    assert searches == ["Encounter", "Observation"]
    clock(Store.open(store.path), "p", None)
    assert len(searches) == 2


class _Unsorted:
    """A server that refuses to sort."""

    def __init__(self, record: Record) -> None:
        self._record = record

    def get(self, *args: str) -> Any:
        return self._record.get(*args)

    def search(self, query: str, params: Any = None) -> Page:
        if "_sort" in params:
            raise FhirError("_sort is not supported.")
        return self._record.search(query, params)


def test_a_server_that_does_not_sort_is_asked_as_of_today_and_that_is_said(
    tmp_path: Path,
) -> None:
    store = build_store(
        tmp_path, [patient("p"), observation("o", "p", when="2153-01-01")]
    )
    found = clock(_Unsorted(store), "p", None)  # type: ignore[arg-type]
    assert is_present(found)
    assert "does not tell" in found.remark


class _Misordered(_Unsorted):
    """A server that ignores the order and gives the oldest first."""

    def search(self, query: str, params: Any = None) -> Page:
        sort = (
            {"_sort": params["_sort"].lstrip("-"), "_count": "1"}
            if "_sort" in params
            else {}
        )
        return self._record.search(query, {**params, **sort})


def test_a_server_that_ignores_the_order_does_not_make_a_record_old(
    tmp_path: Path,
) -> None:
    dated = [
        observation("o", "p", when="1990-01-01"),
        observation("o2", "p", when=days(-5)),
    ]
    store = build_store(tmp_path, [patient("p"), *dated])
    assert is_present(clock(_Misordered(store), "p", None))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("context", "stated"),
    [
        ("Assume the current time is 2133-12-31 10:00:00.", datetime(2133, 12, 31, 10)),
        ("Today is 2133-12-31.", datetime(2133, 12, 31, 23, 59)),
        ("Today is 2133-02-31.", None),
        ("She was admitted twice.", None),
        ("", None),
    ],
)
def test_a_context_may_state_the_time(context: str, stated: datetime | None) -> None:
    assert stated_time(context) == stated


def test_an_answer_says_as_of_when_it_holds(tmp_path: Path) -> None:
    glucose = observation(
        "o", "p", when="2153-12-31T06:00:00-05:00", valueQuantity={"value": 5}
    )
    record = build_store(tmp_path, [patient("p"), glucose]).path
    question = "When was the last glucose measured today?"
    shifted = archqa.ask(question, patient="Ann Stone", record=record)
    assert shifted.remarks[0].startswith("The record's dates lie in the future")
    assert "2153-12-31" in (shifted.query or "")
    typed = archqa.ask(question, patient="p", record=record, now="2153-12-30")
    stated = archqa.ask(
        question, patient="p", record=record, context="Today is 2153-12-30."
    )
    for told in (typed, stated):
        assert not any("in the future" in remark for remark in told.remarks)
        assert "2153-12-30" in (told.query or "")
