"""The tools that FHIR-AgentBench's agents offer to a server are functions as the API documents them."""

from pathlib import Path
from typing import Any

import pytest

from archqa.runs.predict import predict
from tests.fakes.server import FakeServer
from tests.llm.strict_rules import NAME, violations
from tests.runs.fhir_questions import PUBLISHED_PIPELINES

MAX_DESCRIPTION = 1024
"""Characters (OpenAI API reference, "tools")."""


@pytest.mark.parametrize("pipeline", PUBLISHED_PIPELINES)
def test_every_tool_on_offer_is_a_documented_function(
    pipeline: str, questions: Path, record: Path, tmp_path: Path
) -> None:
    with FakeServer(keep_bodies=True) as server:
        predict(
            questions,
            out=tmp_path / "run",
            record=str(record),
            pipeline=pipeline,
            model="m",
            base_url=server.base_url,
        )
        tools = [tool for body in server.bodies for tool in body.get("tools", ())]
    assert tools
    for tool in tools:
        function = tool["function"]
        assert tool == {"type": "function", "function": function}
        assert NAME.fullmatch(function["name"])
        assert 0 < len(function["description"]) <= MAX_DESCRIPTION
        assert "strict" not in function
        assert violations(function["name"], strict_form(function["parameters"])) == []


def strict_form(parameters: dict[str, Any]) -> dict[str, Any]:
    """Parameters as if all were required, with the one keyword of plain functions left out.

    A function that is not strict may have optional parameters with defaults.
    """
    assert set(parameters["required"]) <= set(parameters["properties"])
    properties = {}
    for name, schema in parameters["properties"].items():
        properties[name] = {
            key: value for key, value in schema.items() if key != "default"
        }
    return {
        **parameters,
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }
