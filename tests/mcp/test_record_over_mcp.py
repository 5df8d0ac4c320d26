"""A record over the Model Context Protocol, asked by the SDK's own client."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, NamedTuple

import httpx2
import pytest

from archqa import fhir
from archqa.asking.patient import find_patient
from archqa.errors import CallerError
from archqa.mcp import CallLimits, RecordTools, ServedRecord
from archqa.safety.local_server import build_server as build_http_server
from archqa.safety.local_server import listen
from archqa.settings import load_settings
from tests.briefing.invented_chart import NOW, chart, note
from tests.cli.test_commands import archqa
from tests.fhir.invented import encounter, location, observation, patient
from tests.fhir.serving import BASE

mcp = pytest.importorskip("mcp", reason="needs the extra mcp")

ROOT = Path(__file__).resolve().parents[2]
TOOLS = {
    "search_notes",
    "search_resources",
    "get_resource",
    "query_record",
    "ask",
    "brief",
    "create_resource",
}
OTHERS_NOTE = {**note("n9", "Potassium of the other patient.", "2030-05-02T10:00:00Z")}
OTHERS_NOTE["subject"] = {"reference": "Patient/p2"}
GLUCOSE = {
    "resourceType": "Observation",
    "status": "final",
    "category": [{"coding": [{"system": "s", "code": "laboratory"}]}],
    "code": {"coding": [{"system": "s", "code": "GLU"}], "text": "Glucose"},
    "subject": {"reference": "Patient/p1"},
    "effectiveDateTime": "2030-05-30T10:00:00+00:00",
    "valueQuantity": {"value": 5.5, "unit": "mmol/L"},
}


class Reply(NamedTuple):
    content: dict[str, Any]
    error: str


class Session(NamedTuple):
    client: Any

    async def call(self, tool: str, **arguments: Any) -> dict[str, Any]:
        reply = await self.reply(tool, **arguments)
        assert not reply.error
        return reply.content

    async def reply(self, tool: str, **arguments: Any) -> Reply:
        result = await self.client.call_tool(tool, arguments)
        text = " ".join(getattr(part, "text", "") for part in result.content)
        return Reply(result.structured_content or {}, text if result.is_error else "")


@pytest.fixture(scope="module")
def record(tmp_path_factory: pytest.TempPathFactory) -> str:
    of_ward = {"location": [{"location": {"reference": "Location/w1"}}]}
    return chart(
        tmp_path_factory.mktemp("chart"),
        patient("p2", "Moss", ["Bo"]),
        observation("o99", "p2", when="2030-05-01"),
        encounter("e98", "p1", "2030-04-01", "2030-04-02", **of_ward),
        encounter("e99", "p2", "2030-04-01", "2030-04-02", **of_ward),
        location("w1", "Ward"),
        {
            "resourceType": "Group",
            "id": "g1",
            "type": "person",
            "actual": True,
            "member": [
                {"entity": {"reference": f"Patient/{name}"}} for name in ("p1", "p2")
            ],
        },
        OTHERS_NOTE,
    )


@asynccontextmanager
async def session(
    record: str,
    limits: CallLimits = CallLimits(),  # noqa: B008  # A named tuple is immutable.
    *,
    only: str | None = None,
    writes: bool = False,
    change: Callable[[RecordTools], RecordTools] = lambda tools: tools,
) -> AsyncIterator[Session]:
    with fhir.Store.open(record) as store:
        overlay = fhir.Overlay.over(store) if writes else None
        writer = fhir.Writer(overlay, fhir.WriteMode.APPLY) if overlay else None
        match = find_patient(store, only) if only else None
        served = ServedRecord(record, store, limits, match, overlay)
        server = _server(change(RecordTools(served, load_settings(), writer)), limits)
        async with mcp.Client(server) as client:
            yield Session(client)


def _server(tools: RecordTools, limits: CallLimits) -> Any:
    from archqa.mcp import build_server

    return build_server(tools, limits)


async def test_every_tool_says_what_it_returns_and_whether_it_writes(
    record: str,
) -> None:
    async with session(record) as opened:
        tools = (await opened.client.list_tools()).tools
    assert {tool.name for tool in tools} == TOOLS
    assert all(tool.output_schema and tool.description for tool in tools)
    writing = [tool.name for tool in tools if not tool.annotations.read_only_hint]
    assert writing == ["create_resource"]


async def test_notes_are_found_with_ids_that_answers_cite(record: str) -> None:
    async with session(record) as opened:
        found = await opened.call(
            "search_notes", query="recheck potassium", patient="Ann Stone"
        )
        late = await opened.call(
            "search_notes", query="RTC", patient="p1", until="2030-03"
        )
    first = found["sentences"][0]
    assert (first["id"], first["text"]) == (
        "DocumentReference/n1#3",
        "1. Recheck potassium in 2 weeks.",
    )
    assert {one["source"] for one in found["sentences"]} <= {
        f"DocumentReference/n{number}" for number in (1, 2, 3)
    }
    assert "DocumentReference/n1" not in {one["source"] for one in late["sentences"]}


async def test_a_search_has_ids_total_and_the_next_page(record: str) -> None:
    async with session(record, CallLimits(rows=3)) as opened:
        first = await opened.call(
            "search_resources", query="Condition?patient=p1&_count=100"
        )
        second = await opened.call("search_resources", query=first["next"])
    assert len(first["ids"]) == len(first["resources"]) == 3
    assert first["total"] == 7
    assert not set(first["ids"]) & set(second["ids"])


async def test_a_mistake_in_a_search_is_told(record: str) -> None:
    async with session(record) as opened:
        reply = await opened.reply("search_resources", query="Condition?patint=p1")
    assert "patint" in reply.error


async def test_a_resource_is_read_whole_or_is_not_there(record: str) -> None:
    async with session(record) as opened:
        found = await opened.call("get_resource", reference="Condition/c2")
        absent = await opened.reply("get_resource", reference="Condition/c200")
    assert found["resource"]["onsetDateTime"] == "2020-04-02"
    assert "There is no such resource" in absent.error


async def test_a_question_becomes_a_query_with_rows_and_evidence(record: str) -> None:
    async with session(record) as opened:
        understood = await opened.call(
            "query_record",
            question="What allergies does she have?",
            patient="p1",
            now=NOW,
        )
        unread = await opened.call(
            "query_record",
            question="How sesquipedalian is her gait?",
            patient="p1",
            now=NOW,
        )
    (query,) = understood["queries"]
    assert (understood["status"], query["query"]["what"]) == ("understood", "allergy")
    assert query["rows"][0]["evidence"] == ["AllergyIntolerance/a1"]
    assert query["rows"][0]["chosen"] is True
    assert unread["status"] == "not_understood"
    assert "sesquipedalian" in " ".join(unread["not_understood"])


async def test_an_answer_and_a_brief_are_those_of_the_commands(record: str) -> None:
    question = "Is she on lisinopril?"
    async with session(record) as opened:
        answer = await opened.call("ask", question=question, patient="p1", now=NOW)
        summary = await opened.call(
            "brief", patient="p1", now=NOW, sections=["allergies"]
        )
    place = ("--patient", "p1", "--record", record, "--now", NOW, "--json")
    asked = json.loads(archqa("ask", question, *place).stdout)
    briefed = json.loads(archqa("brief", *place, "--sections", "allergies").stdout)
    assert answer == asked
    assert summary == briefed


@pytest.mark.parametrize("tool", ["search_notes", "query_record", "ask", "brief"])
async def test_an_unknown_patient_is_an_error_of_the_call(
    record: str, tool: str
) -> None:
    arguments = {"search_notes": {"query": "x"}, "brief": {}}.get(
        tool, {"question": "x"}
    )
    async with session(record) as opened:
        unknown = await opened.reply(tool, patient="Nobody", **arguments)
        unnamed = await opened.reply(tool, **arguments)
    assert "no patient of this id" in unknown.error
    assert "Name the patient" in unnamed.error


async def test_a_write_is_refused_unless_it_was_allowed(record: str) -> None:
    query = "Observation?patient=p1&code=GLU&date=2030-05-30"
    async with session(record) as opened:
        refused = await opened.reply("create_resource", resource=GLUCOSE)
    async with session(record, writes=True) as opened:
        written = await opened.call("create_resource", resource=GLUCOSE)
        found = await opened.call("search_resources", query=query)
        answer = await opened.call(
            "ask", question="Last glucose?", patient="p1", now=NOW
        )
        invalid = await opened.reply(
            "create_resource", resource={"resourceType": "Observation"}
        )
    async with session(record) as opened:
        later = await opened.call("search_resources", query=query)
    assert "read-only" in refused.error
    assert "--allow-writes" in refused.error
    assert found["ids"] == [written["id"]]
    assert "not read for this" in " ".join(answer["remarks"])
    assert "status: is required" in invalid.error
    assert later["ids"] == []


@pytest.mark.parametrize(
    ("tool", "arguments"),
    [
        ("search_notes", {"query": "potassium", "patient": "p2"}),
        ("query_record", {"question": "last glucose?", "patient": "Moss, Bo"}),
        ("ask", {"question": "Last glucose?", "patient": "MRN-p2"}),
        ("brief", {"patient": "Patient/p2"}),
        ("get_resource", {"reference": "Patient/p2"}),
        ("get_resource", {"reference": "Observation/o99"}),
        ("get_resource", {"reference": "DocumentReference/n9"}),
        ("search_resources", {"query": "Patient/p2/Observation"}),
        ("search_resources", {"query": "Location?_has:Encounter:location:patient=p2"}),
        ("search_resources", {"query": "Encounter?location.name=Ward"}),
        ("search_resources", {"query": "Location?_revinclude=Encounter:location"}),
        ("search_resources", {"query": "ValueSet"}),
        ("get_resource", {"reference": "Group/g1"}),
        ("search_resources", {"query": "Group"}),
        ("search_resources", {"query": "https://example.org/fhir/Patient"}),
    ],
)
async def test_one_patient_is_served_and_nothing_is_told_of_others(
    record: str, tool: str, arguments: dict[str, Any]
) -> None:
    async with session(record, only="p1") as opened:
        reply = await opened.reply(tool, **arguments)
    assert reply.error
    assert not any(
        word in reply.error for word in ("Moss", "Bo ", "Potassium of", "o99", "e99")
    )


@pytest.mark.parametrize(
    "query",
    [
        "Patient",
        "Patient?name=Moss",
        "Patient?_id=p2",
        "Patient?_id=p2,p1",
        "Observation?patient=p2",
        "Observation?subject=Patient/p2",
        "Observation?_id=o99",
        "Encounter?_include=Encounter:location",
        "Encounter?_elements=status",
        "Location?name=Ward",
        "DocumentReference?_total=accurate",
    ],
)
async def test_searches_find_the_served_patients_own(record: str, query: str) -> None:
    async with session(record, only="p1") as opened:
        found = await opened.call("search_resources", query=query)
    text = json.dumps(found["resources"] + found["included"])
    assert not any(word in text for word in ("p2", "Moss", "o99", "e99", "n9"))
    assert found["total"] in (None, len(found["ids"]))
    if query.startswith("Encounter"):
        assert "Encounter/e98" in found["ids"]


async def test_the_served_patient_need_not_be_named(record: str) -> None:
    async with session(record, only="MRN-p1") as opened:
        answer = await opened.call(
            "ask", question="Is she allergic to penicillin?", now=NOW
        )
        ward = await opened.call("get_resource", reference="Location/w1")
        own = await opened.call("get_resource", reference="Encounter/e98")
        assert "p1" in str(opened.client.instructions)
    assert answer["patient"] == {"id": "p1", "name": "Ann Stone"}
    assert answer["lines"][0]["citations"] == ["AllergyIntolerance/a1"]
    assert (ward["id"], own["id"]) == ("Location/w1", "Encounter/e98")


async def test_a_write_about_another_than_the_served_patient_is_refused(
    record: str,
) -> None:
    others = {**GLUCOSE, "subject": {"reference": "Patient/p2"}}
    mentioned = {**GLUCOSE, "focus": [{"reference": "Patient/p2"}]}
    async with session(record, only="p1", writes=True) as opened:
        replies = [
            await opened.reply("create_resource", resource=one)
            for one in (others, mentioned)
        ]
        own = await opened.reply("create_resource", resource=GLUCOSE)
    assert all("not about the patient served" in reply.error for reply in replies)
    assert not own.error


async def test_a_reply_has_no_more_bytes_than_allowed(record: str) -> None:
    limits = CallLimits(bytes=1024)
    async with session(record, limits) as opened:
        page = await opened.call("search_resources", query="Condition?patient=p1")
        notes = await opened.call(
            "search_notes", query="potassium", patient="p1", limit=50
        )
        brief = await opened.reply("brief", patient="p1", now=NOW)
    assert 0 < len(page["ids"]) < 7
    assert "reply is full" in " ".join(page["remarks"])
    assert page["next"] is None
    assert "reply is full" in " ".join(notes["remarks"])
    assert "more than the 1024" in brief.error


async def test_a_call_ends_after_its_seconds(record: str) -> None:
    class Slow(RecordTools):
        def get_resource(self, reference: str) -> Any:
            time.sleep(3.0)
            return super().get_resource(reference)

    begin = time.monotonic()
    async with session(
        record, CallLimits(seconds=0.2), change=lambda tools: Slow(*tools)
    ) as opened:
        reply = await opened.reply("get_resource", reference="Patient/p1")
        assert time.monotonic() - begin < 2.5
    assert "longer than 0.2 seconds" in reply.error


async def test_an_unexpected_failure_tells_and_logs_nothing_of_the_record(
    record: str, caplog: pytest.LogCaptureFixture
) -> None:
    class Broken(RecordTools):
        def get_resource(self, reference: str) -> Any:
            raise RuntimeError("Ann Stone has asthma")

    async with session(record, change=lambda tools: Broken(*tools)) as opened:
        reply = await opened.reply("get_resource", reference="Patient/p1")
    assert "archqa failed" in reply.error
    assert "asthma" not in reply.error + caplog.text
    assert "RuntimeError" in caplog.text


async def test_the_command_speaks_the_protocol_by_stdio(
    record: str, tmp_path: Path
) -> None:
    from mcp.client.stdio import StdioServerParameters, stdio_client

    arguments = ["-m", "archqa", "mcp", "--record", record, "--patient", "p1"]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    parameters = StdioServerParameters(
        command=sys.executable, args=arguments, env=environment, cwd=str(tmp_path)
    )
    with (tmp_path / "stderr").open("w+") as stderr:
        async with mcp.Client(stdio_client(parameters, errlog=stderr)) as client:
            found = await Session(client).call("get_resource", reference="Patient/p1")
            refused = await Session(client).reply("create_resource", resource=GLUCOSE)
        stderr.seek(0)
        said = stderr.read()
    assert found["resource"]["id"] == "p1"
    assert "read-only" in refused.error
    assert "the client that started this command gets record text" in said
    assert "Stone" not in said


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_the_command_while_it_waits_for_input(
    record: str, tmp_path: Path, number: signal.Signals
) -> None:
    arguments = [sys.executable, "-m", "archqa", "mcp", "--record", record]
    with subprocess.Popen(
        arguments,
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stderr is not None
        assert process.stdin is not None
        while "started this command" not in process.stderr.readline():
            assert process.poll() is None
        process.send_signal(number)
        assert process.wait(timeout=20) == 0
        assert "the server has stopped" in process.stderr.read()


async def test_over_http_a_client_needs_the_token(record: str) -> None:
    import asyncio

    from mcp.client.streamable_http import streamable_http_client

    from archqa.mcp import http_application

    limits = CallLimits()
    with fhir.Store.open(record) as store:
        tools = RecordTools(ServedRecord(record, store, limits), load_settings())
        app = http_application(_server(tools, limits), token="secret", on_loopback=True)
        listening = listen("127.0.0.1", 0)
        url = f"http://127.0.0.1:{listening.getsockname()[1]}/mcp"
        http_server = build_http_server(app, lifespan=True)
        serving = asyncio.create_task(http_server.serve(sockets=[listening]))
        try:
            async with httpx2.AsyncClient() as http:
                refused = [
                    await http.post(url, json={}),
                    await http.post(
                        url, json={}, headers={"authorization": "Bearer other"}
                    ),
                    await http.get(f"{url}?token=secret"),
                    await http.post(
                        url,
                        json={},
                        headers={
                            "authorization": "Bearer secret",
                            "host": "evil.example",
                        },
                    ),
                ]
            header = {"authorization": "Bearer secret"}
            async with (
                httpx2.AsyncClient(headers=header) as http,
                mcp.Client(streamable_http_client(url, http_client=http)) as client,
            ):
                found = await Session(client).call(
                    "get_resource", reference="Patient/p1"
                )
        finally:
            http_server.should_exit = True
            await serving
    assert [reply.status_code for reply in refused] == [401, 401, 401, 421]
    assert not any("secret" in reply.text for reply in refused)
    assert found["resource"]["id"] == "p1"


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (("--patient", "nobody"), 2, "no patient"),
        (("--no-token",), 2, "--http"),
        (("--http", "--host", "0.0.0.0", "--no-token"), 2, "needs a token"),
        (("--audit", "log.jsonl"), 2, "--allow-writes"),
        (("--record", "/nowhere/record.db"), 3, "record"),
        (("--record", "http://127.0.0.1:9/fhir", "--allow-writes"), 2, "on a server"),
    ],
)
def test_a_wrong_call_says_so(
    record: str, arguments: tuple[str, ...], code: int, words: str
) -> None:
    result = archqa("mcp", "--record", record, *arguments)
    assert (result.returncode, result.stdout) == (code, "")
    assert words in result.stderr


def test_the_absence_of_the_extra_is_one_sentence(
    record: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in [name for name in sys.modules if name.split(".")[0] == "mcp"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.delitem(sys.modules, "archqa.mcp.server", raising=False)
    monkeypatch.setitem(sys.modules, "mcp", None)
    result = archqa("mcp", "--record", record)
    assert result.returncode == 3
    assert "pip install 'archqa[mcp]'" in result.stderr


def test_a_server_that_ignores_the_patient_tells_nothing_of_others(record: str) -> None:
    def careless(request: httpx2.Request) -> httpx2.Response:
        url = str(request.url).removeprefix(BASE).lstrip("/")
        kept = [part for part in url.split("&") if not part.startswith("patient=")]
        reply = service.handle(
            "GET", "&".join(kept).replace("?patient=p1", "?"), "", {}
        )
        return httpx2.Response(reply.status, content=reply.body.encode())

    with fhir.Store.open(record) as store:
        service = fhir.FhirService(store, BASE)
        client = fhir.FhirClient(BASE, transport=httpx2.MockTransport(careless))
        match = find_patient(store, "p1")
        served = ServedRecord(BASE, client, CallLimits(rows=200), match)
        found = served.search("Observation?_count=200")
        with pytest.raises(CallerError, match="no such resource"):
            served.read("Observation/o99")
        with pytest.raises(CallerError, match="one patient only"):
            served.find_patient("p2")
        assert served.read("Condition/c2").id == "Condition/c2"
    assert found.ids
    assert "Observation/o99" not in found.ids
    assert (found.total, found.next) == (None, None)
    assert "left out" in " ".join(found.remarks)


def test_lines_that_are_no_messages_are_answered(record: str, tmp_path: Path) -> None:
    lookup = {"name": "get_resource", "arguments": {"reference": "Patient/p1\ud800"}}
    start = {
        "protocolVersion": "2025-06-18",
        "capabilities": {},
        "clientInfo": {"name": "test", "version": "1"},
    }
    begun = {"jsonrpc": "2.0", "method": "notifications/initialized"}
    messages = [
        json.dumps(
            {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": start}
        ),
        json.dumps(begun),
        "no JSON",
        "[" * 5000,
        '{"id": 9}',
        json.dumps({"jsonrpc": "2.0", "id": "\udc00", "method": "tools/list"}),
        json.dumps(
            {"jsonrpc": "2.0", "id": 3, "method": "tools/call", "params": lookup}
        ),
    ]
    arguments = [sys.executable, "-m", "archqa", "mcp", "--record", record]
    with subprocess.Popen(
        arguments,
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        print(*messages, sep="\n", file=process.stdin, flush=True)
        replies = [json.loads(process.stdout.readline()) for _ in range(6)]
        process.stdin.close()
        assert process.wait(timeout=60) == 0
    errors = [reply["error"]["code"] for reply in replies if "error" in reply]
    assert sorted(errors) == [-32700, -32700, -32600]
    by_id = {reply["id"]: reply for reply in replies}
    assert by_id[9]["error"]["code"] == -32600
    assert by_id["\N{REPLACEMENT CHARACTER}"]["result"]["tools"]
    assert by_id[3]["result"]["isError"]
