"""Why a question of FHIR-AgentBench went wrong, in the paper's classes of error.

The classes are derived from the record of its run.

Source: Lee et al., "FHIR-AgentBench" (ML4H 2025), error analysis: wrong resource type,
over-specific codes, references that are not followed, encounters of the wrong kind, text against
codes, code that fails; and the end of a conversation. Tags state only what the record shows: a
question may have several, and a question that went well has none.
"""

import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any, NamedTuple

from scoring.fhir_answers import final_answer_text, leading_yes_no, states_no_answer
from scoring.tasks.fhir_agentbench import Question

Ids = Mapping[str, Sequence[str]]

_REFERRING_TYPES = {
    "Medication": "MedicationRequest",
    "Location": "Encounter",
    "Specimen": "Observation",
}
"""Types without a search by patient, and the types whose references lead to them."""

_TAGS_BY_ERROR = (
    ("NotUnderstood", "not understood"),
    ("Input tokens exceeded", "context overflow"),
    ("ContextTooLong", "context overflow"),
    ("No tool calls found", "no tool called"),
    ("Expected '", "wrong tool called"),
    ("Refused", "refused"),
    ("Truncated", "cut off"),
)
_NO_FINAL_ANSWER = "No final answer reached within iteration limit"
_EMPTY_RESULT = re.compile(
    r"\A(?:\{\}|retrieved_\w+\['\w+'\] \(0 items\)|\{'\w+': \[\]\})\Z"
)
_CODE_SEARCH = re.compile(
    r"[?&](?:code|value-concept|medication\.code)(?P<modifier>:\w+)?=(?P<value>[^&]*)"
)
_SPECIFIC_CODE = re.compile(
    r"(?:https?|urn)(?::|%3A)|\|\S|%7C\S|^[\d-]+$", re.IGNORECASE
)


class Verdict(NamedTuple):
    """Whether the answer to a question is right, and all its resources were retrieved."""

    right: bool
    all_retrieved: bool


def error_tags(
    question: Question, row: Mapping[str, Any] | None, verdict: Verdict
) -> list[str]:
    """What went wrong with one question; empty if nothing.

    `row` is its record, None if there is none.
    """
    if row is None:
        return ["not answered"]
    if verdict.right and verdict.all_retrieved:
        return []
    tags = [*_conversation_tags(row), *_tool_tags(row)]
    if question.resources:
        retrieved = row.get("agent_fhir_resources") or {}
        tags += _retrieval_tags(question.resources, retrieved, verdict)
    tags += _answer_tags(question, row, verdict, explained=bool(tags))
    return list(dict.fromkeys(tags))


def error_table(
    failures: Mapping[str, Sequence[str]], questions: int
) -> dict[str, dict[str, float]]:
    """The number of questions with each tag, and their share of all.

    The most frequent tag comes first.
    """
    counts: Counter[str] = Counter()
    for tags in failures.values():
        counts.update(tags)
    table = {}
    for tag in sorted(counts, key=lambda tag: (-counts[tag], tag)):
        table[tag] = {"questions": float(counts[tag]), "share": counts[tag] / questions}
    return table


def _conversation_tags(row: Mapping[str, Any]) -> Iterator[str]:
    """How the conversation ended."""
    error = str(row.get("error") or "")
    if error:
        tags = (tag for text, tag in _TAGS_BY_ERROR if text in error)
        yield next(tags, "other error")
    if _NO_FINAL_ANSWER in str(row.get("agent_answer") or ""):
        yield "iteration limit"


def _tool_tags(row: Mapping[str, Any]) -> Iterator[str]:
    """Errors of the tools in a conversation, and searches for codes without a match."""
    for name, arguments, result in _tool_calls(row.get("trace") or ()):
        if "'error':" in result[:12]:
            yield "code exception" if name == "execute_python_code" else "tool error"
        search = _CODE_SEARCH.search(arguments)
        if search and _EMPTY_RESULT.match(result.strip()):
            is_specific = search["modifier"] is None and _SPECIFIC_CODE.search(
                search["value"]
            )
            yield "over-specific code" if is_specific else "text vs code"


def _tool_calls(trace: Any) -> Iterator[tuple[str, str, str]]:
    """The tool calls of a conversation that have a result: name, arguments, result.

    The arguments are one text that contains a query as it was sent.
    """
    if not isinstance(trace, list | tuple):
        return
    pending: dict[str, Mapping[str, Any]] = {}
    for turn in trace:
        if not isinstance(turn, Mapping):
            continue
        for call in turn.get("tool_calls") or ():
            pending[str(call.get("id"))] = call
        call = pending.pop(str(turn.get("tool_call_id")), None)
        if turn.get("role") != "tool" or call is None:
            continue
        arguments = call.get("arguments")
        if isinstance(arguments, str):
            with suppress(ValueError, RecursionError):
                arguments = json.loads(arguments)
        if isinstance(arguments, dict):
            arguments = " ".join(map(str, arguments.values()))
        yield str(call.get("name")), str(arguments), str(turn.get("content"))


def _retrieval_tags(gold: Ids, retrieved: Ids, verdict: Verdict) -> Iterator[str]:
    if verdict.all_retrieved:
        if set(gold) == {"Encounter"}:
            surplus = set(retrieved["Encounter"]) - set(gold["Encounter"])
            if surplus:
                yield "encounter filter"
        return
    for resource_type, ids in gold.items():
        if not set(retrieved.get(resource_type) or ()).isdisjoint(ids):
            continue
        if retrieved.get(_REFERRING_TYPES.get(resource_type, "")):
            yield "reference not followed"
        elif retrieved.get(resource_type):
            yield "wrong resources of the type"
        else:
            yield (
                "wrong resource type"
                if any(retrieved.values())
                else "nothing retrieved"
            )


def _answer_tags(
    question: Question, row: Mapping[str, Any], verdict: Verdict, *, explained: bool
) -> Iterator[str]:
    """What is wrong with the answer; `explained` if an earlier tag already tells why."""
    answer = row.get("agent_answer")
    if not verdict.right and answer is not None:
        text = final_answer_text(answer) if isinstance(answer, str) else ""
        # A plain no is an answer.
        is_declined = (
            bool(text) and states_no_answer(text) and leading_yes_no(text) is None
        )
        if not question.resources:
            yield "answered what is not there"
        elif is_declined:
            yield "declined what is there"
        elif verdict.all_retrieved and not explained:
            yield "wrong answer from the right resources"
    if not verdict.all_retrieved and not explained:
        yield "resources missed"
