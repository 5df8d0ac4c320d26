"""Large cases take time in proportion to their size, or are refused with a clear error.

Each is measured at a size and at four times that size, in seconds of this process: what grows with
the square would take sixteen times as long.
"""

import gc
import json
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

import pytest

from archqa.fhir import FhirError, FhirService, LoadReport, Store
from tests.fhir.invented import (
    build_store,
    codeable_concept,
    ids_of,
    numbered_observations,
    observation,
    patient,
    write_ndjson,
)
from tests.fhir.serving import BASE

MAX_GROWTH = 9
"""Times that four times as much may take: between 4 (in proportion) and 16 (the square)."""

SHORTEST = 0.05
"""Seconds below which a measured time counts as this much."""

ATTEMPTS = 3
"""Measurements, of which one must be in proportion: what grows with the square passes none, and what
other work of the machine adds passes."""

Resource = dict[str, Any]


@pytest.fixture(autouse=True)
def _one_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("archqa.fhir.index.loading.worker_count_for", lambda _: 0)


def assert_in_proportion(seconds_for: Callable[[int], float], size: int) -> None:
    seconds_for(size // 10)
    growths = []
    for _ in range(ATTEMPTS):
        small = max(seconds_for(size), SHORTEST)
        growths.append(seconds_for(4 * size) / small)
        if growths[-1] < MAX_GROWTH:
            return
    pytest.fail(f"four times as much takes {growths} times as long")


def seconds_of(action: Callable[[], Any]) -> float:
    gc.collect()
    gc.disable()  # A collection runs over what all tests before this one have left.
    try:
        start = time.process_time()
        action()
        return time.process_time() - start
    finally:
        gc.enable()


def load_text(folder: Path, text: str) -> tuple[Store, LoadReport]:
    folder.mkdir(exist_ok=True)
    (folder / "one.json").write_text(text, "utf-8")
    store = Store.open(folder / "record.db", create=True)
    return store, store.load([folder / "one.json"])


def transaction(size: int, reference: Callable[[int], str]) -> Resource:
    entries: list[Resource] = [{"fullUrl": "urn:uuid:u0", "resource": patient("p1")}]
    for number in range(1, size):
        subject = {"reference": reference(number)}
        resource = observation(f"o{number}", "x", subject=subject)
        entries.append({"fullUrl": f"urn:uuid:u{number}", "resource": resource})
    return {"resourceType": "Bundle", "type": "transaction", "entry": entries}


def with_codings(size: int) -> Resource:
    codings = [{"system": "http://s", "code": f"c{number}"} for number in range(size)]
    return observation("o1", "p1", {"coding": codings})


def with_identifiers(size: int) -> Resource:
    identifiers = [
        {"system": "http://s", "value": f"i{number}"} for number in range(size)
    ]
    return patient("p1", identifier=identifiers)


def with_names(size: int) -> Resource:
    return {
        **patient("p1"),
        "name": [{"family": f"n{number}"} for number in range(size)],
    }


def with_members(size: int) -> Resource:
    members = [{"reference": f"Observation/m{number}"} for number in range(size)]
    return observation("o1", "p1", hasMember=members)


def with_subjects(size: int) -> Resource:
    members = [
        {"entity": {"reference": f"Patient/m{number}"}} for number in range(size)
    ]
    return {"resourceType": "Group", "id": "g1", "type": "person", "member": members}


def with_text(size: int) -> Resource:
    return observation("o1", "p1", valueString="x y é " * size)


LARGE_RESOURCES = {
    "codings": with_codings,
    "identifiers": with_identifiers,
    "names": with_names,
    "members": with_members,
    "members of a group": with_subjects,
    "text": with_text,
}

LARGE_BUNDLES: dict[str, Callable[[int], str]] = {
    "to one entry": lambda _: "urn:uuid:u0",
    "to the entry before": lambda number: f"urn:uuid:u{number - 1}",
    "to no entry": lambda number: f"urn:uuid:absent-{number}",
    "with a condition": lambda number: f"Patient?identifier=http://s|{number}",
    "with one condition": lambda _: "Patient?identifier=http://example.org/mrn|MRN-p1",
}


@pytest.mark.parametrize("kind", LARGE_BUNDLES)
def test_references_of_a_large_bundle_load_in_proportion(
    tmp_path: Path, kind: str
) -> None:
    def seconds_for(size: int) -> float:
        text = json.dumps(transaction(size, LARGE_BUNDLES[kind]))
        folder = Path(mkdtemp(dir=tmp_path))
        reports: list[LoadReport] = []
        seconds = seconds_of(lambda: reports.append(load_text(folder, text)[1]))
        assert reports[0].added == size
        return seconds

    assert_in_proportion(seconds_for, 2500)


@pytest.mark.long
def test_a_bundle_of_fifty_thousand_entries_is_loaded(tmp_path: Path) -> None:
    text = json.dumps(transaction(50_000, LARGE_BUNDLES["to one entry"]))
    store, report = load_text(tmp_path, text)
    assert (report.added, report.unresolved) == (50_000, 0)
    assert store.search("Observation?patient=p1&_summary=count").total == 49_999


@pytest.mark.parametrize("kind", LARGE_RESOURCES)
def test_a_large_resource_loads_and_is_read_in_proportion(
    tmp_path: Path, kind: str
) -> None:
    def seconds_for(size: int) -> float:
        resource = LARGE_RESOURCES[kind](size)
        folder = Path(mkdtemp(dir=tmp_path))
        text = json.dumps(resource)

        def load_and_read() -> None:
            store, report = load_text(folder, text)
            assert report.added == 1
            service = FhirService(store, BASE)
            resource_type, resource_id = resource["resourceType"], resource["id"]
            for url in (
                f"{resource_type}/{resource_id}",
                f"{resource_type}?_summary=true",
            ):
                assert service.get(url).status == 200

        return seconds_of(load_and_read)

    assert_in_proportion(seconds_for, 25_000)


def test_a_text_of_sixteen_mib_is_found_by_its_beginning_and_by_a_part(
    tmp_path: Path,
) -> None:
    text = "Ä" + "lorem ipsum " * (16 * 2**20 // 12) + "needle"
    store = build_store(tmp_path, [observation("o1", "p1", valueString=text)])
    start = time.process_time()
    assert store.search("Observation?value-string=alorem").total == 1
    assert store.search("Observation?value-string:contains=m%20needle").total == 1
    assert store.search("Observation?value-string:contains=absent").total == 0
    assert time.process_time() - start < 10


@pytest.mark.parametrize("depth", [201, 900, 1100, 10_000, 1_000_000])
def test_what_is_nested_too_deeply_is_refused_by_name(
    tmp_path: Path, depth: int
) -> None:
    value = "[" * depth + "]" * depth
    text = f'{{"resourceType": "Basic", "id": "b1", "extension": {value}}}'
    store, report = load_text(tmp_path, text)
    assert (report.added, report.bad) == (0, 1)
    assert "nested" in report.mistakes[0]
    assert store.counts() == {}


def test_what_is_nested_two_hundred_levels_deep_is_loaded_and_answered(
    tmp_path: Path,
) -> None:
    value: Any = 1
    for _ in range(99):
        value = [{"extension": value}]
    store = build_store(
        tmp_path, [{"resourceType": "Basic", "id": "b1", "extension": value}]
    )
    service = FhirService(store, BASE)
    for url in ("Basic/b1", "Basic?_summary=true", "Basic?_elements=extension"):
        assert service.get(url).status == 200


def ward_of(size: int) -> Iterable[Resource]:
    """A patient whose observations refer to one hub, and to one another in a circle."""
    yield patient("p1")
    yield {
        "resourceType": "Encounter",
        "id": "e1",
        "subject": {"reference": "Patient/p1"},
    }
    for number in range(size):
        yield observation(
            f"o{number}",
            "p1",
            codeable_concept(f"C{number % 3000}"),
            f"2130-01-{number % 28 + 1:02}",
            encounter={"reference": "Encounter/e1"},
            hasMember=[{"reference": f"Observation/o{(number + 1) % size}"}],
        )


@pytest.fixture(scope="module")
def wards(tmp_path_factory: pytest.TempPathFactory) -> dict[int, Store]:
    """Records of three sizes."""
    stores = {}
    for size in (500, 5000, 20_000):
        folder = tmp_path_factory.mktemp(f"ward{size}")
        stores[size] = build_store(folder, ward_of(size), "hapi")
    return stores


TWO_THOUSAND_CODES = ",".join(f"C{number}" for number in range(2000))
SORT_KEYS = ",".join(
    ["date", "-code", "encounter", "_id", "-_lastUpdated", "patient", "status"]
)

LARGE_SEARCHES = {
    "two thousand codes": f"Observation?code={TWO_THOUSAND_CODES}",
    "all but many codes": f"Observation?code:not={TWO_THOUSAND_CODES[:1000]}",
    "a circle of includes": "Observation?_id=o0&_include:iterate=Observation:has-member",
    "a circle both ways": (
        "Observation?_include:iterate=Observation:has-member"
        "&_revinclude:iterate=Observation:has-member"
    ),
    "referring to a hub": "Encounter?_revinclude=Observation:encounter",
    "a chain to a hub": "Observation?encounter.patient=p1",
    "a chain that nothing passes": "Observation?encounter.identifier=absent",
    "a reverse chain from a hub": "Encounter?_has:Observation:encounter:code=C7",
    "many keys": f"Observation?_sort={SORT_KEYS}",
    "everything": "Patient/p1/$everything?_count=1000",
    "a date among few": "Observation?date=2130-01-05",
    "a part of a word": "Observation?code:text=c29",
}


@pytest.mark.parametrize("kind", LARGE_SEARCHES)
def test_a_large_search_takes_time_in_proportion(
    wards: dict[int, Store], kind: str
) -> None:
    def seconds_for(size: int) -> float:
        # Sessions cache results: each search has its own.
        service = FhirService(wards[size].as_profile("hapi"), BASE)
        statuses: list[int] = []
        url = LARGE_SEARCHES[kind]
        seconds = seconds_of(lambda: statuses.append(service.get(url).status))
        assert statuses == [200]
        return seconds

    assert_in_proportion(seconds_for, 5000)


def test_all_pages_of_a_large_result_take_time_in_proportion(
    wards: dict[int, Store],
) -> None:
    def seconds_for(size: int) -> float:
        store = wards[size].as_profile("hapi")
        return seconds_of(lambda: ids_of(store.search_all("Observation?_count=100")))

    assert_in_proportion(seconds_for, 5000)


def test_loading_the_same_file_twice_takes_time_in_proportion(tmp_path: Path) -> None:
    def seconds_for(size: int) -> float:
        folder = Path(mkdtemp(dir=tmp_path))
        store = build_store(folder, [])
        path = write_ndjson(folder / "more.ndjson", numbered_observations(size))

        def load_twice() -> None:
            assert store.load([path]).added == size
            assert store.load([path]).unchanged == size

        return seconds_of(load_twice)

    assert_in_proportion(seconds_for, 2500)


@pytest.mark.parametrize(
    "query",
    [
        "Observation?code=" + ",".join("c" for _ in range(2001)),
        "Observation?code:text=" + ",".join("c" for _ in range(1001)),
        "Observation?" + "&".join("code=c" for _ in range(201)),
        "Observation?_sort=" + ",".join("date" for _ in range(21)),
        "Observation?code=" + "c" * 200_001,
    ],
)
def test_a_search_that_would_take_too_long_is_refused_at_once(
    wards: dict[int, Store], query: str
) -> None:
    start = time.process_time()
    with pytest.raises(FhirError) as caught:
        wards[5000].search(query)
    assert time.process_time() - start < 1
    assert all(len(text) < 300 for text in caught.value.diagnostics)
