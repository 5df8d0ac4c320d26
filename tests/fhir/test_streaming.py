"""A page of any size is sent in chunks: in little memory, and no longer than its client wants it."""

import asyncio
import json
import tracemalloc
from collections.abc import Callable, MutableMapping
from pathlib import Path
from typing import Any

import pytest

from archqa.fhir import FhirService, Overlay, Store
from archqa.fhir.request_budget import RequestLimits
from archqa.fhir.server.application import FhirApplication
from tests.fhir.invented import build_store, numbered_observations, observation, patient
from tests.fhir.serving import BASE

OBSERVATIONS = 2500
SMALL_PAGES = RequestLimits(page_size=100, resources=200)
Send = Callable[[Any], Any]


@pytest.fixture(scope="module")
def hapi_store(tmp_path_factory: pytest.TempPathFactory) -> Store:
    resources = [patient("p1"), *numbered_observations(OBSERVATIONS)]
    return build_store(tmp_path_factory.mktemp("stream"), resources, "hapi")


def application_of(record: Any, **options: Any) -> FhirApplication:
    return FhirApplication(FhirService(record, BASE), limits=SMALL_PAGES, **options)


async def ask(
    application: FhirApplication,
    url: str,
    method: str = "GET",
    body: bytes = b"",
    receive: Callable[[], Any] | None = None,
    send: Send | None = None,
) -> list[dict[str, Any]]:
    """Send one request; return the messages of the reply."""
    path, _, query = url.partition("?")
    headers = [(b"host", b"localhost:8080")]
    if method == "POST":
        is_form = path.endswith("_search")
        form = b"application/x-www-form-urlencoded"
        headers.append((b"content-type", form if is_form else b"application/fhir+json"))
    scope: dict[str, Any] = {
        "type": "http",
        "method": method,
        "path": path,
        "headers": headers,
    }
    scope["query_string"] = query.encode()
    messages: list[dict[str, Any]] = []

    async def receive_body() -> dict[str, Any]:
        return {"type": "http.request", "body": body}

    async def collect(message: MutableMapping[str, Any]) -> None:
        messages.append(dict(message))
        if send is not None:
            await send(message)

    await application(scope, receive or receive_body, collect)
    return messages


def text_of(messages: list[dict[str, Any]]) -> str:
    return b"".join(message.get("body", b"") for message in messages).decode()


def headers_of(messages: list[dict[str, Any]]) -> dict[bytes, bytes]:
    return dict(messages[0]["headers"])


def is_complete(messages: list[dict[str, Any]]) -> bool:
    return not messages[-1].get("more_body", False)


async def test_a_count_of_a_million_gives_every_match_in_chunks(
    hapi_store: Store,
) -> None:
    messages = await ask(application_of(hapi_store), "/fhir/Observation?_count=1000000")
    assert messages[0]["status"] == 200
    assert len(messages) > 4
    assert b"content-length" not in headers_of(messages)
    assert is_complete(messages)
    streamed = json.loads(text_of(messages))
    whole = FhirService(hapi_store, BASE).get("Observation?_count=1000000").json()
    assert streamed["entry"] == whole["entry"]
    assert streamed["total"] == len(streamed["entry"]) == OBSERVATIONS
    assert [link["relation"] for link in streamed["link"]] == ["self"]


async def test_a_streamed_search_by_post_is_sorted_and_summarised_as_any(
    hapi_store: Store,
) -> None:
    form = b"_count=1000000&_sort=-_id&_elements=status"
    messages = await ask(
        application_of(hapi_store), "/fhir/Observation/_search", "POST", form
    )
    resources = [entry["resource"] for entry in json.loads(text_of(messages))["entry"]]
    ids = [resource["id"] for resource in resources]
    assert ids == sorted(ids, reverse=True)
    assert len(ids) == OBSERVATIONS
    assert all("subject" not in resource for resource in resources)


