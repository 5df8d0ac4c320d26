"""The benchmark's conversation, to the letter, over a store."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import stamina

from archqa.errors import CallerError, ContextTooLong, Truncated
from archqa.fhir import Store
from archqa.llm.model import Request
from archqa.llm.prompts import default_prompts
from archqa.runs.cost_estimate import estimate_cost
from archqa.runs.plan import Selection, plan_run
from archqa.runs.predict import predict
from archqa.runs.record import CaseStatus
from archqa.settings import load_settings
from archqa.tasks.medagentbench.agents import MedAgentPaperAgent, MedAgentTypedAgent
from archqa.tasks.medagentbench.protocol import parse_turn
from archqa.tasks.medagentbench.session import FHIR_BASE_URL, open_gateway
from tests.fakes.replies import refusal_reply
from tests.tasks.medagentbench.invented import SyntheticBenchmark, task
from tests.tasks.medagentbench.paper_agent import (
    ONE,
    always,
    bundle,
    fhir_server,
    run_task,
    turns,
)

GO_ON = "Please call FINISH if you have got answers for all the questions and finished all the requested tasks"


@pytest.fixture(autouse=True)
def nobody_waits() -> Iterator[None]:
    with stamina.set_testing(True, attempts=2):
        yield


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
        message.content[
            message.content.index("[\n{") : message.content.index("\n]") + 2
        ]
    )
    assert [function["name"].split()[0] for function in functions].count("POST") == 3
    assert len(functions) == 9
    assert message.content.endswith(f"Question: {task(4, ONE)['instruction']}")
    assert "Context: It's 2023-11-13T10:15:00+00:00 now." in message.content


def test_the_nine_functions_have_the_benchmarks_names_and_parameters(
    shared: Path,
) -> None:
    def bare(node: Any) -> Any:
        if isinstance(node, dict):
            return {
                name: bare(child)
                for name, child in node.items()
                if name != "description"
            }
        return [bare(child) for child in node] if isinstance(node, list) else node

    archqa_file = (
        Path(__file__).parents[3]
        / "prompts"
        / "medagent_paper"
        / "v2"
        / "functions.json"
    )
    benchmark_file = shared / "fhir" / "medagentbench" / "funcs_v1.json"
    assert bare(json.loads(archqa_file.read_text())) == bare(
        json.loads(benchmark_file.read_text())
    )


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
    assert [
        entry["resource"]["valueQuantity"]["value"] for entry in bundle["entry"]
    ] == [1.9, 2.4]
    assert bundle["entry"][0]["fullUrl"].startswith(
        "http://localhost:8080/fhir/Observation/"
    )
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
def test_what_real_agents_ask_is_answered(
    url: str, benchmark: SyntheticBenchmark
) -> None:
    with Store.open(benchmark.store, "hapi") as store:
        fetched = open_gateway(store).get(f"{url}&_format=json")
    assert not fetched.error
    assert json.loads(fetched.text)["resourceType"] in {
        "Bundle",
        "Patient",
        "CapabilityStatement",
    }


def matches(benchmark: SyntheticBenchmark, query: str) -> int:
    """How many resources a GET of the agent `paper` finds."""
    with Store.open(benchmark.store, "hapi") as store:
        fetched = open_gateway(store).get(f"{FHIR_BASE_URL}{query}&_format=json")
    total: int = json.loads(fetched.text)["total"]
    return total


def test_a_plus_in_a_query_is_a_blank_and_an_offset_may_be_written_with_it(
    benchmark: SyntheticBenchmark,
) -> None:
    """As a form is decoded; a date takes the blank of an unescaped offset (fhir-store.md)."""
    assert matches(benchmark, "Patient?family=De+la+Prueba") == 1
    assert matches(benchmark, "Patient?family=De%2Bla%2BPrueba") == 0
    since = f"Observation?patient={ONE}&code=MG&date=ge2023-11-13T08:00:00"
    assert [
        matches(benchmark, since + offset) for offset in ("+02:00", "%2B02:00")
    ] == [2, 2]
    assert [
        matches(benchmark, since + offset) for offset in ("+01:00", "%2B01:00")
    ] == [0, 0]


def test_a_real_server_gets_a_plus_as_the_agent_wrote_it(tmp_path: Path) -> None:
    """Python's requests, with which the benchmark sends it, does not escape it either."""
    query = "Observation?patient=p&date=ge2023-11-12T10:15:00+00:00"
    with fhir_server(always(200, bundle())) as (address, requested):
        run_task(address, tmp_path, f"GET {FHIR_BASE_URL}{query}", "FINISH([])")
    assert f"/fhir/{query}&_format=json" in requested


