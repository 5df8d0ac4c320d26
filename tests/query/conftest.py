"""The fixture `ask`: one query of a small record."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from archqa.fhir import Store
from archqa.query import Query, QueryResult, execute
from tests.fhir.invented import build_store, patient
from tests.query.clinic import NOW, Ask, Resource


@pytest.fixture
def ask(tmp_path: Path) -> Iterator[Ask]:
    """A function that asks a query of a record of these resources, by the clinical conventions."""
    stores: list[Store] = []

    def ask_record(resources: list[Resource], what: str, **fields: Any) -> QueryResult:
        if not any(each["resourceType"] == "Patient" for each in resources):
            resources = [patient("p"), *resources]
        store = build_store(tmp_path / str(len(stores)), resources)
        stores.append(store)
        conventions = fields.pop("conventions", "clinical")
        query = Query.model_validate({"what": what, "now": NOW, **fields})
        return execute(query, store, "p", conventions)

    yield ask_record
    for store in stores:
        store.close()
