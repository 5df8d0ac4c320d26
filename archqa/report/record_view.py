"""The views of what was asked of a FHIR record: a question with its query and rows, or a task."""

import ast
import json
import re
from collections.abc import Mapping
from contextlib import suppress
from typing import Any, NamedTuple

from archqa.core.result import reference_names
from archqa.report.page import MARK_SYMBOLS, shorten
from archqa.report.timeline import TimelinePanel, timeline_panels
from archqa.runs.record import CaseRecord
from archqa.tasks.fhir_agentbench.cases import FhirQuestion
from archqa.tasks.fhir_agentbench.result import RecordResult
from archqa.tasks.medagentbench.result import ConversationResult

_MAX_ROWS = 200
_MAX_TURN_LENGTH = 4000
_MAX_TURNS = 40
_ACTIONS = frozenset({"GET", "POST", "FINISH"})
_BEGINNING = re.compile(r"[`\n ]*([^( ]*)")
"""The beginning of an agent's message, without a code fence, up to a bracket or space."""

_GRADERS = {"success_rate": "official grader", "clinical_success_rate": "clinical grader"}

_ROW_BREAK = re.compile(r"\]\s*\n\s*\[")
_MISSING = re.compile(r"\b(?:nan|null)\b")


class Reference(NamedTuple):
    """A resource that was cited, or should have been."""

    name: str
    mark: str
    symbol: str


class RowView(NamedTuple):
    """One row of the query's result; the answer rests on those that are `chosen`."""

    time: str
    name: str
    value: str
    unit: str
    references: tuple[str, ...]
    chosen: bool


class FhirQuestionView(NamedTuple):
    """The result of one run for a question. `omitted` rows are in the run folder only."""

    query_text: str
    answer: str
    gold: str
    rows: tuple[RowView, ...]
    omitted: int
    chosen: int
    timelines: tuple[TimelinePanel, ...]
    references: tuple[Reference, ...]
    warnings: tuple[str, ...]
    faults: tuple[str, ...]
    query: Any


class Turn(NamedTuple):
    """One message. `role` is prompt, agent or record; `action` is empty unless the agent's."""

    role: str
    action: str
    text: str


class GraderFinding(NamedTuple):
    """One finding of a grader; `passed` is None for a remark."""

    grader: str
    passed: bool | None
    text: str


class ClinicalTaskView(NamedTuple):
    """The result of one run for a task. `omitted` messages are in the run folder only."""

    turns: tuple[Turn, ...]
    omitted: int
    answer: str
    findings: tuple[GraderFinding, ...]


def fhir_question_view(
    record: CaseRecord | None,
    gold: FhirQuestion | None,
    faults: Mapping[str, Any],
) -> FhirQuestionView:
    """Return the view of a record's `result`; fields that a pipeline does not write are empty.

    `faults` has the scorer's `tags`. Of many rows, the chosen ones are preferred.
    """
    result = RecordResult(answer=None)
    if record and isinstance(record.result, RecordResult):
        result = record.result
    answer = result.answer
    if answer is None:
        answer = record.error if record else ""
    chosen_indices = []
    other_indices = []
    for index, row in enumerate(result.rows):
        if row.get("chosen"):
            chosen_indices.append(index)
        else:
            other_indices.append(index)
    row_views = []
    for index in sorted([*chosen_indices, *other_indices][:_MAX_ROWS]):
        row_views.append(_row_view(result.rows[index]))
    fault_names = []
    for tag in faults.get("tags") or ():
        fault_names.append(str(tag).replace("_", " "))
    return FhirQuestionView(
        query_text=result.sentence,
        answer=answer_text(answer),
        gold=answer_text(gold.true_answer) if gold else "",
        rows=tuple(row_views),
        omitted=len(result.rows) - len(row_views),
        chosen=len(chosen_indices),
        timelines=timeline_panels(result.rows),
        references=_references(result, gold),
        warnings=result.warnings,
        faults=tuple(fault_names),
        query=result.query,
    )


