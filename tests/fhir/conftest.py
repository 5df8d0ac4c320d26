"""A record with a small ward in it."""

from pathlib import Path

import pytest

from archqa.fhir import Store
from tests.fhir.invented import a_ward, store_of


@pytest.fixture
def ward(tmp_path: Path) -> Store:
    return store_of(tmp_path / "ward", a_ward())
