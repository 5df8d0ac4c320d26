"""The invented record, which tests only read, and the model that follows fixed rules: once for all tests."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.fakes.fixed_policy import PolicyServer
from tests.tasks.medagentbench.invented import SyntheticBenchmark, build_benchmark


@pytest.fixture(scope="session")
def benchmark(tmp_path_factory: pytest.TempPathFactory) -> SyntheticBenchmark:
    return build_benchmark(tmp_path_factory.mktemp("medagentbench"))


@pytest.fixture(scope="session")
def policy() -> Iterator[PolicyServer]:
    with PolicyServer() as server:
        yield server


@pytest.fixture
def tasks_v1(shared: Path) -> Path:
    """The benchmark's own 100 tasks."""
    return shared / "fhir" / "medagentbench" / "tasks_v1.json"
