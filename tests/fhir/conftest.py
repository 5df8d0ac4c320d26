"""A record with a small ward in it."""

from pathlib import Path

import pytest

from archqa.fhir import Store
from tests.fhir.invented import build_store, ward_resources


@pytest.fixture
def ward_store(tmp_path: Path) -> Store:
    return build_store(tmp_path / "ward_store", ward_resources())
