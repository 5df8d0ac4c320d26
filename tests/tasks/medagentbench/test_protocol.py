"""The benchmark's conversation, to the letter, over a store and over servers that misbehave."""

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
import stamina

from archqa.errors import CallerError, ContextTooLong, Truncated
from archqa.fhir import Store
from archqa.fhir.client import http_client
from archqa.llm.model import Request
from archqa.llm.prompts import default_prompts
from archqa.llm.scripted import ScriptedModel, refusal_reply
from archqa.runs.cost_estimate import estimate_cost
from archqa.runs.predict import predict
from archqa.runs.record import CaseRecord, CaseStatus
from archqa.settings import load_settings
from archqa.tasks import load_cases, pipelines
from archqa.tasks.medagentbench.agents import MedAgentPaperAgent, MedAgentTypedAgent
from archqa.tasks.medagentbench.gateway import FHIR_BASE_URL, open_gateway
from archqa.tasks.medagentbench.protocol import parse_turn
from tests.tasks.medagentbench.invented import SyntheticBenchmark, build_benchmark, patient, task

GO_ON = "Please call FINISH if you have got answers for all the questions and finished all the requested tasks"
ONE = "S9000001"


@pytest.fixture(autouse=True)
def nobody_waits() -> Iterator[None]:
    with stamina.set_testing(True, attempts=2):
        yield


def run_task(
    benchmark: SyntheticBenchmark | str,
    tmp_path: Path,
    *lines: Any,
    row: dict[str, Any] | None = None,
    **more: Any,
) -> CaseRecord:
    """How one task ends when a model says these lines in turn."""
    record = benchmark if isinstance(benchmark, str) else str(benchmark.store)
    tasks = tmp_path / "tasks.json"
    tasks.write_text(json.dumps([row or task(4, ONE)]))
    model = ScriptedModel(lines[0] if callable(lines[0]) else lines)
    run = predict(
        tasks,
        out=tmp_path / "run",
        pipeline="paper",
        record=record,
        scripted=model,
        model="m",
        cache=False,
        **more,
    )
    return run.records[0]


def turns(record: CaseRecord) -> list[str]:
    return [turn["content"] for turn in record.result.history if turn["role"] == "user"][1:]


def test_the_prompt_is_one_message_with_nine_functions_clock_and_question(
    benchmark: SyntheticBenchmark, tmp_path: Path
) -> None:
    requests: list[Request] = []

    def answer(request: Request) -> str:
        requests.append(request)
        return "FINISH([1.9])"

    run_task(benchmark, tmp_path, answer)
    [message] = requests[0].messages
    assert message.role == "user"
    assert requests[0].temperature == 0
    assert "Use http://localhost:8080/fhir/ as the api_base." in message.content
    functions = json.loads(
        message.content[message.content.index("[\n{") : message.content.index("\n]") + 2]
    )
    assert [function["name"].split()[0] for function in functions].count("POST") == 3
    assert len(functions) == 9
    assert message.content.endswith(f"Question: {task(4, ONE)['instruction']}")
    assert "Context: It's 2023-11-13T10:15:00+00:00 now." in message.content


def test_the_nine_functions_have_the_benchmarks_names_and_parameters(shared: Path) -> None:
    def bare(node: Any) -> Any:
        if isinstance(node, dict):
            return {name: bare(child) for name, child in node.items() if name != "description"}
        return [bare(child) for child in node] if isinstance(node, list) else node

    archqa_file = Path(__file__).parents[3] / "prompts" / "medagent_paper" / "v1" / "functions.json"
    benchmark_file = shared / "fhir" / "medagentbench" / "funcs_v1.json"
    assert bare(json.loads(archqa_file.read_text())) == bare(json.loads(benchmark_file.read_text()))


