"""What `--verbose` logs: a line for each model request, FHIR request and case, without record text."""

import json
import re
from http.server import BaseHTTPRequestHandler
from pathlib import Path

from archqa.tasks import load_cases
from tests.fakes.server import FakeServer
from tests.safety.test_quiet import archqa
from tests.tasks.medagentbench.paper_agent import always, fhir_server

MODEL_REQUEST = re.compile(
    r"model request: agent (\w+), model (\S+), status (\w+), \d+ ms, tokens (\d+) in (\d+) out$"
)
FHIR_REQUEST = re.compile(r"FHIR request: (GET|POST) (\S+), status (\w+), \d+ ms$")
CASE = re.compile(r"case (\S+): (\w+), \d+\.\d s, model calls (\d+)$")
PATIENT = "patient-of-the-test-77"


def logged(pattern: re.Pattern[str], stderr: str) -> list[tuple[str, ...]]:
    matches = (pattern.search(line) for line in stderr.splitlines())
    return [match.groups() for match in matches if match]


def test_each_case_has_a_line(tmp_path: Path) -> None:
    result = archqa("predict", "mini", "--verbose", cwd=tmp_path)
    assert result.returncode == 0, result.stderr
    cases = logged(CASE, result.stderr)
    assert set(cases) == {
        (case.id, "answered", "0") for case in load_cases("mini").cases
    }
    assert len(cases) == 3


def test_each_model_request_has_a_line_with_agent_model_status_and_tokens(
    tmp_path: Path,
) -> None:
    with FakeServer() as server:
        model = ("--pipeline", "dmis", "--model", "m", "--base-url", server.base_url)
        result = archqa("predict", "mini", *model, "--yes", "--verbose", cwd=tmp_path)
        count = server.count
    requests = logged(MODEL_REQUEST, result.stderr)
    assert len(requests) == count > 3
    agents, models, statuses, prompt_tokens, _ = zip(*requests, strict=True)
    assert "recruiting" in agents
    assert (set(models), set(statuses)) == ({"m"}, {"complete"})
    assert min(map(int, prompt_tokens)) > 0
    for case in load_cases("mini").cases:
        assert case.clinician_question not in result.stderr
        assert all(sentence.text not in result.stderr for sentence in case.sentences)


def test_a_cached_and_a_failed_model_request_say_so(tmp_path: Path) -> None:
    with FakeServer() as server:
        command = (
            "predict",
            "mini",
            "--limit",
            "1",
            "--pipeline",
            "dmis",
            "--model",
            "m",
        )
        command += ("--base-url", server.base_url, "--yes", "--verbose")
        first = archqa(*command, cwd=tmp_path)
        again = archqa(*command, cwd=tmp_path)
    assert {status for _, _, status, *_ in logged(MODEL_REQUEST, first.stderr)} == {
        "complete"
    }
    assert {status for _, _, status, *_ in logged(MODEL_REQUEST, again.stderr)} == {
        "cached"
    }
    failed = archqa(*command, "--set", "cache=off", "--set", "tries=1", cwd=tmp_path)
    assert {status for _, _, status, *_ in logged(MODEL_REQUEST, failed.stderr)} == {
        "ServerUnavailable"
    }


def test_each_request_to_a_fhir_server_has_a_line_without_ids_and_values(
    tmp_path: Path,
) -> None:
    def body(handler: BaseHTTPRequestHandler) -> str:
        if "/Patient/" in handler.path:
            patient = {
                "resourceType": "Patient",
                "id": PATIENT,
                "birthDate": "1950-02-03",
            }
            return json.dumps(patient)
        return json.dumps({"resourceType": "Bundle", "type": "searchset", "total": 0})

    with fhir_server(always(200, body)) as (url, requests):
        question = ("ask", "What is her last creatinine?", "--patient", PATIENT)
        result = archqa(*question, "--record", url, "--verbose", cwd=tmp_path)
    assert result.returncode == 0, result.stderr
    lines = logged(FHIR_REQUEST, result.stderr)
    assert len(lines) == len(requests) > 1
    assert ("GET", "Patient", "200") in lines
    assert ("GET", "Observation", "200") in lines
    log = "\n".join(line for line in result.stderr.splitlines() if " INFO " in line)
    assert PATIENT not in log
    assert "?" not in log


def test_without_verbose_nothing_of_it_is_logged(tmp_path: Path) -> None:
    result = archqa("predict", "mini", cwd=tmp_path)
    assert logged(CASE, result.stderr) == []
    assert " INFO " not in result.stderr
