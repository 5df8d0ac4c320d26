"""FHIR-AgentBench: clinical questions over a FHIR record with answers and their resources.

Source: `final_dataset/questions_answers_sql_fhir.csv` of glee4810/FHIR-AgentBench at bbb4290 (Lee
et al., ML4H 2025); a JSON list with the same fields is accepted too. `true_answer` is a printed
numpy array, `true_fhir_ids` a Python literal: both are parsed as literals and never evaluated.
"""

import ast
import json
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from archqa.core.question import RecordQuestion
from archqa.core.usage import Usage
from archqa.core.value import FrozenModel
from archqa.tasks.fhir_agentbench.result import RecordResult
from archqa.tasks.files.mistakes import FileErrors, is_blank, likely_typos, printable
from archqa.tasks.files.rows import Row, read_rows
from archqa.tasks.files.source import Source, read_source
from archqa.tasks.task import CaseSource, CompletedCase, TableColumns, Task

_FIX = "Not the form of FHIR-AgentBench's questions: CSV or JSON with the benchmark's columns."
_REQUIRED = ("question_id", "question")
_GOLD = ("true_answer", "true_fhir_ids")
_INPUT = (*_REQUIRED, "patient_fhir_id")
_OPTIONAL = ("patient_fhir_id", "assumption", "template", "split", "main_table_name")
_COLUMNS = TableColumns(
    id="question_id",
    required=(("question",), ("patient_fhir_id",)),
    optional=(*_OPTIONAL, *_GOLD),
    short_names={"id": "question_id", "patient": "patient_fhir_id"},
)


class FhirQuestion(FrozenModel):
    """One question about one patient.

    `true_answer` stays as printed; `true_fhir_ids` maps type to ids.
    """

    question_id: str
    question: str
    patient_fhir_id: str = ""
    assumption: str = ""
    true_answer: str = ""
    true_fhir_ids: dict[str, tuple[str, ...]] = {}
    template: str = ""
    split: str = ""
    main_table_name: str = ""


class QuestionFile(NamedTuple):
    """A question file; `sha256` is of its bytes."""

    path: str
    sha256: str
    questions: tuple[FhirQuestion, ...]


@dataclass(frozen=True)
class FhirAgentBench(Task):
    """FHIR-AgentBench: an agent receives a question, its patient and its assumption only."""

    columns: TableColumns = _COLUMNS

    def load(self, source: CaseSource) -> tuple[RecordQuestion, ...]:
        """The questions of a CSV or JSON file, without its answers, resources and templates.

        Raises `InputError` with every mistake of the file.
        """
        opened = read_source(source)
        mistakes = FileErrors(opened.path, _FIX)
        _check_columns(opened.content.fields, _INPUT, mistakes)
        mistakes.raise_if_any()
        rows = read_rows(opened, mistakes)
        questions = tuple(map(_record_question, rows))
        _report_repeated_ids(rows, [question.id for question in questions])
        mistakes.raise_if_any()
        return questions

    def dump_line(self, item: RecordQuestion) -> str:
        """A question as one line of a JSON Lines file, which `read_line` reads back unchanged."""
        fields = item.model_dump()
        return json.dumps({"question_id": fields.pop("id"), **fields}, ensure_ascii=False)

    def read_line(self, line: bytes, path: str) -> RecordQuestion:
        """The question in one line of a JSON Lines file.

        Raises `InputError` with every mistake of the line.
        """
        [question] = self.load(Source(path, b"[" + line.strip() + b"]"))
        return question

    def submission(self, ended: Iterable[CompletedCase]) -> list[dict[str, Any]]:
        """The benchmark's records with `cited_fhir_resources`, the evidence of each answer.

        Failed questions have a record as well.
        """
        records = []
        for completed in ended:
            if isinstance(completed.item, RecordQuestion):
                records.append(_submission_record(completed, completed.item))
        return records


def load_questions(source: CaseSource, *, gold: bool = True) -> QuestionFile:
    """The questions of a file, in its order.

    Without `gold`, the file may lack answers and resources.

    Raises `InputError` with every mistake of the file: absent columns, broken rows, missing or
    repeated ids, answers and resources that are not literals of their form.
    """
    opened = read_source(source)
    mistakes = FileErrors(opened.path, _FIX)
    required = (*_REQUIRED, *_GOLD) if gold else _REQUIRED
    _check_columns(opened.content.fields, required, mistakes)
    mistakes.raise_if_any()  # An absent column would be a mistake of every row below.
    rows = read_rows(opened, mistakes)
    questions = tuple(_parse_question(row, required) for row in rows)
    _report_repeated_ids(rows, [question.question_id for question in questions])
    mistakes.raise_if_any()
    return QuestionFile(opened.path, opened.sha256, questions)


def parse_numpy_array(printed: str) -> list[Any]:
    """The rows of a printed numpy array such as `[[70.3]]`, `[]` or `[['a']` line break ` ['b']]`.

    Source: the benchmark's own reading rule. Raises `ValueError` for a text that is not such an
    array, or an abbreviated one (`...`).
    """
    text = printed.replace("\r\n", "\n").replace("]\n [", "],[").replace("\n", ",")
    literal = re.sub(r"\bnan\b", "None", text)
    rows = _parse_literal(literal)
    if not isinstance(rows, list) or not all(map(_is_plain, _scalars(rows))):
        raise ValueError("no printed array")
    return rows


