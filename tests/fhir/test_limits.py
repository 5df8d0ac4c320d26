"""Every limit that decides something: a test fails when it is lowered, raised or removed."""

import asyncio
import json
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx2
import pytest
import stamina

from archqa.errors import CallerError, ServerUnavailable
from archqa.fhir import (
    FhirClient,
    FhirError,
    FhirService,
    Overlay,
    Page,
    Resolver,
    Store,
    build_schema_card,
    lookup,
    project_all,
    split_by_patient,
)
from archqa.fhir.client import smart
from archqa.fhir.index import schema
from archqa.fhir.index.blobs import compress_blobs, decompress_blob
from archqa.fhir.index.workers import worker_count_for
from archqa.fhir.server import application as http
from archqa.fhir.server.application import FhirApplication, serve
from archqa.fhir.values.urls import build_search_url, split_unescaped, unescape
from tests.fhir.invented import (
    Resource,
    build_store,
    codeable_concept,
    observation,
    patient,
    write_ndjson,
)
from tests.fhir.test_server import BASE, ask, client_of

MIB = 2**20


@pytest.fixture(autouse=True)
def no_pauses_between_attempts() -> Iterator[None]:
    """Without pauses, and with as many attempts as the client makes."""
    with stamina.set_testing(True, attempts=50, cap=True):
        yield


# Values with separators


@pytest.mark.parametrize("separator", ["|", ",", "$", "\\"])
def test_an_escaped_separator_does_not_divide_a_search_value(
    tmp_path: Path, separator: str
) -> None:
    code = f"A{separator}B"
    store = build_store(
        tmp_path,
        [
            observation("with", "p", codeable_concept(code)),
            observation("before", "p", codeable_concept("A")),
            observation("after", "p", codeable_concept("B")),
        ],
    )
    escaped = f"A\\{separator}B"
    with client_of(FhirService(store, BASE)) as client:
        for record in (store, client):
            page = record.search("Observation", {"code": escaped})
            assert [resource["id"] for resource in page.resources] == ["with"]
            everything = record.search_all("Observation", {"code": f"{escaped},absent"})
            assert [resource["id"] for resource in everything] == ["with"]


def test_splitting_and_unescaping_undo_escaping() -> None:
    assert split_unescaped(r"a\|b|c\\|d", "|") == [r"a\|b", r"c\\", "d"]
    assert unescape(r"a\|b\,c\$d\\e\f") == r"a|b,c$d\e\f"


@pytest.mark.parametrize("character", ["&", "=", "#", "+", "%", " ", "?", "é"])
def test_a_url_carries_every_character_of_a_value(ward_store: Store, character: str) -> None:
    value = f"x{character}y"
    url = build_search_url("Observation", [("code", value)])
    assert ward_store.search(url).query == url
    assert client_of(FhirService(ward_store, BASE)).search("Observation", {"code": value})
    assert not any(sign in url.partition("=")[2] for sign in "&=# +?é")


# The client


def client_with(answer: Any, **options: Any) -> FhirClient:
    transport = httpx2.MockTransport(answer)
    return FhirClient("http://far.example/fhir", transport=transport, **options)


EMPTY_BUNDLE = {"resourceType": "Bundle", "type": "searchset", "total": 0}


@pytest.mark.parametrize(
    ("status", "attempts"),
    [
        (408, 4),
        (429, 4),
        (500, 4),
        (502, 4),
        (503, 4),
        (504, 4),
        (400, 1),
        (404, 1),
        (409, 1),
        (422, 1),
        (501, 1),
    ],
)
def test_a_transient_status_is_tried_four_times_and_any_other_once(
    status: int, attempts: int
) -> None:
    requests: list[httpx2.Request] = []

    def answer(request: httpx2.Request) -> httpx2.Response:
        requests.append(request)
        return httpx2.Response(status)

    with pytest.raises((FhirError, ServerUnavailable)):
        client_with(answer).search("Patient")
    assert len(requests) == attempts