def test_a_get_is_answered_with_the_bundle_between_the_benchmarks_words(
    benchmark: SyntheticBenchmark, tmp_path: Path
) -> None:
    get = f"GET {FHIR_BASE_URL}Observation?patient={ONE}&code=MG&date=ge2023-11-12T10:15:00+00:00"
    record = run_task(benchmark, tmp_path, get, "FINISH([1.9])")
    [answer] = turns(record)
    assert answer.startswith(
        'Here is the response from the GET request:\n{"resourceType": "Bundle"'
    )
    assert answer.endswith(f". {GO_ON}")
    bundle = json.loads(answer.partition("\n")[2].removesuffix(f". {GO_ON}"))
    assert [entry["resource"]["valueQuantity"]["value"] for entry in bundle["entry"]] == [1.9, 2.4]
    assert bundle["entry"][0]["fullUrl"].startswith("http://localhost:8080/fhir/Observation/")
    assert "_format=json" in bundle["link"][0]["url"]
    assert (record.result.status, record.result.result) == ("completed", "[1.9]")


@pytest.mark.parametrize(
    "url",
    [
        f"{FHIR_BASE_URL}/Patient?identifier={ONE}",
        f"{FHIR_BASE_URL}Patient/{ONE}",
        f"{FHIR_BASE_URL}Patient?given=Ada&family=Muster&birthdate=1950-11-14",
        f"{FHIR_BASE_URL}metadata",
        f"{FHIR_BASE_URL}Observation?patient={ONE}&category=vital-signs",
        f"{FHIR_BASE_URL}Condition?patient={ONE}&category=problem-list-item",
        f"{FHIR_BASE_URL}MedicationRequest?patient={ONE}&date=ge2023-01-01",
        f"{FHIR_BASE_URL}Procedure?patient={ONE}&date=ge2023-01-01&_count=200&_sort=-date",
    ],
)
def test_what_real_agents_ask_is_answered(url: str, benchmark: SyntheticBenchmark) -> None:
    with Store.open(benchmark.store, "hapi") as store:
        fetched = open_gateway(store).get(f"{url}&_format=json")
    assert not fetched.error
    assert json.loads(fetched.text)["resourceType"] in {"Bundle", "Patient", "CapabilityStatement"}


def test_a_failed_get_is_told_in_the_benchmarks_words(
    benchmark: SyntheticBenchmark, tmp_path: Path
) -> None:
    wrong = (
        f"{FHIR_BASE_URL}Patient?foot=left",
        f"{FHIR_BASE_URL}Patient/nobody",
        "http://example.org/Patient?x=1",
        "Patient?x=1",
    )
    record = run_task(benchmark, tmp_path, *(f"GET {url}" for url in wrong), "FINISH([])")
    answers = turns(record)
    assert all(answer.startswith("Error in sending the GET request: ") for answer in answers)
    assert (
        "400 Client Error: Bad Request for url: http://localhost:8080/fhir/Patient?foot=left"
        in answers[0]
    )
    assert "404 Client Error: Not Found" in answers[1]
    assert record.result.status == "completed"


@pytest.mark.parametrize(
    "host", ["http://localhost:8080/fhirx/Patient?a", "http://localhost:8080.example.org/fhir/"]
)
def test_nothing_but_the_record_is_ever_asked(host: str, benchmark: SyntheticBenchmark) -> None:
    with Store.open(benchmark.store, "hapi") as store:
        assert open_gateway(store).get(host).error.startswith("Invalid URL")


def test_a_post_is_only_looked_at(benchmark: SyntheticBenchmark, tmp_path: Path) -> None:
    anything = f'POST {FHIR_BASE_URL}Observation\n{{"whatever": 1}}'
    record = run_task(
        benchmark,
        tmp_path,
        anything,
        f"GET {FHIR_BASE_URL}Observation?patient={ONE}&code=BP",
        "FINISH([])",
    )
    post_answer, get_answer = turns(record)
    assert post_answer == f"POST request accepted and executed successfully. {GO_ON}"
    assert '"total": 0' in get_answer


