"""A record with a small ward in it, as each profile serves it, and an empty record."""

from pathlib import Path

import pytest

from archqa.fhir import Store
from tests.fhir.invented import build_store, ward_resources


@pytest.fixture
def ward_store(tmp_path: Path) -> Store:
    return build_store(tmp_path / "ward_store", ward_resources())


@pytest.fixture
def gcp(ward_store: Store) -> Store:
    return ward_store.as_profile("gcp")


@pytest.fixture
def hapi(ward_store: Store) -> Store:
    return ward_store.as_profile("hapi")


@pytest.fixture
def empty_store(tmp_path: Path) -> Store:
    return Store.open(tmp_path / "empty" / "record.db", create=True)