def test_a_request_may_take_a_minute() -> None:
    timeouts: list[dict[str, float]] = []

    def answer(request: httpx2.Request) -> httpx2.Response:
        timeouts.append(request.extensions["timeout"])
        return httpx2.Response(200, json=EMPTY_BUNDLE)

    client_with(answer).search("Patient")
    assert set(timeouts[0].values()) == {60.0}


class EndlessReply(httpx2.SyncByteStream):
    """The same MiB for ever; `sent` counts how often it was read."""

    def __init__(self) -> None:
        self.sent = 0

    def __iter__(self) -> Iterator[bytes]:
        part = b" " * MIB
        while True:
            self.sent += 1
            yield part


def test_the_client_reads_256_mib_of_a_reply_and_no_more() -> None:
    stream = EndlessReply()
    client = client_with(lambda request: httpx2.Response(200, stream=stream))
    with pytest.raises(FhirError, match="too long"):
        client.search("Patient")
    assert stream.sent == 257


def test_the_client_reads_ten_thousand_next_pages_and_no_more(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    queries: list[str] = []

    def search(self: FhirClient, query: str, params: object = None) -> Page:
        queries.append(query)
        return Page(query, next=f"http://far.example/fhir?page={len(queries)}")

    monkeypatch.setattr(FhirClient, "search", search)
    with pytest.raises(FhirError, match="never end"):
        list(FhirClient("http://far.example/fhir").search_all("Patient"))
    assert len(queries) == 10_001


def test_the_client_counts_codes_in_pages_of_a_thousand() -> None:
    urls: list[str] = []

    def answer(request: httpx2.Request) -> httpx2.Response:
        urls.append(str(request.url))
        return httpx2.Response(200, json=EMPTY_BUNDLE)

    client_with(answer).codes("Observation", "p1")
    assert urls == ["http://far.example/fhir/Observation?_count=1000&patient=p1"]


@pytest.mark.parametrize(("lifetime", "lasts"), [({"expires_in": 100}, 70), ({}, 270)])
def test_a_token_is_renewed_half_a_minute_before_its_end(
    monkeypatch: pytest.MonkeyPatch, lifetime: dict[str, int], lasts: int
) -> None:
    clock = [1000.0]
    monkeypatch.setattr(smart.time, "monotonic", lambda: clock[0])
    renewals: list[float] = []

    def answer(request: httpx2.Request) -> httpx2.Response:
        renewals.append(clock[0])
        return httpx2.Response(200, json={"access_token": "fresh", **lifetime})

    token = smart.ClientCredentials("me", "secret", token_url="http://far.example/token")
    with httpx2.Client(transport=httpx2.MockTransport(answer)) as client:
        for moment in (1000.0, 999.0 + lasts, 1000.0 + lasts):
            clock[0] = moment
            token.token(client)
    assert renewals == [1000.0, 1000.0 + lasts]


def test_a_client_shows_five_diagnoses_of_600_characters() -> None:
    issues = [{"diagnostics": f"{number}{'x' * 700}"} for number in range(9)]
    client = client_with(lambda request: httpx2.Response(400, json={"issue": issues}))
    with pytest.raises(FhirError) as caught:
        client.search("Patient")
    assert [len(text) for text in caught.value.diagnostics] == [600] * 5


# The server


async def test_a_request_body_may_have_16_mib(ward_store: Store) -> None:
    application = FhirApplication(FhirService(ward_store, BASE))
    largest = b" " * (16 * MIB)
    assert (await ask(application, "POST", "/fhir/Observation", largest))[0] == 403
    assert (await ask(application, "POST", "/fhir/Observation", largest + b" "))[0] == 413


def test_the_server_gives_up_a_search_after_30_seconds(ward_store: Store) -> None:
    FhirApplication(FhirService(ward_store, BASE))
    assert ward_store.time_limit == 30.0


async def test_the_server_runs_four_requests_at_once(ward_store: Store) -> None:
    service = FhirService(ward_store, BASE)
    handle = service.handle
    running, largest = 0, 0
    lock = threading.Lock()

    def slow(*request: Any) -> Any:
        nonlocal running, largest
        with lock:
            running += 1
            largest = max(largest, running)
        time.sleep(0.05)
        with lock:
            running -= 1
        return handle(*request)

    service.handle = slow  # type: ignore[method-assign]
    application = FhirApplication(service)
    await asyncio.gather(*(ask(application, "GET", "/fhir/Patient/p1") for _ in range(16)))
    assert largest == 4


async def test_a_request_waits_four_times_the_limit_of_a_search(ward_store: Store) -> None:
    service = FhirService(ward_store, BASE)
    release = threading.Event()
    service.handle = lambda *request: release.wait(20)  # type: ignore[method-assign,assignment,return-value]
    start = time.monotonic()
    status, _ = await ask(FhirApplication(service, seconds=0.1), "GET", "/fhir/Patient/p1")
    release.set()
    assert status == 503
    assert time.monotonic() - start >= 0.39


def test_uvicorn_is_started_quietly_on_loopback(
    ward_store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    uvicorn = pytest.importorskip("uvicorn")
    options: dict[str, Any] = {}
    monkeypatch.setattr(uvicorn, "run", lambda application, **named: options.update(named))
    serve(FhirService(ward_store, BASE))
    assert options == {
        "host": "127.0.0.1",
        "port": 8080,
        "log_level": "warning",
        "access_log": False,
        "limit_concurrency": 256,
        "lifespan": "off",
    }


def test_the_body_limit_of_the_server_is_its_default(ward_store: Store) -> None:
    with pytest.raises(CallerError):
        serve(FhirService(ward_store, BASE), host="192.0.2.1")
    assert http.is_loopback("127.255.0.1")


# Searching


@pytest.fixture(scope="module")
def large_store(tmp_path_factory: pytest.TempPathFactory) -> Store:
    observations = [observation(f"o{number}", "p1") for number in range(2500)]
    return build_store(tmp_path_factory.mktemp("large"), [patient("p1"), *observations])


def test_everything_comes_in_pages_of_a_thousand(large_store: Store) -> None:
    assert len(large_store.everything_page("p1").entries) == 1000
    bundle = FhirService(large_store, BASE).get("Patient/p1/$everything").json()
    assert len(bundle["entry"]) == 1000
    assert len(list(large_store.everything("p1"))) == 2501


def test_all_pages_are_read_a_thousand_matches_at_a_time(
    large_store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    sizes: list[int] = []
    search = Store.search

    def counted(self: Store, query: str, params: Any = None) -> Page:
        page = search(self, query, params)
        sizes.append(len(page.entries))
        return page

    monkeypatch.setattr(Store, "search", counted)
    assert len(list(large_store.search_all("Observation"))) == 2500
    assert sizes == [1000, 1000, 500]


def test_a_parameter_takes_two_thousand_values(large_store: Store) -> None:
    def total(number: int) -> int | None:
        ids = ",".join(f"o{position}" for position in range(number))
        return large_store.search("Observation", {"_id": ids, "_count": "0"}).total

    assert total(2000) == 2000
    with pytest.raises(FhirError, match="more than 2000 values"):
        total(2001)


def test_a_search_takes_two_hundred_thousand_characters(ward_store: Store) -> None:
    query = "Patient?_id=p1&name=Ann,"
    longest = query + "," * (200_000 - len(query))
    assert ward_store.search(longest).total == 1
    with pytest.raises(FhirError, match="too long") as caught:
        ward_store.search(longest + ",")
    assert caught.value.status == 414


def test_ten_thousand_resources_are_included_and_the_rest_is_announced(tmp_path: Path) -> None:
    observations = [observation(f"o{number}", "p1") for number in range(10_001)]
    store = build_store(tmp_path, [patient("p1"), patient("p2"), *observations])
    page = store.search("Patient?_id=p1&_revinclude=Observation:patient")
    assert len(page.included) == 10_000
    assert any("10000" in notice for notice in page.notices)
    store.load([write_ndjson(tmp_path / "moved.ndjson", [observation("o0", "p2")])])
    page = store.search("Patient?_id=p1&_revinclude=Observation:patient")
    assert (len(page.included), page.notices) == (10_000, [])


def test_an_iterated_include_goes_six_steps(tmp_path: Path) -> None:
    def part_of(number: int) -> Resource:
        whole = {"partOf": {"reference": f"Location/w{number + 1}"}}
        return {"resourceType": "Location", "id": f"w{number}", **whole}

    store = build_store(tmp_path, [part_of(number) for number in range(10)])
    page = store.search("Location?_id=w0&_include:iterate=Location:partof")
    assert [resource["id"] for resource in page.included] == [f"w{n}" for n in range(1, 7)]


def test_a_date_without_a_zone_reaches_the_farthest_clocks(tmp_path: Path) -> None:
    earliest = observation("east", "p", when="2130-01-02T13:59:00+14:00")
    latest = observation("west", "p", when="2130-01-01T00:01:00-14:00")
    store = build_store(tmp_path, [earliest, latest], "hapi")
    for date, name in (("2130-01-01T23:59", "east"), ("2130-01-01T14:01", "west")):
        page = store.search("Observation", {"date": f"{date}Z"})
        assert [resource["id"] for resource in page.resources] == [name]


def test_five_mistakes_of_a_search_are_shown(ward_store: Store) -> None:
    with pytest.raises(FhirError) as caught:
        ward_store.search("Observation?" + "&".join(f"colour{n}=red" for n in range(9)))
    assert len(caught.value.diagnostics) == 5


def test_three_near_names_are_suggested(ward_store: Store) -> None:
    with pytest.raises(FhirError, match="Did you mean Substance") as caught:
        ward_store.search("SubstancePro")
    assert str(caught.value).count(" or ") == 2
    with pytest.raises(FhirError) as caught:
        ward_store.search("Pat")
    assert "Did you mean" not in str(caught.value)


# Files


def test_a_reader_waits_30_seconds_for_a_writer(ward_store: Store) -> None:
    for write in (True, False):
        connection = schema.open_connection(ward_store.path, write=write)
        assert connection.execute("PRAGMA busy_timeout").fetchone() == (30_000,)
        connection.close()


def test_a_file_has_the_marks_by_which_old_and_new_files_are_told_apart(ward_store: Store) -> None:
    connection = ward_store.session().connection
    assert connection.execute("PRAGMA application_id").fetchone() == (0x61464852,)
    assert connection.execute("PRAGMA user_version").fetchone() == (1,)


def test_a_resource_compressed_by_an_earlier_version_is_read() -> None:
    dictionary = b'{"resourceType": "Observation", "id": "' + b"x" * 5000
    blob = bytes.fromhex("ab266eb82edf50a91600")
    assert decompress_blob(dictionary, blob) == '{"resourceType": "Observation", "id": "o1"}'


def test_a_line_of_twenty_mib_is_read(tmp_path: Path) -> None:
    path = write_ndjson(tmp_path / "long.ndjson", [observation("o1", "p", note="x" * 20 * MIB)])
    report = Store.open(tmp_path / "record.db", create=True).load([path])
    assert (report.added, report.bad) == (1, 0)


def test_additions_of_an_overlay_never_share_a_number_with_later_loads(tmp_path: Path) -> None:
    store = build_store(tmp_path, [patient("p1"), observation("o1", "p1")])
    with Overlay.over(store) as overlay:
        created = overlay.create(observation("x", "p1"))
        store.load([write_ndjson(tmp_path / "more.ndjson", [observation("o2", "p1")])])
        ids = [resource["id"] for resource in overlay.search("Observation").resources]
        assert ids == ["o1", "o2", created["id"]]


def test_two_hundred_resources_are_worth_a_dictionary_of_8_kib() -> None:
    texts = [f"{number} {'x' * 900}".encode() for number in range(200)]
    assert compress_blobs(texts[1:]).dictionary == b""
    assert len(compress_blobs(texts).dictionary) == 8192


def test_four_mib_of_files_are_worth_up_to_four_workers() -> None:
    assert worker_count_for(4 * MIB - 1) == 0
    assert worker_count_for(4 * MIB) in {0, 2, 3, 4}


def test_two_hundred_mistakes_are_kept_and_all_are_counted(tmp_path: Path) -> None:
    path = tmp_path / "bad.ndjson"
    path.write_text("[]\n" * 300)
    report = Store.open(tmp_path / "record.db", create=True).load([path])
    assert (report.bad, len(report.mistakes)) == (300, 200)


@pytest.mark.parametrize("shards", [0, 1025])
def test_a_record_is_split_into_1024_shards_at_most(
    ward_store: Store, tmp_path: Path, shards: int
) -> None:
    with pytest.raises(CallerError, match="Between 1 and 1024"):
        split_by_patient(ward_store, shards, tmp_path / "shards")


# Views


def test_a_lookup_gives_twenty_codes_and_near_ones_by_three_quarters(tmp_path: Path) -> None:
    codes = [codeable_concept(f"C{number}", f"Culture {number}") for number in range(25)]
    observations = [observation(f"o{n}", "p", code) for n, code in enumerate(codes)]
    store = build_store(tmp_path, [patient("p"), *observations])
    assert len(lookup(store, "culture")) == 20
    store = build_store(tmp_path / "near", [observation("o", "p", codeable_concept("1", "abcd"))])
    assert [hit.match for hit in lookup(store, "abcx")] == ["near"]
    assert lookup(store, "abxy") == []


def test_a_projection_shows_fifty_rows_of_32_000_bytes_in_all() -> None:
    resources = [observation(f"o{number}", "p") for number in range(60)]
    assert len(project_all(resources).rows) == 50
    long = [observation(f"o{number}", "p", note="x" * 2000) for number in range(60)]
    assert 30_000 < len(project_all(long).text) < 32_050


def test_a_card_looks_at_forty_resources_and_shows_three_examples(tmp_path: Path) -> None:
    observations = [
        observation(f"o{number}", "p", codeable_concept(f"C{number}", f"Test {number}"))
        for number in range(39)
    ]
    last_seen = observation("o39", "p", codeable_concept("C39", "Test 39"), note="x")
    unseen = observation("o40", "p", codeable_concept("C40", "Test 40"), comment="x")
    store = build_store(tmp_path, [*observations, last_seen, unseen])
    (card,) = build_schema_card(store).types
    assert "note" in card.paths
    assert "comment" not in card.paths
    (labs,) = (system for system in card.systems if system.element == "code")
    assert (labs.codes, len(labs.examples)) == (41, 3)


def test_a_card_shows_forty_paths(tmp_path: Path) -> None:
    members = {f"member{number}": "x" for number in range(60)}
    store = build_store(tmp_path, [observation("o", "p", **members)])
    assert len(build_schema_card(store).types[0].paths) == 40


def test_a_resolver_fetches_two_hundred_resources_in_one_search(large_store: Store) -> None:
    counts: list[int] = []

    class CountedRecord:
        def search_all(self, query: str, params: dict[str, str]) -> Iterator[Resource]:
            counts.append(len(params["_id"].split(",")))
            assert params["_count"] == "200"
            return large_store.search_all(query, params)

    members = [{"reference": f"Observation/o{number}"} for number in range(450)]
    test = observation("test", "p1", hasMember=members)
    resolver = Resolver(CountedRecord())  # type: ignore[arg-type]
    assert len(resolver.members(test)) == 450
    assert counts == [200, 200, 50]


def test_an_expression_may_have_two_thousand_characters() -> None:
    pytest.importorskip("fhirpathpy")
    from archqa.fhir.views import fhirpath

    assert fhirpath.evaluate({"id": "x"}, "id".ljust(2000)) == ["x"]
    with pytest.raises(FhirError, match="more than 2000"):
        fhirpath.evaluate({"id": "x"}, "id".ljust(2001))


def test_a_locked_record_says_when_to_ask_again(
    ward_store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    def locked(*_: object) -> None:
        raise schema.RecordLocked(ward_store.path, [": another load is writing it."])

    monkeypatch.setattr(Store, "text", locked)
    reply = FhirService(ward_store, BASE).get("Patient/p1")
    assert (reply.status, reply.headers["retry-after"]) == (503, "5")
    assert json.loads(reply.body)["issue"][0]["code"] == "transient"
