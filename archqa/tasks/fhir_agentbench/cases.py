"""FHIR-AgentBench: clinical questions over a FHIR record, each with its answer and the resources that hold it.

Source: `final_dataset/questions_answers_sql_fhir.csv` of glee4810/FHIR-AgentBench at bbb4290 (Lee et al., ML4H 2025); a
JSON list with the same fields is read, too. `true_answer` is a printed numpy array, `true_fhir_ids` a Python literal:
both are only ever read as literals.
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
from archqa.tasks.files.mistakes import FileErrors, likely_typos, printable
from archqa.tasks.files.rows import Row, read_rows
from archqa.tasks.files.source import Source, read_source
from archqa.tasks.task import CaseSource, CompletedCase, Task

_FIX = "Not the form of FHIR-AgentBench's questions: CSV or JSON with the benchmark's columns."
_ALWAYS = ("question_id", "question")
_GOLD = ("true_answer", "true_fhir_ids")
_ASKED = (*_ALWAYS, "patient_fhir_id")
_OPTIONAL = ("patient_fhir_id", "assumption", "template", "split", "main_table_name")


class FhirQuestion(FrozenModel):
    """One question about one patient. `true_answer` stays as printed; `true_fhir_ids` maps type to ids."""

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
    """A question file as it was read; `sha256` is of its bytes."""

    path: str
    sha256: str
    questions: tuple[FhirQuestion, ...]


@dataclass(frozen=True)
class FhirAgentBench(Task):
    """FHIR-AgentBench: what an agent is given of a question is its words, its patient and its assumption."""

    def load(self, source: CaseSource) -> tuple[RecordQuestion, ...]:
        """The questions of a CSV or JSON file; answers, resources and templates in it are not even read.

        Raises `InputError` with every mistake of the file.
        """
        opened = read_source(source)
        mistakes = FileErrors(opened.path, _FIX)
        _check_columns(opened.content.fields, _ASKED, mistakes)
        mistakes.settle()
        rows = read_rows(opened, mistakes)
        questions = tuple(_record_question(row) for row in rows)
        _refuse_twins(rows, [each.id for each in questions])
        mistakes.settle()
        return questions

    def dump_line(self, item: RecordQuestion) -> str:
        """A question as one line of a JSON Lines file, which `read_line` reads back unchanged."""
        fields = item.model_dump()
        return json.dumps({"question_id": fields.pop("id"), **fields}, ensure_ascii=False)

    def read_line(self, line: bytes, path: str) -> RecordQuestion:
        """The question in one line of a JSON Lines file. Raises `InputError` with every mistake of the line."""
        [question] = self.load(Source(path, b"[" + line.strip() + b"]"))
        return question

    def submission(self, ended: Iterable[CompletedCase]) -> list[dict[str, Any]]:
        """The benchmark's records, and `cited_fhir_resources`: what each answer rests on. Failed questions, too."""
        return [_record(each) for each in ended if isinstance(each.item, RecordQuestion)]


def load_questions(source: CaseSource, *, gold: bool = True) -> QuestionFile:
    """The questions of a file, in its order. Without `gold`, answers and resources may be withheld.

    Raises `InputError` with every mistake of the file: absent columns, broken rows, ids that are missing or stand
    twice, answers and resources that are no literals of their form.
    """
    opened = read_source(source)
    mistakes = FileErrors(opened.path, _FIX)
    wanted = (*_ALWAYS, *(_GOLD if gold else ()))
    _check_columns(opened.content.fields, wanted, mistakes)
    mistakes.settle()  # What follows would say the same of every row.
    rows = read_rows(opened, mistakes)
    questions = tuple(_question(row, wanted) for row in rows)
    _refuse_twins(rows, [each.question_id for each in questions])
    mistakes.settle()
    return QuestionFile(opened.path, opened.sha256, questions)


