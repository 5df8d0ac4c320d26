"""Replies of an obedient model, made from the JSON Schema of the request.

The same request always gets the same reply. Replies also pass the checks of archqa's agents that a
schema cannot express (every sentence once, essential = cited).
"""

import json
import random
import re
from collections.abc import Sequence
from typing import Any

from archqa.core.usage import Usage
from archqa.llm.model import FinishReason, Reply, ToolCall

Json = dict[str, Any]

SPECIALTIES = (
    "cardiology",
    "nephrology",
    "infectious disease",
    "general surgery",
    "haematology",
    "neurology",
    "geriatrics",
)

_WORDS = (  # noqa: SIM905
    "the patient was given treatment because findings on admission showed risk and later tests were better after "
    "care in hospital with close watch of blood pressure and kidney function until discharge home"
).split()

ENOUGH = 3
"""Tool results after which a reply is an answer."""

_PATIENT = re.compile(r"Patient FHIR ID is ([0-9A-Za-z.-]+?)\.?(?:\s|$)")
_SCHEMA_IN_TEXT = re.compile(
    r"fits this JSON Schema, and nothing else:\n(\{.*\})\s*$", re.DOTALL
)
_CHOSEN = re.compile(r"^The chosen sentences: (.+)$", re.MULTILINE)
_DRAFT = re.compile(r"<draft>\n(.*?)\n</draft>", re.DOTALL)
_CITED = re.compile(r"\(([^()]*)\)$", re.MULTILINE)
_MOST = re.compile(r"between 1 and (\d+) specialties")


def requested_schema(body: Json) -> Json | None:
    """The schema asked for: held to by the server, or only written at the end of the prompt."""
    response_format = body.get("response_format") or {}
    if response_format.get("type") == "json_schema":
        return _with_enums_inline(response_format["json_schema"]["schema"])
    written = _SCHEMA_IN_TEXT.search(body["messages"][-1]["content"] or "")
    if written is None:
        return None
    return _with_enums_inline(json.loads(written.group(1)))


def _with_enums_inline(schema: Json) -> Json:
    """A schema whose references to a mere list of choices are replaced by it."""
    inline: Json = _inline(schema, schema)
    return inline


def _inline(node: Any, root: Json) -> Any:
    if isinstance(node, list):
        return [_inline(child, root) for child in node]
    if not isinstance(node, dict):
        return node
    name = str(node.get("$ref", "")).rpartition("/")[2]
    choices = root.get("$defs", {}).get(name, {})
    if "enum" in choices:
        return choices
    return {keyword: _inline(child, root) for keyword, child in node.items()}


def reply_content(schema: Json | None, prompt: str, seed: str) -> Json | str:
    """A reply to `prompt` that fits `schema`; prose where there is none."""
    chance = random.Random(seed)
    if schema is None:
        return f"{_prose(chance, 20)} The final answer is: {chance.randint(0, 9)}"
    names = set(schema.get("properties", {}))
    if names == {"verdicts"}:
        return _verdicts(schema, chance)
    if "answer" in names and _ids(schema, "citations"):
        return _answer(schema, prompt, chance)
    if names == {"experts"}:
        return _experts(prompt, chance)
    filled = _fill(schema, schema.get("$defs", {}), chance)
    assert isinstance(filled, dict)
    return filled


def reply_tool_calls(body: Json, prompt: str, seed: str) -> list[Json]:
    """The tools that a reply calls: one or two a turn until there are `ENOUGH` results."""
    tools = [tool["function"] for tool in body.get("tools") or ()]
    results = sum(message["role"] == "tool" for message in body["messages"])
    if not tools or results >= ENOUGH:
        return []
    chance = random.Random(seed)
    chosen = [
        chance.choice(tools)
        for _ in range(chance.choice((1, 2)) if body.get("parallel_tool_calls") else 1)
    ]
    return [
        _call(tool, number, prompt, chance)
        for number, tool in enumerate(chosen, start=results + 1)
    ]


def _call(tool: Json, number: int, prompt: str, chance: random.Random) -> Json:
    parameters = tool["parameters"]
    arguments = _fill(parameters, parameters.get("$defs", {}), chance)
    patient = _PATIENT.search(prompt)
    plausible = {
        "patient_fhir_id": patient.group(1) if patient else "nobody",
        "resource_type": chance.choice(
            ("Encounter", "Observation", "MedicationRequest")
        ),
        "code": "answer = 6 * 7",
    }
    arguments |= {name: value for name, value in plausible.items() if name in arguments}
    if "query_string" in arguments:
        arguments["query_string"] = f"Encounter?patient={plausible['patient_fhir_id']}"
    function = {"name": tool["name"], "arguments": json.dumps(arguments)}
    return {"id": f"call_{number}", "type": "function", "function": function}


