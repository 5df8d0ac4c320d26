"""What one request to `archqa fhir serve` may use: rows, bytes, time, for a batch as for a search."""

import asyncio
import json
import threading
import time
import tracemalloc
from itertools import product
from pathlib import Path
from typing import Any

import pytest

from archqa.fhir import FhirService, Overlay, Store, WriteMode, Writer
from archqa.fhir.request_budget import (
    RequestBudget,
    RequestCancelled,
    RequestLimits,
    use_budget,
)
from archqa.fhir.server.application import FhirApplication
from tests.fhir.invented import build_store, numbered_observations, observation, patient
from tests.fhir.serving import BASE, post_scope, send_request
from tests.fhir.writes import VITAL_SIGN

MIB = 2**20
HUGE = "Observation?_count=999999999"


@pytest.fixture(scope="module")
def large_store(tmp_path_factory: pytest.TempPathFactory) -> Store:
    resources = [patient("p1"), *numbered_observations(2500)]
    return build_store(tmp_path_factory.mktemp("large"), resources)


@pytest.fixture(scope="module")
def heavy_store(tmp_path_factory: pytest.TempPathFactory) -> Store:
    notes = [observation(f"o{number}", "p1", note="x" * 50_000) for number in range(40)]
    return build_store(tmp_path_factory.mktemp("heavy"), [patient("p1"), *notes])


def batch(*urls: str) -> bytes:
    entries = [{"request": {"method": "GET", "url": url}} for url in urls]
    return json.dumps(
        {"resourceType": "Bundle", "type": "batch", "entry": entries}
    ).encode()


async def ask(application: FhirApplication, url: str) -> Any:
    status, body = await send_request(application, "GET", f"/fhir/{url}")
    assert status == 200, body
    return json.loads(body)


async def ask_batch(application: FhirApplication, *urls: str) -> list[Any]:
    status, body = await send_request(application, "POST", "/fhir", batch(*urls))
    assert status == 200, body
    entries: list[Any] = json.loads(body)["entry"]
    return entries


def links_of(bundle: Any) -> dict[str, str]:
    return {link["relation"]: link["url"] for link in bundle["link"]}


def matches_of(bundle: Any) -> list[Any]:
    entries = bundle["entry"]
    return [
        entry["resource"] for entry in entries if entry["search"]["mode"] == "match"
    ]


def limited(store: Store, **limits: Any) -> FhirApplication:
    return FhirApplication(FhirService(store, BASE), limits=RequestLimits(**limits))


def test_a_request_may_hold_20_000_resources_and_64_mib() -> None:
    limits = RequestLimits()
    assert (limits.resources, limits.reply_bytes) == (20_000, 64 * MIB)
    assert (limits.page_size, limits.seconds) == (10_000, 30.0)


async def test_a_batch_holds_no_more_than_one_request_and_says_so(
    large_store: Store,
) -> None:
    application = FhirApplication(FhirService(large_store.as_profile("hapi"), BASE))
    entries = await ask_batch(application, *[HUGE] * 1000)
    assert len(entries) == 1000
    resources = sum(
        len(entry["resource"]["entry"]) for entry in entries if "resource" in entry
    )
    assert resources == 20_000
    assert "resource" in entries[7]
    for entry in entries[8:]:
        assert entry["response"]["status"] == "400"
        (issue,) = entry["response"]["outcome"]["issue"]
        assert issue["code"] == "too-costly"
        assert "20000 resources" in issue["diagnostics"]


async def test_a_batch_of_whole_types_takes_little_memory(heavy_store: Store) -> None:
    application = limited(heavy_store, reply_bytes=4 * MIB)
    body = batch(*[HUGE] * 300)
    tracemalloc.start()
    try:
        status, _ = await send_request(application, "POST", "/fhir", body)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert status == 200
    assert peak < 40 * MIB  # 600 MB of text would come without a limit.


async def test_a_batch_gives_resources_exactly_as_they_were_loaded(
    tmp_path: Path,
) -> None:
    path = tmp_path / "exact.ndjson"
    text = '{"resourceType":"Observation",  "id":"o1", "valueQuantity":{"value":5.10}}'
    path.write_text(text + "\n")
    store = Store.open(tmp_path / "record.db", create=True)
    store.load([path])
    application = FhirApplication(FhirService(store, BASE))
    _, body = await send_request(application, "POST", "/fhir", batch("Observation/o1"))
    assert text in body


@pytest.mark.parametrize(
    ("profile", "largest"), [("archqa", 5000), ("gcp", 1000), ("hapi", 10000)]
)
async def test_a_page_is_as_large_as_declared_and_its_links_say_so(
    large_store: Store, profile: str, largest: int
) -> None:
    application = FhirApplication(FhirService(large_store.as_profile(profile), BASE))
    bundle = await ask(application, HUGE)
    assert len(matches_of(bundle)) == min(largest, 2500)
    streamed = profile == "hapi"  # It has no largest page.
    assert f"_count={999999999 if streamed else largest}" in links_of(bundle)["self"]
    whole = await ask(application, "Patient/p1/$everything?_count=999999999")
    assert len(matches_of(whole)) == min(largest, 2501)
    assert f"_count={largest}" in links_of(whole)["self"]
    statement = await ask(application, "metadata")
    assert f"{largest} matches" in statement["rest"][0]["documentation"]


