"""The limits of views: a test fails when one is lowered, raised or removed."""

from pathlib import Path

from archqa.fhir import (
    build_schema_card,
    lookup,
    project_all,
)
from tests.fhir.invented import (
    Resource,
    build_store,
    codeable_concept,
    numbered_observations,
    observation,
    patient,
)


def test_a_lookup_gives_twenty_codes_and_near_ones_by_three_quarters(
    tmp_path: Path,
) -> None:
    observations = observations_with_codes(25, "Culture")
    store = build_store(tmp_path, [patient("p"), *observations])
    assert len(lookup(store, "culture")) == 20
    short_name = observation("o", "p", codeable_concept("1", "abcd"))
    store = build_store(tmp_path / "near", [short_name])
    (hit,) = lookup(store, "abcx")
    assert hit.match == "near"
    assert lookup(store, "abxy") == []


def observations_with_codes(count: int, name: str) -> list[Resource]:
    """Observations with the codes C0, C1 and so on, displayed as name and number."""
    observations = []
    for number in range(count):
        code = codeable_concept(f"C{number}", f"{name} {number}")
        observations.append(observation(f"o{number}", "p", code))
    return observations


def test_a_projection_shows_fifty_rows_of_32_000_bytes_in_all() -> None:
    assert len(project_all(numbered_observations(60)).rows) == 50
    long = numbered_observations(60, note="x" * 2000)
    assert 30_000 < len(project_all(long).text) < 32_050


def test_a_card_looks_at_forty_resources_and_shows_three_examples(
    tmp_path: Path,
) -> None:
    observations = observations_with_codes(41, "Test")
    observations[39]["note"] = "x"
    observations[40]["comment"] = "x"
    store = build_store(tmp_path, observations)
    (card,) = build_schema_card(store).types
    assert "note" in card.paths
    assert "comment" not in card.paths
    systems = {system.element: system for system in card.systems}
    labs = systems["code"]
    assert labs.codes == 41
    assert len(labs.examples) == 3


def test_a_card_shows_forty_paths(tmp_path: Path) -> None:
    members = {f"member{number}": "x" for number in range(60)}
    store = build_store(tmp_path, [observation("o", "p", **members)])
    (card,) = build_schema_card(store).types
    assert len(card.paths) == 40
