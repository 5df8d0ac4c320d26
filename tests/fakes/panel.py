"""A scripted panel: models that hold some sentences essential, each in the form the agent asks for."""

import json
import re
from collections.abc import Callable, Iterable
from typing import Any

from archqa.llm.model import Request


def sentence_ids_in_schema(request: Request) -> list[str]:
    """The ids that the request's schema allows."""
    ids: list[str] = []

    def walk(node: Any, under: str = "") -> None:
        if isinstance(node, dict):
            if "enum" in node and under in {"sentence_id", "citations", "evidence_id", "essential"}:
                ids.extend(value for value in node["enum"] if value not in ids)
            for name, child in node.items():
                walk(child, under if name in {"items", "anyOf"} else name)
        elif isinstance(node, list):
            for child in node:
                walk(child, under)

    walk(request.output_schema or {})
    return ids


def scripted_panel_model(
    essential: Iterable[str] | Callable[[Request], Iterable[str]],
    *,
    sure: int = 90,
    unsure: int = 5,
) -> Callable[[Request], str]:
    """A model that calls these sentences essential, `sure` percent, and the others `unsure`."""

    def answer(request: Request) -> str:
        essential_everywhere = list(essential(request) if callable(essential) else essential)
        ids = sentence_ids_in_schema(request)
        essential_ids = [id_ for id_ in ids if id_ in essential_everywhere]
        lines = [
            {"text": f"It says {id_}.", "citations": [id_]} for id_ in essential_ids or ids[:1]
        ]
        return json.dumps(_reply(request, ids, essential_ids, lines, sure, unsure))

    return answer


def _reply(
    request: Request,
    ids: list[str],
    essential_ids: list[str],
    lines: list[dict[str, Any]],
    sure: int,
    unsure: int,
) -> dict[str, Any]:
    fields = (request.output_schema or {}).get("properties", {})
    if "verdicts" in fields:
        labels = {id_: "essential" if id_ in essential_ids else "not-relevant" for id_ in ids}
        rows = [
            {"rationale": "r", "label": label, "sentence_id": id_} for id_, label in labels.items()
        ]
        return {
            "verdicts": [
                {**row, "percent": sure if row["sentence_id"] in essential_ids else unsure}
                for row in rows
            ]
        }
    if "answers" in fields:
        roles = [{"sentence_id": id_, "role": "decisive"} for id_ in essential_ids or ids[:1]]
        return {"answers": [{"answer": lines}] * _asked_for(request), "roles": roles}
    if "checks" in fields:
        return {
            "checks": [
                {"rationale": "r", "keep": id_ in essential_ids, "sentence_id": id_} for id_ in ids
            ]
        }
    if "links" in fields:
        answers = request.output_schema["$defs"]["AnswerLinks"]["properties"]["answer_id"]["enum"]  # type: ignore[index]
        return {
            "links": [
                {"rationale": "r", "answer_id": id_, "evidence_id": essential_ids}
                for id_ in answers
            ]
        }
    if "experts" in fields:
        return {"experts": ["general surgery"]}
    if "question" in fields:
        return {"question": "Why was the tube placed?"}
    if "context" in fields:
        return {"context": "Background."}
    return {"answer": _over(lines, request)}


def _over(lines: list[dict[str, Any]], request: Request) -> list[dict[str, Any]]:
    """The deciding agent cites what it was told to, whatever this model holds."""
    listed = request.messages[1].content.rpartition("The chosen sentences: ")[2].partition("\n")[0]
    chosen = [id_.strip() for id_ in listed.split(",") if id_.strip()]
    return [{"text": "It drained the abscess.", "citations": chosen}] if chosen else lines


def _asked_for(request: Request) -> int:
    prompt = "\n".join(message.content for message in request.messages)
    found = re.search(r"(?:Write|holds) (\d+) answer", prompt)
    return int(found[1]) if found else 3