@pytest.mark.parametrize("body", ["", "{not json", '{"a": 1}}', "[" * 100_000])
def test_a_malformed_post_is_invalid_and_the_talk_goes_on(
    body: str, benchmark: SyntheticBenchmark, tmp_path: Path
) -> None:
    record = run_task(benchmark, tmp_path, f"POST {FHIR_BASE_URL}Observation\n{body}", "FINISH([])")
    assert turns(record) == ["Invalid POST request"]
    assert record.result.status == "completed"


def test_fences_are_taken_off_and_anything_else_ends_the_talk(
    benchmark: SyntheticBenchmark, tmp_path: Path
) -> None:
    fenced = f"```tool_code\nGET {FHIR_BASE_URL}Patient?identifier={ONE}\n```"
    record = run_task(benchmark, tmp_path, fenced, "I think it is 1.9.")
    assert record.result.status == "agent invalid action"
    assert record.result.result is None
    assert record.status is CaseStatus.FAILED


@pytest.mark.parametrize(
    ("text", "rest"),
    [
        ("FINISH([1, 2])", "[1, 2]"),
        (" FINISH() \n", ""),
        ("FINISH([1]) I am done", "[1]) I am don"),
        ("FINISH(", ""),
    ],
)
def test_the_result_is_what_stands_between_the_brackets(text: str, rest: str) -> None:
    assert parse_turn(text) == ("FINISH", "", rest)


def test_after_eight_turns_it_is_over(benchmark: SyntheticBenchmark, tmp_path: Path) -> None:
    record = run_task(benchmark, tmp_path, lambda _: f"GET {FHIR_BASE_URL}Patient?identifier={ONE}")
    assert record.result.status == "task limit reached"
    assert sum(turn["role"] == "agent" for turn in record.result.history) == 8
    assert record.usage.calls == 8


def test_a_context_that_is_full_has_a_status_of_its_own(
    benchmark: SyntheticBenchmark, tmp_path: Path
) -> None:
    record = run_task(
        benchmark,
        tmp_path,
        f"GET {FHIR_BASE_URL}Patient?identifier={ONE}",
        ContextTooLong("too long"),
    )
    assert record.result.status == "agent context limit"
    assert len(record.result.history) == 3


def test_a_model_that_declines_is_a_refusal(benchmark: SyntheticBenchmark, tmp_path: Path) -> None:
    record = run_task(benchmark, tmp_path, refusal_reply())
    assert record.status is CaseStatus.UNANSWERABLE
    assert record.result.status == "agent invalid action"


def test_a_model_that_fails_at_one_task_is_a_task_error(
    benchmark: SyntheticBenchmark, tmp_path: Path
) -> None:
    record = run_task(benchmark, tmp_path, Truncated("cut off"))
    assert record.result.status == "task error"


def test_an_agent_that_writes_to_another_patient_changes_nothing(
    benchmark: SyntheticBenchmark, tmp_path: Path
) -> None:
    payload = {
        "resourceType": "ServiceRequest",
        "code": {"coding": [{"system": "http://snomed.info/sct", "code": "306181000000106"}]},
        "authoredOn": "2023-11-13T10:15:00+00:00",
        "status": "active",
        "intent": "order",
        "priority": "stat",
        "subject": {"reference": "Patient/S9000002"},
    }
    agent_turns = (f"POST {FHIR_BASE_URL}ServiceRequest\n{json.dumps(payload)}", "FINISH([])")
    recorded = run_task(benchmark, tmp_path, *agent_turns, row=task(8, ONE))
    assert turns(recorded)[0].startswith(
        "POST request accepted"
    )  # as the benchmark does; its grader will not
    (tmp_path / "apply").mkdir()
    applied = run_task(
        benchmark, tmp_path / "apply", *agent_turns, row=task(8, ONE), writes="apply"
    )
    assert turns(applied) == [
        "Invalid POST request: The instruction is not about the patient S9000002."
    ]
    [attempt] = applied.result.written
    assert attempt["status"] == 409
    with Store.open(benchmark.store) as store:
        assert set(store.counts()) == {"Patient", "Observation"}


