"""The invented record, once for all tests of this room: it is only read."""

from pathlib import Path

import pytest

from tests.tasks.medagentbench.invented import SyntheticBenchmark, build_benchmark


@pytest.fixture(scope="session")
def benchmark(tmp_path_factory: pytest.TempPathFactory) -> SyntheticBenchmark:
    return build_benchmark(tmp_path_factory.mktemp("medagentbench"))


@pytest.fixture
def tasks_v1(shared: Path) -> Path:
    """The benchmark's own 100 tasks."""
    return shared / "fhir" / "medagentbench" / "tasks_v1.json"
