"""Runs as rows, OpenTelemetry spans and FHIR Bundles, read by the tools that they are for."""

import base64
import http.server
import json
import stat
import threading
from collections.abc import Callable, Iterator
from io import StringIO
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from archqa.evaluation.scoring import score
from archqa.fhir import Store
from archqa.llm.model import Request
from archqa.llm.scripted import ScriptedModel, tool_call_reply
from archqa.runs.export import ExportOptions, export
from archqa.runs.predict import predict
from archqa.runs.run import Run
from archqa.settings import load_settings
from tests.cli.test_commands import MINI, archqa
from tests.runs.conftest import default_reply
from tests.runs.fhir_questions import VISITS, run_embedded

CANARY = "ZZYZX-record-text"


@pytest.fixture
def note_run(tmp_path: Path) -> Run:
    """A run of a scripted model whose replies have a word that is nowhere else."""

    def reply(request: Request) -> str:
        return default_reply(request).replace("As the note says.", f"It says {CANARY}.")

    settings = load_settings(typed={"model": "gpt-4.1"})
    return predict(MINI, settings=settings, out=tmp_path / "run", scripted=ScriptedModel(reply))


@pytest.fixture
def record_run(questions: Path, record: Path, tmp_path: Path) -> Run:
    return run_embedded(questions, record, tmp_path / "record-run")


@pytest.fixture
def tool_run(questions: Path, record: Path, tmp_path: Path) -> Run:
    """A run whose agent calls a tool before it answers."""
    retrieve = (
        "get_resources_by_patient_fhir_id",
        {"resource_type": "Patient", "patient_fhir_id": "p"},
    )

    def reply(request: Request) -> Any:
        has_result = any(message.role == "tool" for message in request.messages)
        return f"The final answer is: {CANARY}" if has_result else tool_call_reply(retrieve)

    settings = load_settings(
        typed={
            "pipeline": "multi-turn-retriever",
            "model": "m",
            "base_url": "http://127.0.0.1:9/v1",
            "record": str(record),
        }
    )
    out = tmp_path / "tool-run"
    return predict(questions, settings=settings, out=out, scripted=ScriptedModel(reply))


def test_a_row_has_the_question_the_answer_and_the_text_of_what_it_cites(note_run: Run) -> None:
    rows = [json.loads(line) for line in export(note_run.path, "jsonl").splitlines()]
    cases = {case.id: case for case in note_run.notes}
    assert [row["id"] for row in rows] == list(cases)
    for row in rows:
        case = cases[row["id"]]
        assert row["question"] == case.clinician_question
        assert row["answer"] == "\n".join(line["text"] for line in row["lines"])
        assert {one["id"]: one["text"] for one in row["evidence"]} == {
            name: case.text_of[name] for name in row["citations"]
        }
        assert row["scores"] is None


def test_rows_of_a_scored_run_have_the_scores_of_their_cases(note_run: Run) -> None:
    report = score(note_run.path)
    out = note_run.path.parent / "data.jsonl"
    result = archqa("export", str(note_run.path), "--format", "jsonl", "--out", str(out))
    assert result.returncode == 0, result.stderr
    rows = [json.loads(line) for line in out.read_text().splitlines()]
    for row in rows:
        expected = report.scores.per_case[row["id"]]["strict_micro_f1"]
        assert row["scores"]["strict_micro_f1"] == pytest.approx(expected)


def test_rows_of_questions_to_a_record_have_patient_and_resources(record_run: Run) -> None:
    rows = pd.read_json(StringIO(export(record_run.path, "jsonl")), lines=True)
    assert list(rows["patient"]) == ["p", "p", "p"]
    visits = rows["evidence"][0]
    assert {one["id"] for one in visits} == {f"Encounter/{visit}" for visit in VISITS}
    assert all(one["text"] for one in visits)


def test_every_row_has_the_same_keys(record_run: Run, note_run: Run) -> None:
    keys = set()
    for run in (record_run, note_run):
        for line in export(run.path, "jsonl").splitlines():
            keys.add(tuple(json.loads(line)))
    assert len(keys) == 1


def test_a_dataset_card_names_the_file_and_holds_no_record_text(
    note_run: Run, tmp_path: Path
) -> None:
    card, out = tmp_path / "README.md", tmp_path / "rows.jsonl"
    command = ("export", str(note_run.path), "--format", "jsonl", "--out", str(out))
    result = archqa(*command, "--card", str(card))
    assert result.returncode == 0, result.stderr
    text = card.read_text(encoding="utf-8")
    assert 'data_files: "rows.jsonl"' in text
    assert note_run.manifest.data.sha256 in text
    assert CANARY in out.read_text(encoding="utf-8")
    assert CANARY not in text
    assert {stat.S_IMODE(path.stat().st_mode) for path in (card, out)} == {0o600}