def parse_numpy_array(printed: str) -> list[Any]:
    """The rows of a printed numpy array such as `[[70.3]]`, `[]` or `[['a']` line break ` ['b']]`.

    Source: the benchmark's own reading rule. Raises `ValueError` for a text that is no such array, or an abbreviated
    one (`...`).
    """
    text = printed.replace("\r\n", "\n").replace("]\n [", "],[").replace("\n", ",")
    value = _literal(re.sub(r"\bnan\b", "None", text))
    if not isinstance(value, list) or not all(map(_is_plain, _scalars(value))):
        raise ValueError("no printed array")
    return value


def _check_columns(given: frozenset[str], wanted: Sequence[str], mistakes: FileErrors) -> None:
    meant = {right: wrong for wrong, right in likely_typos(sorted(given), (*wanted, *_OPTIONAL))}
    for name in wanted:
        if name not in given:
            hint = f"; is it '{printable(meant[name])}'?" if name in meant else "."
            mistakes.add("", f"there is no column {name}{hint}")


def _question(row: Row, wanted: Sequence[str]) -> FhirQuestion:
    texts = {name: _text(row, name, needed=name in wanted) for name in (*_ALWAYS, *_OPTIONAL)}
    gold = {"true_answer": _answer(row, wanted), "true_fhir_ids": _resources(row, wanted)}
    return FhirQuestion.model_validate({**texts, **gold})


def _text(row: Row, name: str, *, needed: bool) -> str:
    value = row.value(name)
    if value is not None and not isinstance(value, str):
        row.complain(name, "should be text in quotes.")
    elif needed and not (value or "").strip():
        row.complain(name, "is missing or empty.")
    return value.strip() if isinstance(value, str) else ""


def _answer(row: Row, wanted: Sequence[str]) -> str:
    value = row.value("true_answer")
    if value is None and "true_answer" not in wanted:
        return ""
    printed = repr(value) if isinstance(value, list) else value
    try:
        parse_numpy_array(printed if isinstance(printed, str) else "")
    except ValueError:
        row.complain(
            "true_answer",
            "is no printed array; it should read like [[70.3]], [['a'], ['b']] or [].",
        )
        return ""
    return str(printed).replace("\r\n", "\n")


def _resources(row: Row, wanted: Sequence[str]) -> dict[str, tuple[str, ...]]:
    value = row.value("true_fhir_ids")
    if value is None and "true_fhir_ids" not in wanted:
        return {}
    try:
        found = _literal(value) if isinstance(value, str) else value
    except ValueError:
        found = None
    if not _are_resources(found):
        row.complain("true_fhir_ids", "is no literal like {'Observation': ['id', 'id']} or {}.")
        return {}
    return {kind: tuple(ids) for kind, ids in found.items()}


def _are_resources(value: Any) -> bool:
    return isinstance(value, dict) and all(
        isinstance(kind, str)
        and isinstance(ids, list | tuple)
        and all(isinstance(one, str) and one for one in ids)
        for kind, ids in value.items()
    )


def _refuse_twins(rows: Sequence[Row], ids: Sequence[str]) -> None:
    seen: set[str] = set()
    for row, each in zip(rows, ids, strict=True):
        if each and each in seen:
            row.complain(
                "question_id", f"'{printable(each)}' stands in an earlier row too; keep one."
            )
        seen.add(each)


def _record_question(row: Row) -> RecordQuestion:
    texts = {name: _text(row, name, needed=name in _ASKED) for name in (*_ASKED, "assumption")}
    return RecordQuestion(id=texts.pop("question_id"), **texts)


def _record(ended: CompletedCase) -> dict[str, Any]:
    question = ended.item
    assert isinstance(question, RecordQuestion)
    result = ended.result if isinstance(ended.result, RecordResult) else RecordResult(answer=None)
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
        "error": ended.error or None,
        "usage": _usage(ended.usage),
    }


def _usage(usage: Usage) -> dict[str, Any]:
    """As the benchmark counts it; a cost that is not known is null."""
    return {
        "prompt_tokens": usage.prompt_tokens,
        "completion_tokens": usage.completion_tokens,
        "total_tokens": usage.prompt_tokens + usage.completion_tokens,
        "cost": None if usage.cost_usd is None else round(usage.cost_usd, 4),
        "llm_calls": usage.calls,
    }


def _literal(text: str) -> Any:
    """A Python literal, never anything that runs. Raises `ValueError`."""
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
