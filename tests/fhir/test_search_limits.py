"""The limits of searches: a test fails when one is lowered, raised or removed."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from archqa.fhir import (
    FhirError,
    FhirService,
    Page,
    Resolver,
    Store,
)
from tests.fhir.invented import (
    Resource,
    build_store,
    ids_of,
    numbered_observations,
    observation,
    patient,
    write_ndjson,
)
from tests.fhir.serving import BASE


@pytest.fixture(scope="module")
def large_store(tmp_path_factory: pytest.TempPathFactory) -> Store:
    resources = [patient("p1"), *numbered_observations(2500)]
    return build_store(tmp_path_factory.mktemp("large"), resources)


def test_everything_comes_in_pages_of_a_thousand(large_store: Store) -> None:
    assert len(large_store.everything_page("p1").entries) == 1000
    bundle = FhirService(large_store, BASE).get("Patient/p1/$everything").json()
    assert len(bundle["entry"]) == 1000
    assert len(list(large_store.everything("p1"))) == 2501


def test_all_pages_are_read_a_thousand_matches_at_a_time(
    large_store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    sizes: list[int] = []
    search = Store.search

    def counted(self: Store, query: str, params: Any = None) -> Page:
        page = search(self, query, params)
        sizes.append(len(page.entries))
        return page

    monkeypatch.setattr(Store, "search", counted)
    assert len(list(large_store.search_all("Observation"))) == 2500
    assert sizes == [1000, 1000, 500]


def test_a_parameter_takes_two_thousand_values(large_store: Store) -> None:
    ids = [f"o{number}" for number in range(2001)]
    params = {"_id": ",".join(ids[:2000]), "_count": "0"}
    assert large_store.search("Observation", params).total == 2000
    with pytest.raises(FhirError, match="more than 2000 values"):
        large_store.search("Observation", {"_id": ",".join(ids)})


def test_a_search_takes_two_hundred_thousand_characters(ward_store: Store) -> None:
    query = "Patient?_id=p1&name=Ann,"
    longest = query + "," * (200_000 - len(query))
    assert ward_store.search(longest).total == 1
    with pytest.raises(FhirError, match="too long") as caught:
        ward_store.search(longest + ",")
    assert caught.value.status == 414


def test_ten_thousand_resources_are_included_and_the_rest_is_announced(
    tmp_path: Path,
) -> None:
    observations = numbered_observations(10_001)
    store = build_store(tmp_path, [patient("p1"), patient("p2"), *observations])
    query = "Patient?_id=p1&_revinclude=Observation:patient"
    page = store.search(query)
    assert len(page.included) == 10_000
    (notice,) = page.notices
    assert "10000" in notice
    store.load([write_ndjson(tmp_path / "moved.ndjson", [observation("o0", "p2")])])
    page = store.search(query)
    assert len(page.included) == 10_000
    assert page.notices == []


def test_an_iterated_include_goes_six_steps(tmp_path: Path) -> None:
    def part_of(number: int) -> Resource:
        whole = {"partOf": {"reference": f"Location/w{number + 1}"}}
        return {"resourceType": "Location", "id": f"w{number}", **whole}

    store = build_store(tmp_path, [part_of(number) for number in range(10)])
    page = store.search("Location?_id=w0&_include:iterate=Location:partof")
    assert ids_of(page.included) == ["w1", "w2", "w3", "w4", "w5", "w6"]


def test_a_date_without_a_zone_reaches_the_farthest_clocks(tmp_path: Path) -> None:
    earliest = observation("east", "p", when="2130-01-02T13:59:00+14:00")
    latest = observation("west", "p", when="2130-01-01T00:01:00-14:00")
    store = build_store(tmp_path, [earliest, latest], "hapi")
    page = store.search("Observation?date=2130-01-01T23:59Z")
    assert ids_of(page.resources) == ["east"]
    page = store.search("Observation?date=2130-01-01T14:01Z")
    assert ids_of(page.resources) == ["west"]


def test_five_mistakes_of_a_search_are_shown(ward_store: Store) -> None:
    params = {f"colour{number}": "red" for number in range(9)}
    with pytest.raises(FhirError) as caught:
        ward_store.search("Observation", params)
    assert len(caught.value.diagnostics) == 5


def test_three_near_names_are_suggested(ward_store: Store) -> None:
    with pytest.raises(FhirError, match="Did you mean Substance") as caught:
        ward_store.search("SubstancePro")
    assert str(caught.value).count(" or ") == 2
    with pytest.raises(FhirError) as caught:
        ward_store.search("Pat")
    assert "Did you mean" not in str(caught.value)


def test_a_resolver_fetches_two_hundred_resources_in_one_search(
    large_store: Store,
) -> None:
    counts: list[int] = []

    class CountedRecord:
        def search_all(self, query: str, params: dict[str, str]) -> Iterator[Resource]:
            counts.append(len(params["_id"].split(",")))
            assert params["_count"] == "200"
            return large_store.search_all(query, params)

    members = [{"reference": f"Observation/o{number}"} for number in range(450)]
    test = observation("test", "p1", hasMember=members)
    resolver = Resolver(CountedRecord())  # type: ignore[arg-type]
    assert len(resolver.at(test, "hasMember")) == 450
    assert counts == [200, 200, 50]
