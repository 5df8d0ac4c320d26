"""The benchmark's tools.

Their names and signatures, what they do on each kind of server, and their errors in words.
"""

import json
from pathlib import Path
from typing import Any

import pytest

from archqa.agents.sandbox import SandboxLimits
from archqa.agents.tools import Tool, ToolResult
from archqa.fhir import Store
from archqa.tasks.fhir_agentbench.tools import (
    ExecutePythonCode,
    FhirRequestGet,
    GetResourceById,
    GetResourcesByPatientFhirId,
    GetResourcesByResourceId,
    GetResourcesOfThisPatient,
    LaterResources,
)
from tests.fhir.invented import build_store, ward_resources


@pytest.fixture
def ward(tmp_path: Path) -> Store:
    return build_store(tmp_path / "ward", ward_resources(), "gcp")


def call(tool: Tool[Any], record: Store, **arguments: Any) -> ToolResult:
    return tool.call(record, json.dumps(arguments))


def ids(result: ToolResult) -> dict[str, list[str]]:
    return {
        kind: [resource["id"] for resource in resources]
        for kind, resources in result.resources.items()
    }


@pytest.mark.parametrize(
    ("tool", "name", "required"),
    [
        (FhirRequestGet(), "fhir_request_get", {"query_string": "string"}),
        (
            GetResourcesByPatientFhirId(),
            "get_resources_by_patient_fhir_id",
            {"resource_type": "string", "patient_fhir_id": "string"},
        ),
        (
            GetResourcesByResourceId(),
            "get_resources_by_resource_id",
            {"resource_type": "string", "resource_id": "string"},
        ),
        (ExecutePythonCode({}), "execute_python_code", {"code": "string"}),
    ],
)
def test_names_and_signatures_are_the_benchmarks(
    tool: Tool[Any], name: str, required: dict[str, str]
) -> None:
    spec = tool.spec
    assert spec.name == name
    assert spec.parameters["required"] == list(required)
    types = {
        argument: node["type"]
        for argument, node in spec.parameters["properties"].items()
    }
    assert {argument: types[argument] for argument in required} == required
    optional = {
        argument: spec.parameters["properties"][argument]
        for argument in types.keys() - required
    }
    assert {
        argument: (node["type"], node["default"]) for argument, node in optional.items()
    } == ({"timeout": ("integer", 30)} if name == "execute_python_code" else {})


def test_all_pages_of_a_patients_type_come_without_text_and_meta(ward: Store) -> None:
    result = call(
        GetResourcesByPatientFhirId(),
        ward,
        resource_type="Observation",
        patient_fhir_id="p1",
    )
    assert sorted(ids(result)["Observation"]) == ["o1", "o2", "o3", "o5", "o6"]
    assert not any(
        {"text", "meta"} & resource.keys()
        for resource in result.resources["Observation"]
    )
    assert result.fault == ""


def test_the_benchmarks_server_ignores_a_parameter_it_does_not_know(
    ward: Store,
) -> None:
    """Patients, and resources by id, come whole.

    The benchmark's own mistake, kept by `official`.
    """
    patients = call(
        GetResourcesByPatientFhirId(),
        ward,
        resource_type="Patient",
        patient_fhir_id="p1",
    )
    assert sorted(ids(patients)["Patient"]) == ["p1", "p2"]
    arguments = {"resource_type": "Medication", "resource_id": "m1"}
    assert (
        len(ids(call(GetResourcesByResourceId(), ward, **arguments))["Medication"]) == 4
    )


@pytest.mark.parametrize("written", ["m1", "Medication/m1", " m1 "])
def test_one_id_returns_that_resource_and_no_other(written: str, ward: Store) -> None:
    arguments = {"resource_type": "Medication", "resource_id": written}
    assert ids(call(GetResourceById(), ward, **arguments)) == {"Medication": ["m1"]}


@pytest.mark.parametrize(
    "written", ["", "m1,m2", "Patient/p1", "m1&_count=5", "../Patient/p1"]
)
def test_what_is_not_one_id_of_the_type_is_an_error(written: str, ward: Store) -> None:
    result = call(
        GetResourceById(), ward, resource_type="Medication", resource_id=written
    )
    assert result.resources == {}
    assert "one id" in result.content["error"]


def test_an_id_that_the_record_lacks_is_an_error(ward: Store) -> None:
    result = call(
        GetResourceById(), ward, resource_type="Medication", resource_id="none"
    )
    assert result.content == {"error": "There is no Medication of that id."}