async def test_the_link_of_a_streamed_page_leads_to_the_rest(hapi_store: Store) -> None:
    application = application_of(hapi_store)
    url = "/fhir/Observation?_count=1500"
    ids = []
    while url:
        bundle = json.loads(text_of(await ask(application, url)))
        ids += [entry["resource"]["id"] for entry in bundle["entry"]]
        links = {link["relation"]: link["url"] for link in bundle["link"]}
        url = links.get("next", "").removeprefix("http://localhost:8080")
    assert ids == [f"o{number}" for number in range(OBSERVATIONS)]


async def test_nothing_found_is_a_searchset_without_entries(hapi_store: Store) -> None:
    url = "/fhir/Observation?_count=1000000&code=absent"
    bundle = json.loads(text_of(await ask(application_of(hapi_store), url)))
    assert bundle["total"] == 0
    assert "entry" not in bundle


async def test_a_head_request_is_answered_without_a_chunk(hapi_store: Store) -> None:
    messages = await ask(
        application_of(hapi_store), "/fhir/Observation?_count=1000000", "HEAD"
    )
    assert messages[0]["status"] == 200
    assert len(messages) == 2
    assert text_of(messages) == ""


@pytest.mark.parametrize(("profile", "largest"), [("archqa", 5000), ("gcp", 1000)])
async def test_profiles_with_a_largest_page_keep_it(
    tmp_path: Path, profile: str, largest: int
) -> None:
    resources = [patient("p1"), *numbered_observations(5100)]
    store = build_store(tmp_path, resources, profile)
    application = FhirApplication(FhirService(store, BASE))
    messages = await ask(application, "/fhir/Observation?_count=1000000")
    assert b"content-length" in headers_of(messages)
    bundle = json.loads(text_of(messages))
    modes = [entry["search"]["mode"] for entry in bundle["entry"]]
    assert modes.count("match") == largest
    self_url = bundle["link"][0]["url"]
    assert f"_count={largest}" in self_url
    assert [link["relation"] for link in bundle["link"]] == ["self", "next"]
    if profile == "archqa":
        notice = bundle["entry"][-1]["resource"]["issue"][0]["diagnostics"]
        assert notice == "_count is at most 5000."


@pytest.mark.parametrize(
    ("profile", "largest"), [("archqa", 5000), ("gcp", 1000), ("hapi", 10_000)]
)
def test_everything_says_how_many_resources_a_page_has_at_most(
    hapi_store: Store, profile: str, largest: int
) -> None:
    service = FhirService(hapi_store.as_profile(profile), BASE)
    for count, notices in (
        (largest, []),
        (1_000_000, [f"_count is at most {largest}."]),
    ):
        entries = service.get(f"Patient/p1/$everything?_count={count}").json()["entry"]
        outcomes = [
            entry["resource"]
            for entry in entries
            if entry["search"]["mode"] == "outcome"
        ]
        texts = [
            issue["diagnostics"] for outcome in outcomes for issue in outcome["issue"]
        ]
        assert texts == notices


async def test_included_resources_and_batches_keep_the_limits(
    hapi_store: Store,
) -> None:
    application = application_of(hapi_store)
    url = "Observation?_count=1000000&_include=Observation:patient"
    messages = await ask(application, f"/fhir/{url}")
    assert b"content-length" in headers_of(messages)
    entries = json.loads(text_of(messages))["entry"]
    assert [entry["search"]["mode"] for entry in entries].count("match") == 100
    request = {"request": {"method": "GET", "url": "Observation?_count=1000000"}}
    batch = {"resourceType": "Bundle", "type": "batch", "entry": [request]}
    messages = await ask(application, "/fhir", "POST", json.dumps(batch).encode())
    assert b"content-length" in headers_of(messages)
    (answer,) = json.loads(text_of(messages))["entry"]
    assert len(answer["resource"]["entry"]) == 100


async def test_a_streamed_page_has_what_was_written_in_the_overlay(
    hapi_store: Store,
) -> None:
    with Overlay.over(hapi_store) as overlay:
        created = overlay.create(observation("x", "p1"))
        messages = await ask(
            application_of(overlay), "/fhir/Observation?_count=1000000"
        )
        entries = json.loads(text_of(messages))["entry"]
        assert entries[-1]["resource"]["id"] == created["id"]
        assert len(entries) == OBSERVATIONS + 1


