"""The benchmark's conversation over FHIR servers that fail, hang or send something else."""

import json
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler
from pathlib import Path

import pytest
import stamina

from archqa.fhir.client import http_client
from archqa.runs.predict import predict
from archqa.runs.record import CaseStatus
from archqa.tasks.medagentbench.session import FHIR_BASE_URL
from tests.fakes.fixed_policy import PolicyServer
from tests.tasks.medagentbench.invented import build_benchmark, patient, task
from tests.tasks.medagentbench.paper_agent import (
    ONE,
    always,
    bundle,
    fhir_server,
    run_task,
    turns,
)


@pytest.fixture(autouse=True)
def nobody_waits() -> Iterator[None]:
    with stamina.set_testing(True, attempts=2):
        yield


def test_a_real_server_is_asked_and_its_address_is_not_shown(tmp_path: Path) -> None:
    def body(handler: BaseHTTPRequestHandler) -> str:
        base_url = f"http://{handler.headers['host']}/fhir"
        return json.dumps(
            bundle(
                patient(ONE, "Ada", "Muster", "1950-11-14"),
                following=f"{base_url}?_getpages=1",
            )
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
    with fhir_server(
        always(status, {"resourceType": "OperationOutcome", "issue": []})
    ) as (url, _):
        record = run_task(
            url, tmp_path, f"GET {FHIR_BASE_URL}Patient?identifier={ONE}", "FINISH([])"
        )
    assert turns(record)[0].startswith("Error in sending the GET request: ")
    assert record.result.status == "completed"


def test_a_server_that_is_down_ends_every_task_and_nothing_is_written(
    tmp_path: Path, policy: PolicyServer
) -> None:
    benchmark = build_benchmark(tmp_path)
    with fhir_server(always(200, {})) as (url, _):
        pass
    run = predict(benchmark.tasks, out=tmp_path / "run", record=url, **policy.options)
    assert {record.result.status for record in run.records} == {"agent invalid action"}
    assert not (tmp_path / "run" / "audit.jsonl").exists()
    overall = json.loads((tmp_path / "run" / "overall.json").read_text())
    assert overall["validation"]["agent invalid action"] == 1
    assert (
        overall["custom"] == {}
    )  # It cannot be graded against a record that is not there.


def test_pages_that_never_end_are_left_after_a_few(
    tmp_path: Path, policy: PolicyServer
) -> None:
    def body(handler: BaseHTTPRequestHandler) -> str:
        base_url = f"http://{handler.headers['host']}/fhir"
        return json.dumps(
            bundle(following=f"{base_url}?_getpages={handler.path.count('9')}9")
        )

    benchmark = build_benchmark(tmp_path, [task(7, ONE)])
    with fhir_server(always(200, body)) as (url, requests):
        run = predict(
            benchmark.tasks, out=tmp_path / "run", record=url, **policy.options
        )
    assert run.records[0].result.status == "completed"
    assert len([path for path in requests if "_count=5000" not in path]) <= 8


def test_an_answer_without_end_is_cut_off(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(http_client, "MAX_REPLY_BYTES", 100_000)
    with fhir_server(always(200, lambda _: " " * 1_000_000)) as (url, _):
        record = run_task(
            url, tmp_path, f"GET {FHIR_BASE_URL}Patient?identifier={ONE}", "FINISH([])"
        )
    assert turns(record)[0].startswith("Error in sending the GET request: 502")


@pytest.mark.parametrize(
    "body",
    [
        "no json",
        "[]",
        '{"resourceType": "Bundle", "entry": 7}',
        '{"entry": [null]}',
        "null",
    ],
)
def test_an_answer_that_is_no_fhir_breaks_nothing(
    body: str, tmp_path: Path, policy: PolicyServer
) -> None:
    benchmark = build_benchmark(tmp_path, [task(3, ONE), task(4, ONE), task(2, ONE)])
    with fhir_server(always(200, lambda _: body)) as (url, requests):
        run = predict(
            benchmark.tasks, out=tmp_path / "run", record=url, **policy.options
        )
    assert {record.status for record in run.records} <= {
        CaseStatus.ANSWERED,
        CaseStatus.FAILED,
    }
    assert not any("Unforeseen" in record.error for record in run.records)
    assert not any(path.startswith("POST") for path in requests)
