"""A scripted model for runs, and a FHIR record with a file of questions about it."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from archqa.llm.model import Request
from archqa.llm.scripted import ScriptedModel
from tests.fhir.invented import build_store
from tests.runs.fhir_questions import RESOURCES, question_rows, write_csv


def default_reply(request: Request) -> str:
    """Call the first sentence of any note essential and answer from it."""
    fields = (request.output_schema or {}).get("properties", {})
    definitions = (request.output_schema or {}).get("$defs", {})
    if "essential" in fields:
        sentence_id = fields["essential"]["items"]["enum"][0]
        claim = {"text": "As the note says.", "citations": [sentence_id]}
        return json.dumps({"answer": [claim], "essential": [sentence_id]})
    if "verdicts" in fields:
        sentence_ids = definitions["SentenceVerdict"]["properties"]["sentence_id"][
            "enum"
        ]
        verdicts = []
        for sentence_id in sentence_ids:
            verdict = {
                "rationale": "r",
                "label": "not-relevant",
                "sentence_id": sentence_id,
            }
            verdicts.append(verdict)
        return json.dumps({"verdicts": verdicts})
    if "label" in fields:
        return json.dumps({"rationale": "r", "label": "essential"})
    if "experts" in fields:
        return json.dumps({"experts": ["general surgery"]})
    return json.dumps({"context": "Background."})


@pytest.fixture
def model() -> ScriptedModel:
    return ScriptedModel(default_reply)


@pytest.fixture
def make_scripted_model() -> Callable[[Callable[[Request], object]], ScriptedModel]:
    """Make a model that replies with `override`, or with `default_reply` where that is None."""

    def make(override: Callable[[Request], object]) -> ScriptedModel:
        return ScriptedModel(
            lambda request: override(request) or default_reply(request)
        )  # type: ignore[arg-type,return-value]

    return make


@pytest.fixture(scope="module")
def record(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file with the synthetic record."""
    folder = tmp_path_factory.mktemp("record")
    build_store(folder, RESOURCES).close()
    return folder / "record.db"


@pytest.fixture
def questions(tmp_path: Path) -> Path:
    """The question file."""
    return write_csv(tmp_path / "questions.csv", question_rows())