async def test_a_client_that_leaves_gets_no_further_chunk(hapi_store: Store) -> None:
    has_left = asyncio.Event()
    requests = [{"type": "http.request", "body": b""}]

    async def receive() -> dict[str, Any]:
        if requests:
            return requests.pop()
        await has_left.wait()
        return {"type": "http.disconnect"}

    async def leave(message: dict[str, Any]) -> None:
        if message.get("body"):
            has_left.set()

    url = "/fhir/Observation?_count=1000000"
    messages = await ask(application_of(hapi_store), url, receive=receive, send=leave)
    assert len(messages) <= 4
    assert not is_complete(messages)


async def test_a_client_that_takes_nothing_is_given_up(hapi_store: Store) -> None:
    async def stall(message: dict[str, Any]) -> None:
        if message.get("body"):
            await asyncio.sleep(60)

    url = "/fhir/Observation?_count=1000000"
    application = application_of(hapi_store, seconds=0.3)
    messages = await asyncio.wait_for(ask(application, url, send=stall), 10)
    assert len(messages) == 2
    assert not is_complete(messages)


async def test_slow_clients_take_no_turn_from_others(hapi_store: Store) -> None:
    is_read = asyncio.Event()

    async def stall(message: dict[str, Any]) -> None:
        if message.get("body"):
            await is_read.wait()

    application = application_of(hapi_store, max_concurrent=1, seconds=10)
    url = "/fhir/Observation?_count=1000000"
    slow = asyncio.ensure_future(ask(application, url, send=stall))
    await asyncio.sleep(0.3)
    messages = await asyncio.wait_for(ask(application, "/fhir/Patient/p1"), 5)
    assert messages[0]["status"] == 200
    is_read.set()
    assert is_complete(await slow)


async def test_the_time_limit_is_one_of_a_chunk_not_of_the_reply(
    hapi_store: Store,
) -> None:
    async def read_slowly(message: dict[str, Any]) -> None:
        await asyncio.sleep(0.3)

    application = application_of(hapi_store, seconds=1.0)
    url = "/fhir/Observation?_count=1000000"
    messages = await ask(application, url, send=read_slowly)
    assert is_complete(messages)
    assert len(json.loads(text_of(messages))["entry"]) == OBSERVATIONS


async def test_a_reply_that_fails_half_way_has_no_end_and_no_text_in_the_log(
    hapi_store: Store, caplog: pytest.LogCaptureFixture
) -> None:
    overlay = Overlay.over(hapi_store)
    for number in range(600):
        overlay.put(f'{{"resourceType": "Basic", "id": "b{number}"}}', basic(number))

    async def reset(message: dict[str, Any]) -> None:
        if message.get("body"):
            overlay.reset()

    messages = await ask(
        application_of(overlay), "/fhir/Basic?_count=1000000", send=reset
    )
    assert not is_complete(messages)
    assert "ended early" in caplog.text
    assert "b5" not in caplog.text


def basic(number: int) -> dict[str, Any]:
    return {"resourceType": "Basic", "id": f"b{number}"}


async def test_a_page_of_four_times_the_size_needs_no_more_memory(
    hapi_store: Store,
) -> None:
    application = application_of(hapi_store)
    await peak_of(application, OBSERVATIONS)
    small = await peak_of(application, OBSERVATIONS // 4)
    large = await peak_of(application, OBSERVATIONS)
    assert large < 1.5 * small


async def peak_of(application: FhirApplication, count: int) -> int:
    """The largest size of memory while a page is sent to a client that keeps nothing of it."""
    tracemalloc.start()

    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": b""}

    async def drop(message: MutableMapping[str, Any]) -> None:
        pass

    scope = {
        "type": "http",
        "method": "GET",
        "path": "/fhir/Observation",
        "query_string": f"_count={count}".encode(),
        "headers": [(b"host", b"localhost:8080")],
    }
    await application(scope, receive, drop)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return peak
