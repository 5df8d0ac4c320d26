"""A scripted model that answers questions about notes, and approves of what it answered."""

import json
from collections.abc import Callable

from archqa.llm.model import Reply, Request
from archqa.llm.scripted import ScriptedModel


def answering(
    *lines: tuple[str, str], status: str = "answered", missing: str = ""
) -> str:
    """The reply of a model that answers with lines, each a text and the id of a sentence."""
    return json.dumps(
        {
            "rationale": "r",
            "status": status,
            "lines": [{"text": text, "citations": [cited]} for text, cited in lines],
            "missing": missing,
            "not_understood": [],
        }
    )


def scripted_answers(answer: Callable[[Request], str | Exception]) -> ScriptedModel:
    """A model whose answers are checked by itself, and found to be supported."""

    def reply(request: Request) -> str | Reply | Exception:
        definitions = (request.output_schema or {}).get("$defs", {})
        if "LineVerdict" not in definitions:
            return answer(request)
        numbers = definitions["LineVerdict"]["properties"]["line"]["enum"]
        verdicts = [
            {"line": number, "rationale": "r", "verdict": "supported"}
            for number in numbers
        ]
        return json.dumps({"lines": verdicts, "rationale": "r", "answers": "yes"})

    return ScriptedModel(reply)
