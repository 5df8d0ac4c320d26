"""FHIR-AgentBench: clinical questions over a FHIR record with answers and their resources.

Source: `final_dataset/questions_answers_sql_fhir.csv` of glee4810/FHIR-AgentBench at bbb4290 (Lee
et al., ML4H 2025); a JSON list with the same fields is accepted too. `true_answer` is a printed
numpy array, `true_fhir_ids` a Python literal: both are parsed as literals and never evaluated.
"""

import ast
import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Self, TypeVar

from archqa.core.question import RecordQuestion
from archqa.core.result import TaskResult, reference_names
from archqa.core.value import FrozenModel, JsonObject
from archqa.tasks.fhir_agentbench import NAME
from archqa.tasks.files.mistakes import (
    FileErrors,
    is_blank,
    likely_typos,
    printable,
    refuse_repeated_ids,
)
from archqa.tasks.files.source import Row, Source, read_rows, read_source
from archqa.tasks.task import (
    CaseSource,
    CompletedCase,
    ScoreDisplay,
    TableColumns,
    Task,
)

Ids = dict[str, tuple[str, ...]]
"""Resource ids by type."""

_FIELDS = {
    "agent_answer": "answer",
    "agent_fhir_resources": "retrieved",
    "cited_fhir_resources": "cited",
}
"""Fields of `RecordResult` by the benchmark's keys."""


class RecordResult(TaskResult):
    """The answer to a question.

    `retrieved` and `cited` map types to ids: all resources retrieved, and the evidence.

    `faults` counts the errors of tools by kind. `query`, `sentence`, `rows` and `warnings` are
    those of a typed query, `further_queries` what else a question of several parts needs.
    `declined` is the kind of judgement that was asked for, whose queries are of related facts;
    `handed_over` says what no query expresses, so that an agent answered with code.
    """

    answer: str | None
    retrieved: Ids = {}
    cited: Ids = {}
    trace: tuple[JsonObject, ...] = ()
    faults: dict[str, int] = {}
    query: JsonObject | None = None
    further_queries: tuple[JsonObject, ...] = ()
    sentence: str = ""
    rows: tuple[JsonObject, ...] = ()
    warnings: tuple[str, ...] = ()
    declined: str = ""
    handed_over: str = ""

    @property
    def queries(self) -> tuple[JsonObject, ...]:
        """All typed queries of the question."""
        return (self.query, *self.further_queries) if self.query else ()

    @classmethod
    def from_json(cls, content: Mapping[str, Any]) -> Self:
        """Parse what `to_json` wrote. Raises `ValidationError` if it is malformed."""
        fields = {_FIELDS.get(key, key): value for key, value in content.items()}
        return cls.model_validate({"answer": None, **fields})

    @property
    def answer_text(self) -> str | None:
        """The agent's answer."""
        return self.answer

    @property
    def cited_resources(self) -> tuple[str, ...]:
        """The cited resources as `Type/id`."""
        return reference_names(self.cited)

    @property
    def evidence_texts(self) -> dict[str, str]:
        """The rows of the typed query in words, by the resources that hold them."""
        rows = rows_by_reference(self.rows)
        return {
            reference: text for reference in rows if (text := row_text(rows[reference]))
        }

    def to_json(self) -> JsonObject:
        """The fields under the benchmark's keys, and archqa's own if they are not empty."""
        fields = self.model_dump(mode="json")
        content = {key: fields.pop(name) for key, name in _FIELDS.items()}
        content["trace"] = fields.pop("trace")
        content.update((name, value) for name, value in fields.items() if value)
        return content


def rows_by_reference(
    rows: Iterable[Mapping[str, Any]],
) -> dict[str, Mapping[str, Any]]:
    """Return the rows by each resource that holds them."""
    by_reference = {}
    for row in rows:
        for reference in row.get("references") or ():
            by_reference[str(reference)] = row
    return by_reference


def row_text(row: Mapping[str, Any]) -> str:
    """Return a row in words: time, name, value, unit."""
    time = str(row.get("time") or "").replace("T", " ")
    minutes = time[: len("2026-01-31 12:00")]
    fields = (minutes, row.get("name"), row.get("value"), row.get("unit"))
    return " ".join(str(field) for field in fields if field not in (None, ""))


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


Question = TypeVar("Question", RecordQuestion, FhirQuestion)


@dataclass(frozen=True)
class FhirAgentBench(Task):
    """FHIR-AgentBench: an agent receives a question, its patient and its assumption only."""

    columns: TableColumns = _COLUMNS

    def load(self, source: CaseSource) -> tuple[RecordQuestion, ...]:
        """The questions of a CSV or JSON file, without its answers, resources and templates.

        Raises `InputError` with every mistake of the file.
        """

        def parse(row: Row) -> RecordQuestion:
            fields = {}
            for name in (*_INPUT, "assumption"):
                fields[name] = _parse_text(row, name, required=name in _INPUT)
            return RecordQuestion(id=fields.pop("question_id"), **fields)

        return _read_questions(read_source(source), _INPUT, parse)

    def dump_line(self, item: RecordQuestion) -> str:
        """A question as one line of a JSON Lines file, which `read_line` reads back unchanged."""
        fields = item.model_dump()
        return json.dumps(
            {"question_id": fields.pop("id"), **fields}, ensure_ascii=False
        )

    def submission(self, ended: Iterable[CompletedCase]) -> list[JsonObject]:
        """The benchmark's records with `cited_fhir_resources`, the evidence of each answer.

        Failed questions have a record as well.
        """
        records = []
        for completed in ended:
            question, result = completed.item, completed.result
            if not isinstance(question, RecordQuestion):
                continue
            if not isinstance(result, RecordResult):
                result = RecordResult(answer=None)
            fields = result.to_json()
            context = (
                f"Patient FHIR ID is {question.patient_fhir_id}. {question.assumption}"
            )
            usage = completed.usage
            cost = usage.cost_usd  # An unknown cost is null.
            record = {
                "question_id": question.id,
                "question": question.question,
                "assumption": question.assumption,
                "question_with_context": (
                    f"Question: {question.question}\nContext: {context.strip()}"
                ),
                "patient_fhir_id": question.patient_fhir_id,
                "agent_answer": fields["agent_answer"],
                "agent_fhir_resources": fields["agent_fhir_resources"],
                "cited_fhir_resources": fields["cited_fhir_resources"],
                "trace": fields["trace"],
                "error": completed.error or None,
                "usage": {
                    "prompt_tokens": usage.prompt_tokens,
                    "completion_tokens": usage.completion_tokens,
                    "total_tokens": usage.prompt_tokens + usage.completion_tokens,
                    "cost": None if cost is None else round(cost, 4),
                    "llm_calls": usage.calls,
                },
            }
            records.append(record)
        return records


