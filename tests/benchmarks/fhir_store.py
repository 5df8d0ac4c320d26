"""How fast the record is: loading, searching, scanning, and side by side with another server.

    python -m tests.benchmarks.fhir_store ../shared/fhir/mimic-fhir
    ARCHQA_SEKMET=/tmp/sekmet/bin/sekmet python -m tests.benchmarks.fhir_store ../shared/fhir/mimic-fhir --beside

Every search is asked once, so that nothing is answered from what was kept of an equal one.
"""

import argparse
import gc
import random
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from archqa.fhir import FhirClient, Store
from tests.fhir.third_party import fill, ours, sekmet


def main() -> None:
    """Measure and print."""
    words = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    words.add_argument(
        "data", type=Path, help="the folder of the MIMIC-IV demo as FHIR"
    )
    words.add_argument(
        "--record",
        type=Path,
        help="a record that holds it already: loading is not measured",
    )
    words.add_argument("--searches", type=int, default=1000)
    words.add_argument(
        "--beside", action="store_true", help="also against sekmet-fhir, both over HTTP"
    )
    given = words.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        store = (
            Store.open(given.record)
            if given.record
            else loaded(given.data, Path(folder) / "record.db")
        )
        searching(store, given.searches)
        scanning(store)
        if given.beside:
            beside(store, Path(folder))


def loaded(data: Path, path: Path) -> Store:
    """Load everything into a new record."""
    store = Store.open(path, create=True)
    wall, processor = time.perf_counter(), time.process_time()
    report = store.load([data], strict=True)
    wall, processor = time.perf_counter() - wall, time.process_time() - processor
    size = path.stat().st_size / 1e6
    say(
        f"load: {report.added} resources in {wall:.1f} s ({processor:.1f} s of processor time), {size:.0f} MB"
    )
    return store


def searching(store: Store, number: int) -> None:
    """Patient, code and date: random patients, codes of theirs, and a time of theirs as the bound."""
    chance = random.Random(1)
    patients = [each["id"] for each in store.search_all("Patient")]
    queries = []
    while len(queries) < number:
        patient = chance.choice(patients)
        codes = [
            each
            for each in store.codes("Observation", patient)
            if each.element == "code" and each.code
        ]
        for each in chance.sample(codes, min(10, len(codes))):
            times = [
                one["effectiveDateTime"]
                for one in store.search(
                    f"Observation?patient={patient}&code={each.code}"
                ).resources
            ]
            if times:
                queries.append(
                    f"Observation?patient={patient}&code={each.code}&date=ge{chance.choice(times)[:19]}"
                )
    chance.shuffle(queries)
    fresh = Store.open(store.path)
    tell(
        "patient + code + date",
        [timed(partial(fresh.search, query)) for query in dict.fromkeys(queries)],
    )


def scanning(store: Store) -> None:
    """All Observations of each of ten patients, page by page, as JSON values."""
    seconds = resources = 0.0
    for patient in [each["id"] for each in store.search_all("Patient")][::10]:
        gc.collect()
        began = time.perf_counter()
        resources += sum(1 for _ in store.search_all(f"Observation?patient={patient}"))
        seconds += time.perf_counter() - began
    say(
        f"scan: {seconds / resources * 1e6:.0f} ms for 1,000 Observations ({resources:.0f} read)"
    )


def beside(store: Store, folder: Path) -> None:
    """The same few patients on both servers, over HTTP."""
    patients: list[str] = []
    resources: dict[tuple[str, str], dict] = {}
    for patient in (each["id"] for each in store.search_all("Patient")):
        if len(resources) < 19_000:
            patients.append(patient)
            resources |= {
                (each["resourceType"], each["id"]): each
                for each in store.everything(patient)
            }
    path = folder / "few.db"
    with Store.open(path, create=True) as few:
        few.load([_written(folder / "few.ndjson", resources.values())])
    say(f"beside sekmet-fhir: {len(resources)} resources of {len(patients)} patients")
    with sekmet(folder) as theirs, ours(path) as our:
        fill(theirs, resources.values())
        kinds: dict[str, Callable[[str], str]] = {
            "patient + code": lambda patient: (
                f"Observation?patient={patient}&code=50912&_count=50"
            ),
            "patient + date": lambda patient: (
                f"Observation?patient={patient}&date=ge2130-01-01&_count=50"
            ),
            "_sort=-date": lambda patient: (
                f"Observation?patient={patient}&_sort=-date&_count=50"
            ),
            "_sort=-date, page 2": lambda patient: (
                f"Observation?patient={patient}&_sort=-date&_count=50&_offset=50"
            ),
        }
        for name, query in kinds.items():
            both = []
            for base in (theirs, our):
                with FhirClient(base, timeout=300) as client:
                    client.search("Patient?_count=1")
                    both.append(
                        [
                            timed(partial(client.search, query(patient)))
                            for patient in patients[:3]
                        ]
                    )
            middle = [statistics.median(each) for each in both]
            say(
                f"  {name}: theirs {middle[0]:.1f} ms, ours {middle[1]:.1f} ms, {middle[0] / middle[1]:.1f} times"
            )


def _written(path: Path, resources: Iterable[dict]) -> Path:
    from tests.fhir.invented import write_ndjson

    return write_ndjson(path, resources)


def say(text: str) -> None:
    """One line on stdout, at once."""
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def timed(work: Callable[[], object]) -> float:
    """Milliseconds."""
    began = time.perf_counter()
    work()
    return (time.perf_counter() - began) * 1000


def tell(name: str, times: list[float]) -> None:
    """Median and 95th percentile."""
    middle, high = statistics.median(times), statistics.quantiles(times, n=20)[-1]
    say(f"{name}: p50 {middle:.2f} ms, p95 {high:.2f} ms ({len(times)} searches)")


if __name__ == "__main__":
    main()
