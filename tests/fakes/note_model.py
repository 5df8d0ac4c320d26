"""A scripted model that holds some sentences of a note essential, in the form that each agent asks for."""

import json
from collections.abc import Callable, Iterable
from typing import Any

from archqa.llm.model import Request


def scripted_note_model(
    essential: Iterable[str] | Callable[[Request], Iterable[str]],
) -> Callable[[Request], str]:
    """A model that calls these sentences essential and rests its answer on them."""

    def answer(request: Request) -> str:
        essential_everywhere = list(
            essential(request) if callable(essential) else essential
        )
        ids = _sentence_ids_in_schema(request)
        essential_ids = [id_ for id_ in ids if id_ in essential_everywhere]
        return json.dumps(_reply(request, ids, essential_ids))

    return answer


def _sentence_ids_in_schema(request: Request) -> list[str]:
    """The ids that the request's schema allows."""
    ids: list[str] = []

    def walk(node: Any, under: str = "") -> None:
        if isinstance(node, dict):
            if "enum" in node and under in {
                "sentence_id",
                "citations",
                "evidence_id",
                "essential",
            }:
                ids.extend(value for value in node["enum"] if value not in ids)
            for name, child in node.items():
                walk(child, under if name in {"items", "anyOf"} else name)
        elif isinstance(node, list):
            for child in node:
                walk(child, under)

    walk(request.output_schema or {})
    return ids


def _reply(
    request: Request, ids: list[str], essential_ids: list[str]
) -> dict[str, Any]:
    schema = request.output_schema or {}
    fields = schema.get("properties", {})
    if "label" in fields:
        return {"rationale": "r", "label": "essential"}
    if "verdicts" in fields:
        labels = {
            id_: "essential" if id_ in essential_ids else "not-relevant" for id_ in ids
        }
        rows = [
            {"rationale": "r", "label": label, "sentence_id": id_}
            for id_, label in labels.items()
        ]
        return {"verdicts": rows}
    if "links" in fields:
        answers = schema["$defs"]["AnswerLinks"]["properties"]["answer_id"]["enum"]
        links = [
            {"rationale": "r", "answer_id": id_, "evidence_id": essential_ids}
            for id_ in answers
        ]
        return {"links": links}
    if "experts" in fields:
        return {"experts": ["general surgery"]}
    if "question" in fields:
        return {"question": "Why was the tube placed?"}
    if "context" in fields:
        return {"context": "Background."}
    cited = essential_ids or ids[:1]
    lines = [{"text": f"It says {id_}.", "citations": [id_]} for id_ in cited]
    return (
        {"answer": lines, "essential": cited}
        if "essential" in fields
        else {"answer": lines}
    )
