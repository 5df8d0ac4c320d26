"""The invented record, once for all tests of this room: it is only read."""

from pathlib import Path

import pytest

from tests.medagentbench.invented import Invented, build


@pytest.fixture(scope="session")
def invented(tmp_path_factory: pytest.TempPathFactory) -> Invented:
    return build(tmp_path_factory.mktemp("medagentbench"))


@pytest.fixture
def tasks_v1(shared: Path) -> Path:
    """The benchmark's own 100 tasks."""
    return shared / "fhir" / "medagentbench" / "tasks_v1.json"