def test_a_failed_get_is_told_in_the_benchmarks_words(
    benchmark: SyntheticBenchmark, tmp_path: Path
) -> None:
    wrong = (
        f"{FHIR_BASE_URL}Patient?foot=left",
        f"{FHIR_BASE_URL}Patient/nobody",
        "http://example.org/Patient?x=1",
        "Patient?x=1",
    )
    record = run_task(
        benchmark, tmp_path, *(f"GET {url}" for url in wrong), "FINISH([])"
    )
    answers = turns(record)
    assert all(
        answer.startswith("Error in sending the GET request: ") for answer in answers
    )
    assert (
        "400 Client Error: Bad Request for url: http://localhost:8080/fhir/Patient?foot=left"
        in answers[0]
    )
    assert "404 Client Error: Not Found" in answers[1]
    assert record.result.status == "completed"


@pytest.mark.parametrize(
    "host",
    [
        "http://localhost:8080/fhirx/Patient?a",
        "http://localhost:8080.example.org/fhir/",
    ],
)
def test_nothing_but_the_record_is_ever_asked(
    host: str, benchmark: SyntheticBenchmark
) -> None:
    with Store.open(benchmark.store, "hapi") as store:
        assert open_gateway(store).get(host).error.startswith("Invalid URL")


def test_a_post_is_only_looked_at(
    benchmark: SyntheticBenchmark, tmp_path: Path
) -> None:
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
    record = run_task(
        benchmark, tmp_path, f"POST {FHIR_BASE_URL}Observation\n{body}", "FINISH([])"
    )
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


def test_after_eight_turns_it_is_over(
    benchmark: SyntheticBenchmark, tmp_path: Path
) -> None:
    record = run_task(
        benchmark, tmp_path, lambda _: f"GET {FHIR_BASE_URL}Patient?identifier={ONE}"
    )
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


def test_a_model_that_declines_is_a_refusal(
    benchmark: SyntheticBenchmark, tmp_path: Path
) -> None:
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
        "code": {
            "coding": [{"system": "http://snomed.info/sct", "code": "306181000000106"}]
        },
        "authoredOn": "2023-11-13T10:15:00+00:00",
        "status": "active",
        "intent": "order",
        "priority": "stat",
        "subject": {"reference": "Patient/S9000002"},
    }
    agent_turns = (
        f"POST {FHIR_BASE_URL}ServiceRequest\n{json.dumps(payload)}",
        "FINISH([])",
    )
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
        "code": {
            "coding": [{"system": "http://snomed.info/sct", "code": "306181000000106"}]
        },
        "authoredOn": "2023-11-13T10:15:00+00:00",
        "status": "active",
        "intent": "order",
        "priority": "stat",
        "subject": {"reference": f"Patient/{ONE}"},
    }
    post = f"POST {FHIR_BASE_URL}ServiceRequest\n{json.dumps(payload)}"
    record = run_task(
        benchmark,
        tmp_path,
        post,
        f"GET {FHIR_BASE_URL}ServiceRequest?patient={ONE}",
        post,
        "FINISH([])",
        row=task(8, ONE),
        writes="apply",
    )
    accepted, search_answer, again = turns(record)
    assert accepted.startswith("POST request accepted")
    assert '"total": 1' in search_answer
    assert "written for this patient already" in again
    with Store.open(benchmark.store) as store:
        assert "ServiceRequest" not in store.counts()


def test_a_run_without_a_record_is_refused_before_it_begins(
    benchmark: SyntheticBenchmark, tmp_path: Path
) -> None:
    server = {"model": "m", "base_url": "http://127.0.0.1:9/v1"}
    with pytest.raises(CallerError, match="--record"):
        predict(benchmark.tasks, out=tmp_path / "run", pipeline="typed", **server)
    assert not (tmp_path / "run").exists()


def test_the_prompts_ask_only_for_what_their_agents_are_given() -> None:
    for agent in (MedAgentPaperAgent(), MedAgentTypedAgent()):
        assert default_prompts().fields(agent.prompt) <= set(
            agent.task_type.model_fields
        )


def test_a_dry_run_estimates_the_turns_after_the_first_and_writes_nothing(
    benchmark: SyntheticBenchmark,
) -> None:
    settings = load_settings(
        typed={
            "record": str(benchmark.store),
            "writes": "apply",
            "cache": False,
            "model": "m",
        }
    )
    most_turns = {"paper": [2, 3, 8], "typed": [2, 2.6, 12]}
    for name in most_turns:
        plan = plan_run(
            benchmark.tasks, None, Selection(), settings.replace(pipeline=name)
        )
        estimate = estimate_cost(plan)
        turns = [amount.calls / len(plan.cases) for amount in estimate.amounts]
        assert turns == pytest.approx(most_turns[name], abs=0.5 / len(plan.cases)), (
            "whole calls"
        )
        assert estimate.incomplete_cases == 0
    with Store.open(benchmark.store) as store:
        assert "ServiceRequest" not in store.counts()