def test_what_is_applied_is_found_in_the_same_task_and_forgotten_after_it(
    benchmark: SyntheticBenchmark, tmp_path: Path
) -> None:
    payload = {
        "resourceType": "ServiceRequest",
        "code": {"coding": [{"system": "http://snomed.info/sct", "code": "306181000000106"}]},
        "authoredOn": "2023-11-13T10:15:00+00:00",
        "status": "active",
        "intent": "order",
        "priority": "stat",
        "subject": {"reference": f"Patient/{ONE}"},
    }
    post = f"POST {FHIR_BASE_URL}ServiceRequest\n{json.dumps(payload)}"
    record = run_task(
        benchmark, tmp_path, post, f"GET {FHIR_BASE_URL}ServiceRequest?patient={ONE}", post, "FINISH([])", row=task(8, ONE),
        writes="apply",
    )  # fmt: skip
    accepted, search_answer, again = turns(record)
    assert accepted.startswith("POST request accepted")
    assert '"total": 1' in search_answer
    assert "written for this patient already" in again
    with Store.open(benchmark.store) as store:
        assert "ServiceRequest" not in store.counts()


Answer = Callable[[BaseHTTPRequestHandler], None]


@contextmanager
def fhir_server(answer: Answer) -> Iterator[tuple[str, list[str]]]:
    """A FHIR server on loopback that answers everything so.

    Its address, and the paths requested.
    """
    requests: list[str] = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            requests.append(self.path)
            answer(self)

        def do_POST(self) -> None:
            requests.append(f"POST {self.path}")
            answer(self)

        def log_message(self, *_: Any) -> None:
            """Quiet."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}/fhir", requests
    finally:
        server.shutdown()
        thread.join(5)


def always(status: int, body: Any) -> Answer:
    def answer(handler: BaseHTTPRequestHandler) -> None:
        text = (body(handler) if callable(body) else json.dumps(body)).encode()
        handler.send_response(status)
        handler.send_header("content-type", "application/fhir+json")
        handler.send_header("content-length", str(len(text)))
        handler.end_headers()
        handler.wfile.write(text)

    return answer


def bundle(*resources: dict[str, Any], following: str = "") -> dict[str, Any]:
    link = [{"relation": "next", "url": following}] if following else []
    return {
        "resourceType": "Bundle",
        "type": "searchset",
        "link": link,
        "entry": [{"resource": r} for r in resources],
    }


def test_a_real_server_is_asked_and_its_address_is_not_shown(tmp_path: Path) -> None:
    def body(handler: BaseHTTPRequestHandler) -> str:
        base_url = f"http://{handler.headers['host']}/fhir"
        return json.dumps(
            bundle(patient(ONE, "Ada", "Muster", "1950-11-14"), following=f"{base_url}?_getpages=1")
        )

    with fhir_server(always(200, body)) as (url, requests):
        record = run_task(
            url,
            tmp_path,
            f"GET {FHIR_BASE_URL}Patient?identifier={ONE}",
            f"GET {FHIR_BASE_URL}?_getpages=1",
            "FINISH([])",
        )
    assert requests[:2] == [
        f"/fhir/Patient?identifier={ONE}&_format=json",
        "/fhir/?_getpages=1&_format=json",
    ]
    assert "http://localhost:8080/fhir?_getpages=1" in turns(record)[0]
    assert "127.0.0.1" not in turns(record)[0]


@pytest.mark.parametrize("status", [500, 404, 401])
def test_a_server_that_fails_is_told_to_the_agent_and_nothing_hangs(
    status: int, tmp_path: Path
) -> None:
    with fhir_server(always(status, {"resourceType": "OperationOutcome", "issue": []})) as (url, _):
        record = run_task(
            url, tmp_path, f"GET {FHIR_BASE_URL}Patient?identifier={ONE}", "FINISH([])"
        )
    assert turns(record)[0].startswith("Error in sending the GET request: ")
    assert record.result.status == "completed"


def test_a_server_that_is_down_ends_every_task_and_nothing_is_written(tmp_path: Path) -> None:
    benchmark = build_benchmark(tmp_path)
    with fhir_server(always(200, {})) as (url, _):
        pass
    run = predict(benchmark.tasks, out=tmp_path / "run", pipeline="scripted", record=url)
    assert {record.result.status for record in run.records} == {"task error"}
    assert not (tmp_path / "run" / "audit.jsonl").exists()
    overall = json.loads((tmp_path / "run" / "overall.json").read_text())
    assert overall["validation"]["task error"] == 1
    assert overall["custom"] == {}  # It cannot be graded against a record that is not there.


def test_pages_that_never_end_are_left_after_a_few(tmp_path: Path) -> None:
    def body(handler: BaseHTTPRequestHandler) -> str:
        base_url = f"http://{handler.headers['host']}/fhir"
        return json.dumps(bundle(following=f"{base_url}?_getpages={handler.path.count('9')}9"))

    benchmark = build_benchmark(tmp_path, [task(7, ONE)])
    with fhir_server(always(200, body)) as (url, requests):
        run = predict(benchmark.tasks, out=tmp_path / "run", pipeline="scripted", record=url)
    assert run.records[0].result.status == "completed"
    assert len([path for path in requests if "_count=5000" not in path]) <= 8


def test_an_answer_without_end_is_cut_off(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_client, "MAX_REPLY_BYTES", 100_000)
    with fhir_server(always(200, lambda _: " " * 1_000_000)) as (url, _):
        record = run_task(
            url, tmp_path, f"GET {FHIR_BASE_URL}Patient?identifier={ONE}", "FINISH([])"
        )
    assert turns(record)[0].startswith("Error in sending the GET request: 502")


@pytest.mark.parametrize(
    "body", ["no json", "[]", '{"resourceType": "Bundle", "entry": 7}', '{"entry": [null]}', "null"]
)
def test_an_answer_that_is_no_fhir_breaks_nothing(body: str, tmp_path: Path) -> None:
    benchmark = build_benchmark(tmp_path, [task(3, ONE), task(4, ONE), task(2, ONE)])
    with fhir_server(always(200, lambda _: body)) as (url, requests):
        run = predict(benchmark.tasks, out=tmp_path / "run", pipeline="scripted", record=url)
    assert {record.status for record in run.records} <= {CaseStatus.ANSWERED, CaseStatus.FAILED}
    assert not any("Unforeseen" in record.error for record in run.records)
    assert not any(path.startswith("POST") for path in requests)


def test_a_run_without_a_record_is_refused_before_it_begins(
    benchmark: SyntheticBenchmark, tmp_path: Path
) -> None:
    with pytest.raises(CallerError, match="--record"):
        predict(benchmark.tasks, out=tmp_path / "run", pipeline="scripted")
    assert not (tmp_path / "run").exists()


def test_the_prompts_ask_only_for_what_their_agents_are_given() -> None:
    for agent in (MedAgentPaperAgent(), MedAgentTypedAgent()):
        assert default_prompts().fields(agent.prompt) <= set(agent.task_type.model_fields)


def test_a_dry_run_rehearses_the_first_turn_and_writes_nothing(
    benchmark: SyntheticBenchmark,
) -> None:
    settings = load_settings(
        typed={"record": str(benchmark.store), "writes": "apply", "cache": False, "model": "m"}
    )
    tasks = load_cases(benchmark.tasks).cases
    for name in ("paper", "typed"):
        foreseen = estimate_cost(tasks, pipelines.find(name, "medagentbench"), settings)
        assert foreseen.calls == len(benchmark.rows)