def spans_of(run: Run, *, with_text: bool = False) -> list[dict[str, Any]]:
    content = export(run.path, "otel-genai", options=ExportOptions(with_text=with_text))
    spans = []
    for line in content.splitlines():
        (resource_spans,) = json.loads(line)["resourceSpans"]
        (scope_spans,) = resource_spans["scopeSpans"]
        spans += [{**span, "attributes": attributes(span)} for span in scope_spans["spans"]]
    return spans


def attributes(span: dict[str, Any]) -> dict[str, Any]:
    return {each["key"]: next(iter(each["value"].values())) for each in span["attributes"]}


def test_each_case_is_a_trace_of_agents_and_their_calls(note_run: Run) -> None:
    spans = spans_of(note_run)
    roots = [span for span in spans if "parentSpanId" not in span]
    assert len({span["traceId"] for span in spans}) == len(roots) == 3
    by_id = {span["spanId"]: span for span in spans}
    assert len(by_id) == len(spans)
    chats = [span for span in spans if span["name"] == "chat scripted" or span["kind"] == 3]
    assert len(chats) == sum(len(note_run.folder.steps(case.id)) for case in note_run.notes)
    for chat in chats:
        agent = by_id[chat["parentSpanId"]]
        assert agent["name"] == f"invoke_agent {chat['attributes']['gen_ai.agent.name']}"
        assert by_id[agent["parentSpanId"]] in roots
        assert chat["attributes"]["gen_ai.operation.name"] == "chat"
    for span in spans:
        assert int(span["startTimeUnixNano"]) <= int(span["endTimeUnixNano"])
        if "parentSpanId" in span:
            parent = by_id[span["parentSpanId"]]
            assert int(parent["startTimeUnixNano"]) <= int(span["startTimeUnixNano"])
            assert int(span["endTimeUnixNano"]) <= int(parent["endTimeUnixNano"])


def test_tokens_of_the_calls_add_up_to_those_of_the_run(note_run: Run) -> None:
    chats = [span["attributes"] for span in spans_of(note_run) if span["kind"] == 3]
    tokens = sum(int(chat["gen_ai.usage.input_tokens"]) for chat in chats)
    assert tokens == note_run.usage.prompt_tokens


def test_spans_hold_record_text_only_if_it_is_asked_for(note_run: Run, tool_run: Run) -> None:
    note = note_run.notes[0].sentences[0].text[:40]
    for run, text in ((note_run, note), (tool_run, CANARY)):
        without = json.dumps(spans_of(run), ensure_ascii=False)
        with_text = json.dumps(spans_of(run, with_text=True), ensure_ascii=False)
        assert text not in without
        assert CANARY not in without
        assert CANARY in with_text
        assert json.dumps(text)[1:-1] in with_text or text in with_text


def test_a_tool_call_is_a_span_with_its_result_if_text_is_asked_for(tool_run: Run) -> None:
    plain, full = (
        next(one for one in spans if one["name"].startswith("execute_tool"))
        for spans in (spans_of(tool_run), spans_of(tool_run, with_text=True))
    )
    assert plain["attributes"]["gen_ai.tool.name"] == "get_resources_by_patient_fhir_id"
    assert "gen_ai.tool.call.result" not in plain["attributes"]
    assert "gen_ai.tool.call.arguments" in full["attributes"]
    assert "Patient" in full["attributes"]["gen_ai.tool.call.result"]


def test_the_attributes_are_those_of_the_semantic_conventions(note_run: Run, tool_run: Run) -> None:
    conventions = pytest.importorskip(
        "opentelemetry.semconv._incubating.attributes.gen_ai_attributes",
        reason="needs opentelemetry-semantic-conventions",
    )
    known = {value for name, value in vars(conventions).items() if name.startswith("GEN_AI_")}
    operations = {one.value for one in conventions.GenAiOperationNameValues}
    providers = {one.value for one in conventions.GenAiProviderNameValues}
    from archqa.runs.exports import spans as module

    assert {*module._PROVIDERS.values(), "azure.ai.openai"} <= providers
    for span in [*spans_of(note_run, with_text=True), *spans_of(tool_run, with_text=True)]:
        names = {name for name in span["attributes"] if name.startswith("gen_ai.")}
        assert names <= known
        assert span["attributes"]["gen_ai.operation.name"] in operations
        assert span["name"].startswith(span["attributes"]["gen_ai.operation.name"])


def test_the_lines_are_requests_of_otlp(tool_run: Run) -> None:
    service = pytest.importorskip(
        "opentelemetry.proto.collector.trace.v1.trace_service_pb2",
        reason="needs opentelemetry-proto",
    )
    from google.protobuf import json_format

    for line in export(tool_run.path, "otel-genai").splitlines():
        content = json.loads(line)
        for span in content["resourceSpans"][0]["scopeSpans"][0]["spans"]:
            for name in ("traceId", "spanId", "parentSpanId"):
                # OTLP writes ids as hexadecimal; general JSON of Protobuf as base64.
                if name in span:
                    span[name] = base64.b64encode(bytes.fromhex(span[name])).decode()
        request = json_format.ParseDict(content, service.ExportTraceServiceRequest())
        (first, *_) = request.resource_spans[0].scope_spans[0].spans
        assert (len(first.trace_id), len(first.span_id)) == (16, 8)


