"""Why a question of FHIR-AgentBench went wrong: the paper's classes of error, told from the record of its run.

Source: Lee et al., "FHIR-AgentBench" (ML4H 2025), error analysis: wrong resource type, over-specific codes, references
that are not followed, encounters of the wrong kind, text against codes, code that fails; and what ends a conversation.
Only what can be seen is told: a question may have several tags, and one that went well has none.
"""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from scoring.tasks.fhir_agentbench import Question
from scoring.values import final_answer_text, leading_yes_no, states_no_answer

Ids = Mapping[str, Sequence[str]]

_REFERRED = {"Medication": "MedicationRequest", "Location": "Encounter", "Specimen": "Observation"}
"""Types that are not a patient's own, and whose references lead to them."""

_ERRORS = (
    ("NotUnderstood", "not understood"),
    ("Input tokens exceeded", "context overflow"),
    ("ContextTooLong", "context overflow"),
    ("No tool calls found", "no tool called"),
    ("Expected '", "wrong tool called"),
    ("Refused", "refused"),
    ("Truncated", "cut off"),
)
_NO_FINAL = "No final answer reached within iteration limit"
_NOTHING = re.compile(r"\A(?:\{\}|retrieved_\w+\['\w+'\] \(0 items\)|\{'\w+': \[\]\})\Z")
_CODE = re.compile(r"[?&](?:code|value-concept|medication\.code)(?P<kind>:\w+)?=(?P<value>[^&]*)")
_SPECIFIC = re.compile(r"(?:https?|urn)(?::|%3A)|\|\S|%7C\S|^[\d-]+$", re.IGNORECASE)


class Verdict(NamedTuple):
    """How a question was scored: whether its answer is right, and whether all its resources were retrieved."""

    right: bool
    all_retrieved: bool


def error_tags(question: Question, row: Mapping[str, Any] | None, verdict: Verdict) -> list[str]:
    """What went wrong with one question, in words; empty if nothing. `row` is its record, None if there is none."""
    if row is None:
        return ["not answered"]
    if verdict.right and verdict.all_retrieved:
        return []
    found = [*_ended(row), *_of_tools(row)]
    if question.resources:
        found += _of_retrieval(question.resources, row.get("agent_fhir_resources") or {}, verdict)
    return list(dict.fromkeys([*found, *_of_answer(question, row, verdict, bool(found))]))


def error_table(
    failures: Mapping[str, Sequence[str]], questions: int
) -> dict[str, dict[str, float]]:
    """Each tag with the number of questions that have it, and their share of all; most frequent first."""
    counts: dict[str, int] = {}
    for found in failures.values():
        for each in found:
            counts[each] = counts.get(each, 0) + 1
    ordered = sorted(counts.items(), key=lambda pair: (-pair[1], pair[0]))
    return {tag: {"questions": float(count), "share": count / questions} for tag, count in ordered}


def _ended(row: Mapping[str, Any]) -> Iterator[str]:
    error = str(row.get("error") or "")
    if error:
        yield next((tag for words, tag in _ERRORS if words in error), "other error")
    if _NO_FINAL in str(row.get("agent_answer") or ""):
        yield "iteration limit"


def _of_tools(row: Mapping[str, Any]) -> Iterator[str]:
    """What the tools of a conversation could not do, and searches for codes that found nothing."""
    for name, arguments, result in _calls(row.get("trace") or ()):
        if "'error':" in result[:12]:
            yield "code exception" if name == "execute_python_code" else "tool error"
        searched = _CODE.search(arguments)
        if searched and _NOTHING.match(result.strip()):
            by_code = searched["kind"] is None and _SPECIFIC.search(searched["value"])
            yield "over-specific code" if by_code else "text vs code"


def _calls(trace: Any) -> Iterator[tuple[str, str, str]]:
    """Each tool call of a conversation: name, arguments, result."""
    turns = (
        [turn for turn in trace if isinstance(turn, Mapping)]
        if isinstance(trace, list | tuple)
        else []
    )
    waiting: dict[str, Mapping[str, Any]] = {}
    for turn in turns:
        for call in turn.get("tool_calls") or ():
            waiting[str(call.get("id"))] = call
        call = waiting.pop(str(turn.get("tool_call_id")), None)
        if turn.get("role") == "tool" and call is not None:
            yield str(call.get("name")), _plain(call.get("arguments")), str(turn.get("content"))


def _plain(arguments: Any) -> str:
    """Arguments as one text, in which a query stands as it was sent."""
    try:
        given = json.loads(arguments) if isinstance(arguments, str) else arguments
    except (ValueError, RecursionError):
        return str(arguments)
    return " ".join(map(str, given.values())) if isinstance(given, dict) else str(given)


def _of_retrieval(gold: Ids, got: Ids, verdict: Verdict) -> Iterator[str]:
    if not verdict.all_retrieved:
        for kind, ids in gold.items():
            if set(got.get(kind) or ()) & set(ids):
                continue
            by = _REFERRED.get(kind, "")
            if by and got.get(by):
                yield "reference not followed"
            elif not got.get(kind):
                yield "wrong resource type" if any(got.values()) else "nothing retrieved"
            else:
                yield "wrong resources of the type"
    elif set(gold) == {"Encounter"} and len(set(got["Encounter"])) > len(set(gold["Encounter"])):
        yield "encounter filter"


def _of_answer(
    question: Question, row: Mapping[str, Any], verdict: Verdict, explained: bool
) -> Iterator[str]:
    answer = row.get("agent_answer")
    if not verdict.right and answer is not None:
        if _declined(answer) and question.resources:
            yield "declined what is there"
        elif not question.resources:
            yield "answered what is not there"
        elif verdict.all_retrieved and not explained:
            yield "wrong answer from the right resources"
    if not verdict.all_retrieved and not explained:
        yield "resources missed"


def _declined(answer: Any) -> bool:
    """Whether an answer says that there is nothing; a plain no is an answer."""
    text = final_answer_text(answer) if isinstance(answer, str) else ""
    return bool(text) and states_no_answer(text) and leading_yes_no(text) is None
