"""Searches from several threads, and searches that take too long."""

import gc
import threading
from pathlib import Path

import pytest

from archqa.fhir import FhirError, Store
from tests.fhir.invented import (
    build_store,
    observation,
)


def test_many_threads_may_read_at_once(ward_store: Store) -> None:
    results: list[int | None] = []

    def read() -> None:
        results.extend(
            ward_store.search("Observation?patient=p1").total for _ in range(20)
        )

    threads = [threading.Thread(target=read) for _ in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results == [5] * 320
    ward_store.close()
    assert ward_store.search("Observation?patient=p1").total == 5


def test_threads_that_have_ended_leave_no_file_open(ward_store: Store) -> None:
    def opened() -> int:
        return len(
            [
                path
                for path in Path("/proc/self/fd").iterdir()
                if path.resolve() == ward_store.path
            ]
        )

    if not Path("/proc/self/fd").is_dir():
        pytest.skip("needs /proc")
    before = opened()
    for _ in range(20):
        thread = threading.Thread(target=ward_store.search, args=("Observation",))
        thread.start()
        thread.join()
    gc.collect()
    assert opened() <= before + 1


def test_a_search_that_takes_too_long_is_given_up(tmp_path: Path) -> None:
    store = build_store(
        tmp_path, [observation(f"o{at}", "p", when="2130-01-01") for at in range(6000)]
    )
    store.time_limit = 0.0
    with pytest.raises(FhirError, match="took longer") as caught:
        store.search("Observation?_sort=-date,status")
    assert caught.value.status == 503
