"""FHIR-AgentBench: clinical questions over a FHIR record, each with its answer and the resources that hold it.

Source: `final_dataset/questions_answers_sql_fhir.csv` of glee4810/FHIR-AgentBench at bbb4290 (Lee et al., ML4H 2025); a
JSON list with the same fields is read, too. `true_answer` is a printed numpy array, `true_fhir_ids` a Python literal:
both are only ever read as literals.
"""

import ast
import csv
import io
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

from archqa.benchmarks.base import Readable
from archqa.benchmarks.json_node import JsonContent
from archqa.benchmarks.mistakes import Mistakes, misspelt, shown
from archqa.benchmarks.source import LARGEST_FILE, Source, open_source
from archqa.core.value import Value

_FIX = "Not the form of FHIR-AgentBench's questions: CSV or JSON with the benchmark's columns."
_ALWAYS = ("question_id", "question")
_GOLD = ("true_answer", "true_fhir_ids")
_OPTIONAL = ("patient_fhir_id", "assumption", "template", "split", "main_table_name")


class FhirQuestion(Value):
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


class _Row(Protocol):
    def value(self, name: str) -> Any: ...

    def complain(self, name: str, what: str) -> None: ...


@dataclass(frozen=True)
class _CsvRow:
    """A line of a table: `line` is where it begins."""

    values: Mapping[str, str]
    line: int
    mistakes: Mistakes

    def value(self, name: str) -> str | None:
        return self.values.get(name) or None

    def complain(self, name: str, what: str) -> None:
        self.mistakes.add(f":{self.line}", f"{name} {what}")


def load_questions(source: Readable, *, gold: bool = True) -> QuestionFile:
    """The questions of a file, in its order. Without `gold`, answers and resources may be withheld.

    Raises `InputError` with every mistake of the file: absent columns, broken rows, ids that are missing or stand
    twice, answers and resources that are no literals of their form.
    """
    opened = open_source(source)
    mistakes = Mistakes(opened.path, _FIX)
    wanted = (*_ALWAYS, *(_GOLD if gold else ()))
    _check_columns(opened.content.fields, wanted, mistakes)
    mistakes.settle()  # What follows would say the same of every row.
    rows = _rows(opened, mistakes)
    questions = tuple(_question(row, wanted) for row in rows)
    _refuse_twins(rows, questions)
    mistakes.settle()
    return QuestionFile(opened.path, opened.sha256, questions)


def read_array(printed: str) -> list[Any]:
    """The rows of a printed numpy array such as `[[70.3]]`, `[]` or `[['a']` line break ` ['b']]`.

    Source: the benchmark's own reading rule. Raises `ValueError` for a text that is no such array, or an abbreviated
    one (`...`).
    """
    text = printed.replace("\r\n", "\n").replace("]\n [", "],[").replace("\n", ",")
    value = _literal(re.sub(r"\bnan\b", "None", text))
    if not isinstance(value, list) or not all(map(_is_plain, _scalars(value))):
        raise ValueError("no printed array")
    return value


def _check_columns(given: frozenset[str], wanted: Sequence[str], mistakes: Mistakes) -> None:
    meant = {right: wrong for wrong, right in misspelt(sorted(given), (*wanted, *_OPTIONAL))}
    for name in wanted:
        if name not in given:
            hint = f"; is it '{shown(meant[name])}'?" if name in meant else "."
            mistakes.add("", f"there is no column {name}{hint}")


def _rows(source: Source, mistakes: Mistakes) -> Sequence[_Row]:
    if isinstance(source.content, JsonContent):
        return source.content.entries(mistakes)
    rows = list(_table(source.text, mistakes))
    if not rows:
        mistakes.add("", "the table has no rows.")
    return rows


def _table(text: str, mistakes: Mistakes) -> Iterator[_CsvRow]:
    with _room_for_big_fields():
        lines = csv.reader(io.StringIO(text.lstrip(), newline=""), strict=True)
        begun = text[: len(text) - len(text.lstrip())].count("\n") + 1
        blank = begun - 1
        try:
            head = [name.strip() for name in next(lines)]
            for fields in lines:
                first, begun = begun + 1, lines.line_num + blank
                if len(fields) == len(head):
                    yield _CsvRow(dict(zip(head, fields, strict=True)), first, mistakes)
                elif fields:
                    mistakes.add(f":{first}", f"the row has {len(fields)} fields, the head has {len(head)}.")
        except csv.Error as error:
            mistakes.add(f":{lines.line_num + blank}", f"not CSV: {error}.")


@contextmanager
def _room_for_big_fields() -> Iterator[None]:
    """One question has 2,257 gold ids, which is more than the csv module's limit on one field leaves room for."""
    limit = csv.field_size_limit(LARGEST_FILE)
    try:
        yield
    finally:
        csv.field_size_limit(limit)


def _question(row: _Row, wanted: Sequence[str]) -> FhirQuestion:
    texts = {name: _text(row, name, needed=name in wanted) for name in (*_ALWAYS, *_OPTIONAL)}
    gold = {"true_answer": _answer(row, wanted), "true_fhir_ids": _resources(row, wanted)}
    return FhirQuestion.model_validate({**texts, **gold})


def _text(row: _Row, name: str, *, needed: bool) -> str:
    value = row.value(name)
    if value is not None and not isinstance(value, str):
        row.complain(name, "should be text in quotes.")
    elif needed and not (value or "").strip():
        row.complain(name, "is missing or empty.")
    return value.strip() if isinstance(value, str) else ""


def _answer(row: _Row, wanted: Sequence[str]) -> str:
    value = row.value("true_answer")
    if value is None and "true_answer" not in wanted:
        return ""
    printed = repr(value) if isinstance(value, list) else value
    try:
        read_array(printed if isinstance(printed, str) else "")
    except ValueError:
        row.complain("true_answer", "is no printed array; it should read like [[70.3]], [['a'], ['b']] or [].")
        return ""
    return str(printed).replace("\r\n", "\n")


def _resources(row: _Row, wanted: Sequence[str]) -> dict[str, tuple[str, ...]]:
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
        isinstance(kind, str) and isinstance(ids, list | tuple) and all(isinstance(one, str) and one for one in ids)
        for kind, ids in value.items()
    )


def _refuse_twins(rows: Sequence[_Row], questions: Sequence[FhirQuestion]) -> None:
    seen: set[str] = set()
    for row, question in zip(rows, questions, strict=True):
        if question.question_id and question.question_id in seen:
            row.complain("question_id", f"'{shown(question.question_id)}' stands in an earlier row too; keep one.")
        seen.add(question.question_id)


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