def _check_columns(columns: frozenset[str], required: Sequence[str], mistakes: FileErrors) -> None:
    typo_by_name = {}
    for typo, name in likely_typos(sorted(columns), (*required, *_OPTIONAL)):
        typo_by_name[name] = typo
    for name in required:
        if name in columns:
            continue
        hint = "."
        if name in typo_by_name:
            hint = f"; is it '{printable(typo_by_name[name])}'?"
        mistakes.add("", f"there is no column {name}{hint}")


def _parse_question(row: Row, required: Sequence[str]) -> FhirQuestion:
    fields: dict[str, Any] = {}
    for name in (*_REQUIRED, *_OPTIONAL):
        fields[name] = _parse_text(row, name, required=name in required)
    fields["true_answer"] = _parse_answer(row, required)
    fields["true_fhir_ids"] = _parse_resources(row, required)
    return FhirQuestion.model_validate(fields)


def _parse_text(row: Row, name: str, *, required: bool) -> str:
    value = row.value(name)
    if value is not None and not isinstance(value, str):
        row.add_error(name, "should be text in quotes.")
        return ""
    text = (value or "").strip()
    if required and is_blank(text):
        row.add_error(name, "is missing or empty.")
    return text


def _parse_answer(row: Row, required: Sequence[str]) -> str:
    value = row.value("true_answer")
    if value is None and "true_answer" not in required:
        return ""
    printed = repr(value) if isinstance(value, list) else value
    try:
        parse_numpy_array(printed if isinstance(printed, str) else "")
    except ValueError:
        row.add_error(
            "true_answer",
            "is no printed array; it should read like [[70.3]], [['a'], ['b']] or [].",
        )
        return ""
    return str(printed).replace("\r\n", "\n")


def _parse_resources(row: Row, required: Sequence[str]) -> dict[str, tuple[str, ...]]:
    value = row.value("true_fhir_ids")
    if value is None and "true_fhir_ids" not in required:
        return {}
    if isinstance(value, str):
        try:
            value = _parse_literal(value)
        except ValueError:
            value = None
    if not _are_resources(value):
        row.add_error("true_fhir_ids", "is no literal like {'Observation': ['id', 'id']} or {}.")
        return {}
    return {resource_type: tuple(ids) for resource_type, ids in value.items()}


def _are_resources(value: Any) -> bool:
    if not isinstance(value, dict):
        return False
    return all(isinstance(name, str) and _are_ids(ids) for name, ids in value.items())


def _are_ids(value: Any) -> bool:
    if not isinstance(value, list | tuple):
        return False
    return all(isinstance(resource_id, str) and resource_id for resource_id in value)


def _report_repeated_ids(rows: Sequence[Row], ids: Sequence[str]) -> None:
    previous_ids: set[str] = set()
    for row, question_id in zip(rows, ids, strict=True):
        if question_id and question_id in previous_ids:
            row.add_error(
                "question_id", f"'{printable(question_id)}' stands in an earlier row too; keep one."
            )
        previous_ids.add(question_id)


def _record_question(row: Row) -> RecordQuestion:
    fields = {}
    for name in (*_INPUT, "assumption"):
        fields[name] = _parse_text(row, name, required=name in _INPUT)
    return RecordQuestion(id=fields.pop("question_id"), **fields)


def _submission_record(completed: CompletedCase, question: RecordQuestion) -> dict[str, Any]:
    result = completed.result
    if not isinstance(result, RecordResult):
        result = RecordResult(answer=None)
    fields = result.to_json()
    context = f"Patient FHIR ID is {question.patient_fhir_id}. {question.assumption}".strip()
    return {
        "question_id": question.id,
        "question": question.question,
        "assumption": question.assumption,
        "question_with_context": f"Question: {question.question}\nContext: {context}",
        "patient_fhir_id": question.patient_fhir_id,
        "agent_answer": fields["agent_answer"],
        "agent_fhir_resources": fields["agent_fhir_resources"],
        "cited_fhir_resources": fields["cited_fhir_resources"],
        "trace": fields["trace"],
        "error": completed.error or None,
        "usage": _usage(completed.usage),
    }


def _usage(usage: Usage) -> dict[str, Any]:
    """The benchmark's counts; an unknown cost is null."""
    cost = usage.cost_usd
    return {
        "prompt_tokens": usage.prompt_tokens,
        "completion_tokens": usage.completion_tokens,
        "total_tokens": usage.prompt_tokens + usage.completion_tokens,
        "cost": None if cost is None else round(cost, 4),
        "llm_calls": usage.calls,
    }


def _parse_literal(text: str) -> Any:
    """A Python literal, never evaluated as code. Raises `ValueError`."""
    try:
        return ast.literal_eval(text.strip())
    except (SyntaxError, ValueError, TypeError, MemoryError, RecursionError):
        raise ValueError("no literal") from None


def _scalars(value: Any) -> Iterator[Any]:
    if isinstance(value, list):
        for part in value:
            yield from _scalars(part)
    else:
        yield value


def _is_plain(value: Any) -> bool:
    return value is None or isinstance(value, str | int | float)
