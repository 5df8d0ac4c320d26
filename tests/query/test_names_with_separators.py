"""Codes and names that hold the separators of FHIR search values: `|`, `,`, `$` and the backslash."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from archqa.fhir import FhirClient, FhirService, Resource
from archqa.query import Query, execute
from tests.fhir.invented import (
    build_store,
    codeable_concept,
    encounter,
    observation,
    patient,
)
from tests.fhir.serving import client_of

SEPARATORS = ["|", ",", "$", "\\", "\\|", "\\,"]


@pytest.mark.parametrize("separator", SEPARATORS)
def test_a_result_is_found_by_a_code_system_and_name_with_a_separator(
    tmp_path: Path, separator: str
) -> None:
    name = f"Sodium{separator}Chloride"
    system = f"http://example.org/labs{separator}2"
    concept = codeable_concept(f"A{separator}B", name, system)
    quantity = {"value": 4.5, "unit": "u"}
    shorter_concept = codeable_concept("A", "Sodium", system)
    resources = [
        patient("p"),
        encounter("h1", "p", "2130-01-01T08:00:00Z", None),
        observation("o1", "p", concept, "2130-01-01T09:00:00Z", valueQuantity=quantity),
        observation("o2", "p", shorter_concept, "2130-01-01T09:00:00Z"),
    ]
    store = build_store(tmp_path, resources)
    query = Query(what="lab", names=(name,))
    with client_of(FhirService(store, "http://localhost:8080/fhir")) as client:
        for record in (store, client):
            result = execute(query, record, "p")
            assert result.answer.values == (4.5,)
            assert result.evidence == {"Observation": ("o1",)}


def test_a_server_receives_every_separator_of_a_name_escaped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = build_store(tmp_path, [patient("p")])
    texts: list[str] = []

    def search_all(
        self: FhirClient, resource_type: str, params: dict[str, str]
    ) -> Iterator[Resource]:
        texts.append(params.get("code:text", ""))
        return iter(())

    monkeypatch.setattr(FhirClient, "search_all", search_all)
    with client_of(FhirService(store, "http://localhost:8080/fhir")) as client:
        execute(Query(what="lab", names=(r"a|b,c$d\e",)), client, "p", "mimic-ehrsql")
    assert r"a\|b\,c\$d\\e" in texts