def ids_in(schema: Json) -> list[str]:
    """The sentence ids a schema leaves to choose from."""
    return _ids(schema, "sentence_id") or _ids(schema, "citations")


def _verdicts(schema: Json, chance: random.Random) -> Json:
    item = _resolved(schema["properties"]["verdicts"]["items"], schema["$defs"])
    verdicts = []
    for sentence_id in ids_in(schema):
        verdict = _fill(item, schema["$defs"], chance)
        verdicts.append({**verdict, "sentence_id": sentence_id})
    return {"verdicts": verdicts}


def _answer(schema: Json, prompt: str, chance: random.Random) -> Json:
    """An answer that cites the chosen sentences, the draft's citations, or a sample of the note."""
    cited = _must_cite(prompt) or _sample(_ids(schema, "citations"), chance)
    middle = (len(cited) + 1) // 2
    lines = [_line(part, chance) for part in (cited[:middle], cited[middle:]) if part]
    return {"answer": lines} | (
        {"essential": cited} if "essential" in schema["properties"] else {}
    )


def _must_cite(prompt: str) -> list[str]:
    chosen, draft = _CHOSEN.search(prompt), _DRAFT.search(prompt)
    if chosen:
        return chosen.group(1).split(", ")
    cited = _CITED.findall(draft.group(1)) if draft else []
    return list(dict.fromkeys(id_ for ids in cited for id_ in ids.split(", ") if id_))


def _line(citations: list[str], chance: random.Random) -> Json:
    return {"text": _prose(chance, 12), "citations": citations}


def _experts(prompt: str, chance: random.Random) -> Json:
    most = _MOST.search(prompt)
    count = min(chance.choice((2, 3)), int(most.group(1)) if most else 3)
    return {"experts": chance.sample(SPECIALTIES, count)}


def _sample(ids: Sequence[str], chance: random.Random) -> list[str]:
    """Up to four ids in their own order."""
    chosen = set(chance.sample(ids, min(len(ids), chance.randint(2, 4))))
    return [id_ for id_ in ids if id_ in chosen]


def _prose(chance: random.Random, words: int) -> str:
    return " ".join(chance.choices(_WORDS, k=words)).capitalize() + "."


def _fill(node: Json, defs: Json, chance: random.Random) -> Any:
    """Anything that fits a schema node."""
    node = _resolved(node, defs)
    if "enum" in node:
        return chance.choice(node["enum"])
    if "const" in node:
        return node["const"]
    if "anyOf" in node:
        return _fill(node["anyOf"][0], defs, chance)
    return _of_type(node, defs, chance)


def _of_type(node: Json, defs: Json, chance: random.Random) -> Any:
    kind = node.get("type", "object")
    if kind == "object":
        return {
            name: _fill(child, defs, chance)
            for name, child in node.get("properties", {}).items()
        }
    if kind == "array":
        count = max(node.get("minItems", 0), 2)
        return [_fill(node["items"], defs, chance) for _ in range(count)]
    plain = {
        "string": _prose(chance, 9),
        "integer": chance.randint(0, 9),
        "number": 0.5,
        "boolean": True,
    }
    return plain.get(kind)


def _resolved(node: Json, defs: Json) -> Json:
    if "$ref" not in node:
        return node
    name = node["$ref"].rsplit("/", 1)[1]
    definition: Json = defs[name]
    return definition


def _ids(node: Any, name: str) -> list[str]:
    """The enum under the property `name`, wherever in the schema it is."""
    if isinstance(node, list):
        for child in node:
            ids = _ids(child, name)
            if ids:
                return ids
        return []
    if not isinstance(node, dict):
        return []
    here = node.get("properties", {}).get(name)
    if here is not None:
        return list(here.get("enum") or here.get("items", {}).get("enum") or [])
    return _ids(list(node.values()), name)


def refusal_reply(text: str = "I cannot help with that.") -> Reply:
    """A reply in which the model declines."""
    return Reply(text=text, finish=FinishReason.REFUSED, usage=Usage(calls=1))


def truncated_reply(text: str) -> Reply:
    """A reply that ended at its token limit."""
    return Reply(text=text, finish=FinishReason.LENGTH, usage=Usage(calls=1))


def tool_call_reply(*calls: tuple[str, dict[str, Any]], text: str = "") -> Reply:
    """A reply that calls tools by name and arguments: `tool_call_reply(("add", {"a": 1}))`."""
    tool_calls = []
    for number, (name, arguments) in enumerate(calls, start=1):
        tool_call = ToolCall(
            id=f"call_{number}", name=name, arguments=json.dumps(arguments)
        )
        tool_calls.append(tool_call)
    return Reply(text=text, usage=Usage(calls=1), tool_calls=tuple(tool_calls))
