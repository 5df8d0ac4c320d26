"""A small model for runs: obedient, counted, and able to fail on order."""

import json
from collections.abc import Callable

import pytest

from archqa.llm.model import Request
from archqa.llm.scripted import ScriptedModel


def default_reply(request: Request) -> str:
    """Calls the first sentence of any note essential and answers from it."""
    fields = (request.output_schema or {}).get("properties", {})
    definitions = (request.output_schema or {}).get("$defs", {})
    if "essential" in fields:
        first = fields["essential"]["items"]["enum"][0]
        return json.dumps(
            {"answer": [{"text": "As the note says.", "citations": [first]}], "essential": [first]}
        )
    if "verdicts" in fields:
        ids = definitions["SentenceVerdict"]["properties"]["sentence_id"]["enum"]
        verdicts = [
            {"rationale": "r", "label": "not-relevant", "sentence_id": each} for each in ids
        ]
        return json.dumps({"verdicts": verdicts})
    if "label" in fields:
        return json.dumps({"rationale": "r", "label": "essential"})
    if "experts" in fields:
        return json.dumps({"experts": ["surgery"]})
    return json.dumps({"context": "Background."})


@pytest.fixture
def model() -> ScriptedModel:
    return ScriptedModel(default_reply)


@pytest.fixture
def make_scripted_model() -> Callable[[Callable[[Request], object]], ScriptedModel]:
    """A model that does what `override` says, and is obedient where that says None."""

    def make(override: Callable[[Request], object]) -> ScriptedModel:
        return ScriptedModel(lambda request: override(request) or default_reply(request))  # type: ignore[arg-type,return-value]

    return make