def test_the_patient_is_read_by_its_id_where_only_one_patient_may_be_told_of(
    ward: Store,
) -> None:
    arguments = {"resource_type": "Patient", "patient_fhir_id": "p1"}
    assert ids(
        call(GetResourcesOfThisPatient("p1", LaterResources()), ward, **arguments)
    ) == {"Patient": ["p1"]}


def test_a_get_sees_one_page_and_nothing_of_a_read_unless_told_otherwise(
    ward: Store,
) -> None:
    page = call(FhirRequestGet(), ward, query_string="Observation?patient=p1&_count=2")
    assert len(ids(page)["Observation"]) == 2
    assert call(FhirRequestGet(), ward, query_string="Patient/p1").content == {}
    every = call(
        FhirRequestGet(official=False),
        ward,
        query_string="/Observation?patient=p1&_count=2",
    )
    assert len(ids(every)["Observation"]) == 5
    assert ids(
        call(FhirRequestGet(official=False), ward, query_string="Patient/p1")
    ) == {"Patient": ["p1"]}


def test_a_get_groups_what_is_included_by_its_own_type(ward: Store) -> None:
    query = "MedicationRequest?patient=p1&_include=MedicationRequest:medication"
    retrieved_ids = ids(call(FhirRequestGet(), ward, query_string=query))
    assert sorted(retrieved_ids["MedicationRequest"]) == ["r1", "r2"]
    assert sorted(retrieved_ids["Medication"]) == ["m3", "m4"]


@pytest.mark.parametrize(
    ("tool", "arguments", "words"),
    [
        (
            GetResourcesByPatientFhirId(),
            '{"resource_type": "Observation"',
            "not valid JSON",
        ),
        (GetResourcesByPatientFhirId(), "[1]", "must be a JSON object"),
        (
            GetResourcesByPatientFhirId(),
            '{"resource_type": "Observation"}',
            "patient_fhir_id: Field required",
        ),
        (
            GetResourcesByPatientFhirId(),
            '{"resource_type": 3, "patient_fhir_id": "p1"}',
            "resource_type: Input should",
        ),
        (
            FhirRequestGet(),
            '{"endpoint": "Patient?name=x"}',
            "query_string: Field required",
        ),
        (
            GetResourcesByPatientFhirId(),
            '{"resource_type": "Observatoin", "patient_fhir_id": "p1"}',
            "Did you mean Observation?",
        ),
        (
            GetResourcesByPatientFhirId(),
            '{"resource_type": "../etc", "patient_fhir_id": "p1"}',
            "no such resource",
        ),
        (
            FhirRequestGet(),
            '{"query_string": "Observation?date=yesterday"}',
            "date: not a date",
        ),
        (
            FhirRequestGet(official=False),
            '{"query_string": "Patient/nobody"}',
            "no Patient of that id",
        ),
        (ExecutePythonCode({}), '{"code": "answer = 1 / 0"}', "ZeroDivisionError"),
        (
            ExecutePythonCode({}),
            '{"code": "answer = 1", "timeout": 0}',
            "timeout: Input should",
        ),
    ],
)
def test_errors_come_back_in_words(
    ward: Store, tool: Tool[Any], arguments: str, words: str
) -> None:
    result = tool.call(ward, arguments)
    assert words in result.output["error"]
    assert result.fault
    assert not result.resources


def test_code_runs_over_what_was_retrieved_and_gives_answer_and_output(
    ward: Store,
) -> None:
    retrieved = {"Patient": [{"id": "p1"}]}
    tool = ExecutePythonCode(retrieved)
    assert call(
        tool, ward, code="print('x')\nanswer = len(retrieved_resources['Patient'])"
    ).content == {
        "answer": 1,
        "stdout": "x\n",
    }
    retrieved["Patient"] = []
    assert call(
        tool, ward, code="answer = len(retrieved_resources['Patient'])"
    ).content == {"answer": 0}


def test_code_without_an_answer_is_told_so_in_the_benchmarks_words(ward: Store) -> None:
    result = call(ExecutePythonCode({}), ward, code="print(1)")
    assert result.content == {
        "error": "Code executed successfully (no answer variable set)",
        "stdout": "1\n",
    }
    assert result.fault == ""


def test_a_timeout_is_kept_and_cannot_exceed_the_limit(ward: Store) -> None:
    result = call(
        ExecutePythonCode({}, SandboxLimits(seconds=0.1)),
        ward,
        code="while True:\n    pass",
        timeout=60,
    )
    assert result.fault == "time"
    assert "longer than 0.1 seconds" in result.output["error"]