@pytest.mark.parametrize(
    ("profile", "url"),
    [
        *(("archqa", HUGE), ("gcp", HUGE)),  # The profile hapi streams it.
        *product(
            ("archqa", "gcp", "hapi"),
            ("Observation?_sort=-_id", "Patient/p1/$everything"),
        ),
    ],
)
async def test_a_reply_that_is_full_goes_on_with_the_next_link(
    heavy_store: Store, profile: str, url: str
) -> None:
    application = limited(heavy_store.as_profile(profile), reply_bytes=MIB)
    ids = []
    sizes = []
    while url:
        status, body = await send_request(application, "GET", f"/fhir/{url}")
        assert status == 200
        bundle = json.loads(body)
        ids += [resource["id"] for resource in matches_of(bundle)]
        sizes.append(len(body))
        url = links_of(bundle).get("next", "").removeprefix(BASE).lstrip("/")
    notes = {f"o{number}" for number in range(40)}
    assert set(ids) - {"p1"} == notes
    assert len(ids) == len(set(ids))
    assert max(sizes) < 1.2 * MIB


async def test_includes_that_do_not_fit_are_refused_not_left_out(
    heavy_store: Store,
) -> None:
    application = limited(heavy_store, reply_bytes=MIB)
    target = "/fhir/Patient?_revinclude=Observation:patient"
    status, body = await send_request(application, "GET", target)
    assert status == 400
    assert json.loads(body)["issue"][0]["code"] == "too-costly"


async def test_a_resource_larger_than_a_reply_can_still_be_read(
    heavy_store: Store,
) -> None:
    application = limited(heavy_store, reply_bytes=10_000)
    assert (await ask(application, "Observation/o1"))["id"] == "o1"
    assert len((await ask(application, "Observation"))["entry"]) == 1


def slow_searches(number: int) -> list[str]:
    """Searches of about two milliseconds each, none of which is cached."""
    years = range(1000, 1000 + number)
    return [f"Observation?_lastUpdated=ne{year}&_summary=count" for year in years]


async def test_the_entries_of_a_batch_share_the_time_of_one_request(
    large_store: Store,
) -> None:
    application = FhirApplication(FhirService(large_store, BASE), seconds=1.0)
    start = time.monotonic()
    entries = await ask_batch(application, *slow_searches(5000))
    assert time.monotonic() - start < 4
    assert "resource" in entries[0]
    late = entries[-1]["response"]
    assert late["status"] == "503"
    assert late["outcome"]["issue"][0]["code"] == "too-costly"


async def leave_after(
    application: FhirApplication, body: bytes, seconds: float
) -> float:
    """Post a body and leave; return the seconds after which the application gave up."""
    scope = post_scope("/fhir")
    bodies = [{"type": "http.request", "body": body}]

    async def receive() -> dict[str, Any]:
        if bodies:
            return bodies.pop()
        await asyncio.sleep(seconds)
        return {"type": "http.disconnect"}

    async def send(_: Any) -> None:
        pass

    start = time.monotonic()
    await application(scope, receive, send)
    return time.monotonic() - start


async def test_work_stops_when_the_client_leaves(large_store: Store) -> None:
    application = FhirApplication(FhirService(large_store, BASE), max_concurrent=1)
    body = batch(*slow_searches(5000))
    assert await leave_after(application, body, 0.1) < 5, "all of them take ten seconds"
    start = time.monotonic()
    await ask(application, "Patient/p1")
    assert time.monotonic() - start < 5, "the only worker is free again"


ENDLESS = "WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c) SELECT count(*) FROM c"


def test_a_single_endless_statement_stops_when_the_client_leaves(
    large_store: Store,
) -> None:
    budget = RequestBudget(RequestLimits(seconds=60))
    threading.Timer(0.05, budget.cancel).start()
    start = time.monotonic()
    with pytest.raises(RequestCancelled), use_budget(budget):  # noqa: SIM117
        with large_store.read_session() as session:
            session.connection.execute(ENDLESS).fetchone()
    assert time.monotonic() - start < 2
    assert large_store.search("Observation").total == 2500, (
        "the connection can be used again"
    )


async def test_nothing_more_is_written_for_a_client_that_left(
    large_store: Store,
) -> None:
    requests = []
    for number in range(3000):
        resource = {**VITAL_SIGN, "id": f"new{number}"}
        url = f"Observation/new{number}"
        requests.append(
            {"resource": resource, "request": {"method": "PUT", "url": url}}
        )
    bundle = {"resourceType": "Bundle", "type": "transaction", "entry": requests}
    with Overlay.over(large_store) as overlay:
        service = FhirService(overlay, BASE, Writer(overlay, WriteMode.APPLY))
        application = FhirApplication(service, max_concurrent=1)
        await leave_after(application, json.dumps(bundle).encode(), 0.05)
        await ask(application, "Patient/p1")
        assert overlay.added() == []


async def test_half_a_body_is_no_request(large_store: Store) -> None:
    with Overlay.over(large_store) as overlay:
        service = FhirService(overlay, BASE, Writer(overlay, WriteMode.APPLY))
        application = FhirApplication(service)
        handled: list[Any] = []
        service.handle = lambda *request: handled.append(request)  # type: ignore[assignment,method-assign]
        messages = [
            {
                "type": "http.request",
                "body": json.dumps(VITAL_SIGN).encode(),
                "more_body": True,
            },
            {"type": "http.disconnect"},
        ]

        async def receive() -> dict[str, Any]:
            return messages.pop(0)

        async def send(_: Any) -> None:
            pass

        scope = post_scope("/fhir/Observation")
        await application(scope, receive, send)
        assert handled == []