def _row_view(row: Mapping[str, Any]) -> RowView:
    references = row.get("references") or ()
    if isinstance(references, str):
        references = (references,)
    time = str(row.get("time") or "")
    return RowView(
        time=time.replace("T", " ")[:16],
        name=_value_text(row.get("name")),
        value=_value_text(row.get("value")) or _value_text(row.get("text")),
        unit=_value_text(row.get("unit")),
        references=tuple(map(str, references)),
        chosen=bool(row.get("chosen")),
    )


def _value_text(value: Any) -> str:
    if value is None:
        return ""
    return f"{value:g}" if isinstance(value, float) else str(value)


def _references(result: RecordResult, gold: FhirQuestion | None) -> tuple[Reference, ...]:
    cited = set(reference_names(result.cited or result.retrieved))
    expected = set(reference_names(gold.true_fhir_ids)) if gold else set()
    references = []
    for name in sorted(cited | expected):
        mark = "cited"
        if name not in cited:
            mark = "missed"
        elif gold is not None:
            mark = "right" if name in expected else "wrong"
        references.append(Reference(name, mark, MARK_SYMBOLS[mark]))
    return tuple(references)


def answer_text(answer: str) -> str:
    """Return the values of an answer that is a JSON list or a printed array.

    `["a", "b"]` becomes `a, b`, and `[["a", 1], ["b", 2]]` becomes `a, 1; b, 2`. Any other text is
    returned as it is.
    """
    values = _parse_list(answer)
    if values is None:
        return answer
    if all(isinstance(value, list) and len(value) == 1 for value in values):
        values = [value[0] for value in values]
    if any(isinstance(value, list) for value in values):
        return "; ".join(map(_list_text, values))
    return _list_text(values)


def _parse_list(answer: str) -> list[Any] | None:
    """Return the list; a printed numpy array has line breaks for commas, and nan for no value."""
    if not answer.lstrip().startswith("["):
        return None
    with_commas = _ROW_BREAK.sub("],[", answer).replace("\n", ",")
    printed = _MISSING.sub("None", with_commas)
    readings = ((json.loads, answer), (ast.literal_eval, printed))
    for read, text in readings:
        with suppress(ValueError, SyntaxError, MemoryError, RecursionError):
            values = read(text)
            return values if isinstance(values, list) else None
    return None


def _list_text(values: Any) -> str:
    texts = []
    for value in values if isinstance(values, list) else [values]:
        if value is None:
            texts.append("no value")
        elif isinstance(value, str):
            texts.append(value)
        else:
            texts.append(json.dumps(value, ensure_ascii=False, default=str))
    return ", ".join(texts) or "no value"


def clinical_task_view(
    record: CaseRecord | None,
    scores: Mapping[str, float],
    faults: Mapping[str, Any],
) -> ClinicalTaskView:
    """Return the view of a record's `result`.

    `scores` are those of the task, 100 for a pass; `faults` are the mistakes by grader.
    """
    result = ConversationResult(result="")
    if record and isinstance(record.result, ConversationResult):
        result = record.result
    turns = []
    for index, message in enumerate(result.history[:_MAX_TURNS]):
        text = str(message.get("content") or "")
        role = "record" if index else "prompt"
        action = ""
        if message.get("role") in {"agent", "assistant"}:
            role = "agent"
            beginning = _BEGINNING.match(text)
            word = beginning.group(1).upper() if beginning else ""
            action = word if word in _ACTIONS else ""
        turns.append(Turn(role, action, shorten(text, _MAX_TURN_LENGTH)))
    findings = []
    for metric, grader in _GRADERS.items():
        if metric in scores:
            passed = scores[metric] > 0
            findings.append(GraderFinding(grader, passed, "passed" if passed else "not passed"))
    for grader, grader_faults in faults.items():
        if not isinstance(grader_faults, list | tuple):
            grader_faults = [grader_faults]
        for fault in filter(None, grader_faults):
            findings.append(GraderFinding(f"{grader} grader", None, _fault_text(fault)))
    return ClinicalTaskView(
        turns=tuple(turns),
        omitted=len(result.history) - len(turns),
        answer=result.result or "",
        findings=tuple(findings),
    )


def _fault_text(fault: Any) -> str:
    if not isinstance(fault, Mapping):
        return str(fault)
    parts = []
    for part in fault.values():
        if part not in (None, ""):
            parts.append(str(part))
    return ": ".join(parts)