@pytest.fixture
def collector() -> Iterator[Callable[[], tuple[str, list[tuple[str, str, bytes]]]]]:
    """A server that takes what is posted to it."""
    received: list[tuple[str, str, bytes]] = []

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"]))
            received.append((self.path, self.headers.get("x-key", ""), body))
            self.send_response(400 if self.path == "/refused" else 200)
            self.end_headers()
            self.wfile.write(b'{"partialSuccess": {"rejectedSpans": 1}}')

        def log_message(self, *_: Any) -> None:
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield lambda: (f"http://127.0.0.1:{server.server_port}", received)
    server.shutdown()
    server.server_close()


def test_spans_are_sent_to_a_collector_only_when_asked(
    note_run: Run, collector: Callable[[], Any]
) -> None:
    url, received = collector()
    plain = archqa("export", str(note_run.path), "--format", "otel-genai")
    assert not received
    result = archqa(
        *("export", str(note_run.path), "--format", "otel-genai", "--endpoint", url),
        OTEL_EXPORTER_OTLP_HEADERS="x-key=a%20b",
    )
    assert result.returncode == 0, result.stderr
    assert [(path, key) for path, key, _ in received] == [("/v1/traces", "a b")] * 3
    assert [body.decode() for *_, body in received] == plain.stdout.splitlines()
    spans = len(spans_of(note_run))
    assert f"the collector took {spans - 3} spans" in result.stderr
    assert "without record text" in result.stderr
    assert result.stdout == ""


def test_a_collector_that_refuses_is_named(note_run: Run, collector: Callable[[], Any]) -> None:
    url, _ = collector()
    command = ("export", str(note_run.path), "--format", "otel-genai", "--endpoint")
    refused = archqa(*command, f"{url}/refused")
    away = archqa(*command, "http://127.0.0.1:9/v1/traces")
    assert (refused.returncode, away.returncode) == (4, 4)
    assert "HTTP 400" in refused.stderr
    assert "cannot be reached" in away.stderr


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--format", "otel-genai", "--endpoint", "http://collector.example"), "Plain http"),
        (("--format", "otel-genai", "--endpoint", "https://u:p@collector.example"), "password"),
        (("--format", "csv", "--endpoint", "http://127.0.0.1:9"), "otel-genai"),
        (("--format", "jsonl", "--with-text"), "otel-genai"),
        (("--format", "csv", "--card", "README.md"), "jsonl"),
        (("--format", "fhir-bundle"), "run on notes"),
    ],
)
def test_an_export_that_cannot_be_says_why(
    note_run: Run, options: tuple[str, ...], words: str
) -> None:
    result = archqa("export", str(note_run.path), *options)
    assert (result.returncode, result.stdout) == (2, "")
    assert words in result.stderr


def test_a_record_runs_bundle_says_which_resources_each_answer_cites(record_run: Run) -> None:
    bundle = json.loads(export(record_run.path, "fhir-bundle"))
    resources = {entry["fullUrl"]: entry["resource"] for entry in bundle["entry"]}
    cited = {}
    for provenance in resources.values():
        if provenance["resourceType"] != "Provenance":
            continue
        response = resources[provenance["target"][0]["reference"]]
        assert response["subject"] == {"reference": "Patient/p"}
        who = resources[provenance["agent"][0]["who"]["reference"]]
        assert who["deviceName"][0]["name"] == "archqa"
        references = {one["what"]["reference"] for one in provenance.get("entity", ())}
        cited[response["item"][0]["text"]] = references
    visits, gender, _ = (item.question for item in record_run.cases)  # type: ignore[union-attr]
    assert cited[visits] == {f"Encounter/{visit}" for visit in VISITS}
    assert cited[gender] == {"Patient/p"}
    assert export(record_run.path, "fhir-bundle") == export(record_run.path, "fhir-bundle")


def test_a_bundle_is_valid_fhir_and_can_be_loaded(record_run: Run, tmp_path: Path) -> None:
    r4b = pytest.importorskip("fhir.resources.R4B.bundle", reason="needs fhir.resources")
    text = export(record_run.path, "fhir-bundle")
    bundle = r4b.Bundle.model_validate_json(text)
    assert bundle.type == "collection"
    path = tmp_path / "bundle.json"
    path.write_text(text, encoding="utf-8")
    with Store.open(tmp_path / "answers.db", create=True) as store:
        store.load([path], strict=True)
        assert store.counts()["Provenance"] == len(record_run.records)
        answered = store.search("QuestionnaireResponse?subject=Patient/p")
    assert answered.total == len(record_run.records)