def load_questions(source: CaseSource) -> QuestionFile:
    """The questions of a file with their gold, in its order.

    Raises `InputError` with every mistake of the file: absent columns, broken rows, missing or
    repeated ids, answers and resources that are not literals of their form.
    """

    def parse(row: Row) -> FhirQuestion:
        fields: dict[str, Any] = {}
        for name in (*_REQUIRED, *_OPTIONAL):
            fields[name] = _parse_text(row, name, required=name in _REQUIRED)
        return FhirQuestion(
            true_answer=_parse_answer(row),
            true_fhir_ids=_parse_resources(row),
            **fields,
        )

    opened = read_source(source)
    questions = _read_questions(opened, (*_REQUIRED, *_GOLD), parse)
    return QuestionFile(opened.path, opened.sha256, questions)


def parse_numpy_array(printed: str) -> list[Any]:
    """The rows of a printed numpy array such as `[[70.3]]`, `[]` or `[['a']` line break ` ['b']]`.

    Source: the benchmark's own reading rule. Raises `ValueError` for a text that is not such an
    array, or an abbreviated one (`...`).
    """
    text = printed.replace("\r\n", "\n").replace("]\n [", "],[").replace("\n", ",")
    literal = re.sub(r"\bnan\b", "None", text)
    rows = _parse_literal(literal)
    if not isinstance(rows, list):
        raise ValueError("no printed array")
    for value in _scalars(rows):
        if value is not None and not isinstance(value, str | int | float):
            raise ValueError("no printed array")
    return rows


def _read_questions(
    source: Source, required: Sequence[str], parse: Callable[[Row], Question]
) -> tuple[Question, ...]:
    """The questions of a file with these columns. Raises `InputError` with all its mistakes."""
    mistakes = FileErrors(source.path, _FIX)
    columns = source.content.fields
    typo_of = {}
    for typo, name in likely_typos(sorted(columns), (*required, *_OPTIONAL)):
        typo_of[name] = typo
    for name in required:
        if name in typo_of:
            hint = f"; is it '{printable(typo_of[name])}'?"
            mistakes.add("", f"there is no column {name}{hint}")
        elif name not in columns:
            mistakes.add("", f"there is no column {name}.")
    mistakes.raise_if_any()  # An absent column would be a mistake of every row below.
    rows = read_rows(source, mistakes)
    questions = tuple(map(parse, rows))
    ids = []
    for question in questions:
        if isinstance(question, RecordQuestion):
            ids.append(question.id)
        else:
            ids.append(question.question_id)
    refuse_repeated_ids(
        rows, ids, "question_id", "stands in an earlier row too; keep one."
    )
    mistakes.raise_if_any()
    return questions


def _parse_text(row: Row, name: str, *, required: bool) -> str:
    value = row.value(name)
    if value is not None and not isinstance(value, str):
        row.add_error(name, "should be text in quotes.")
        return ""
    text = (value or "").strip()
    if required and is_blank(text):
        row.add_error(name, "is missing or empty.")
    return text


def _parse_answer(row: Row) -> str:
    value = row.value("true_answer")
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


def _parse_resources(row: Row) -> dict[str, tuple[str, ...]]:
    value = row.value("true_fhir_ids")
    if isinstance(value, str):
        try:
            value = _parse_literal(value)
        except ValueError:
            value = None
    if not isinstance(value, dict) or not all(map(_are_ids_of_a_type, value.items())):
        row.add_error(
            "true_fhir_ids", "is no literal like {'Observation': ['id', 'id']} or {}."
        )
        return {}
    return {resource_type: tuple(ids) for resource_type, ids in value.items()}


def _are_ids_of_a_type(entry: tuple[Any, Any]) -> bool:
    name, ids = entry
    if not isinstance(name, str) or not isinstance(ids, list | tuple):
        return False
    return all(isinstance(resource_id, str) and resource_id for resource_id in ids)


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


FHIR_AGENTBENCH = FhirAgentBench(
    NAME,
    "FHIR-AgentBench",
    marks=frozenset({"question", "patient_fhir_id"}),
    result_type=RecordResult,
    pipelines_path="archqa.tasks.fhir_agentbench.pipelines:RECORD_PIPELINES",
    scoring_path="archqa.tasks.fhir_agentbench.scoring:BRIDGE",
    display=ScoreDisplay(
        headline=("answer_correctness", "precision", "recall", "f1", "cited_f1"),
        max_score=1.0,
        decimals=3,
    ),
)
