"""Many questions: a table with `question` and `note` or `patient`, or a file of them, one answer a row."""

import asyncio
import csv
import hashlib
import io
import itertools
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from archqa.asking.answer import Answer, Status, within_words
from archqa.asking.answering import answer_with_models, check_settings
from archqa.asking.question import (
    AskOptions,
    ModelBackends,
    Question,
    asks_model,
    parse_time,
    settings_of_call,
)
from archqa.core.id_lists import list_ids
from archqa.core.near_misses import did_you_mean
from archqa.errors import (
    ArchqaError,
    BudgetExceeded,
    CallerError,
    CaseFailed,
    InputError,
    ModelError,
    quoted,
    without_suppressed_causes,
)
from archqa.runs.destinations import Announce, Announcer
from archqa.runs.event_loop import run_sync
from archqa.runs.notebook_progress import NotebookProgress
from archqa.safety.files import open_private_log, storage_errors, write_private_text
from archqa.safety.text import formula_free
from archqa.settings import Settings

if TYPE_CHECKING:
    import pandas

    from archqa.llm.model import Model


PLACES = ("note", "patient")
"""The columns that say what a question is about."""

_MAX_ROWS_NAMED = 10

ERROR = "error"
"""The column that says why a row has no answer."""


class AskedRow(NamedTuple):
    """One question. `other` are the columns that go along to the answer, such as an id."""

    question: str
    note: str | None
    patient: str | None
    other: Mapping[str, Any]


class AnsweredRow(NamedTuple):
    """One question's answer; without one, `error` says why, free of record text."""

    answer: Answer | None
    error: str = ""


OnRow = Callable[[int, AnsweredRow], object]
"""Called with the position of each row as it is answered."""


@without_suppressed_causes
def ask_many(
    table: "pandas.DataFrame | Iterable[Mapping[str, Any]]",
    *,
    record: str | Path | None = None,
    now: datetime | str | None = None,
    max_words: int | None = None,
    settings: Settings | None = None,
    announce: Announce | None = None,
    scripted: "Model | None" = None,
    **typed: Any,
) -> "pandas.DataFrame":
    """Return the answers to the questions of a table, one row each, with the table's index.

    `table` is a data frame or a list of dicts with `question` and `note` (text) or `patient` (a
    FHIR id, an identifier or a name in `record`). Other columns come first in the result, then `question`, `status`,
    `answer`, `lines`, `evidence` and the other keys of `archqa ask --json`, then `error`: a row that
    could not be answered has one and no status, and the other rows are answered. Last come
    `evidence_ids` and `evidence_text`: what the answer rests on, as a list and as plain text.
    A notebook shows how many questions were asked.

    Raises one `CallerError` that names all wrong rows before any is answered, `InputError` if
    `record` is none, and the server's error if it let no row be answered.
    """
    import pandas

    index = table.index if isinstance(table, pandas.DataFrame) else None
    rows = _rows_of(
        table.to_dict("records") if isinstance(table, pandas.DataFrame) else table
    )
    _check_columns(table, rows)
    asked, mistakes = check_rows(rows, record)
    if mistakes:
        lines = []
        for position, mistake in mistakes[:_MAX_ROWS_NAMED]:
            lines.append(f"Row {position + 1} {mistake}")
        if len(mistakes) > _MAX_ROWS_NAMED:
            lines.append(
                f"There are {len(mistakes) - _MAX_ROWS_NAMED:,} more such mistakes."
            )
        raise CallerError(
            "\n".join([*lines, "No row was asked. Correct these and ask again."])
        )
    options = AskOptions(
        settings=settings_of_call(settings, typed),
        record=record,
        now=parse_time(now),
        max_words=max_words,
        announce=announce,
        scripted=scripted,
    )
    with NotebookProgress("questions asked", len(asked)) as progress:
        answered = answer_rows(
            asked,
            options,
            lambda _, result: progress.advance(failed=result.answer is None),
        )
    contents = []
    for row, result in zip(asked, answered, strict=True):
        evidence = result.answer.evidence if result.answer else ()
        content = answer_row(row, result)
        content["evidence_ids"] = [piece.id for piece in evidence]
        content["evidence_text"] = "\n".join(piece.text for piece in evidence)
        contents.append(content)
    return pandas.DataFrame(contents, index=index)


def _rows_of(table: Any) -> list[Mapping[str, Any]]:
    """Return the rows of a list. Raises `CallerError` for what is no table; it is not quoted."""
    if isinstance(table, str | bytes | Mapping) or not isinstance(table, Iterable):
        raise CallerError(
            f"The table is of type {type(table).__name__}; it should be a data frame or a list of "
            "dicts with question and note or patient."
        )
    rows = list(table)
    if not all(isinstance(row, Mapping) for row in rows):
        raise CallerError(
            "A row of the table is no dict.\nA row has question, and note or patient."
        )
    return rows


def _check_columns(table: Any, rows: Sequence[Mapping[str, Any]]) -> None:
    """Raise one `CallerError` that names all columns that are missing, and what may be meant by them."""
    columns = dict.fromkeys(map(str, getattr(table, "columns", ())))
    for row in rows:
        columns.update(dict.fromkeys(map(str, row)))
    if not columns:
        return
    lines = []
    missing: list[str] = []
    for names in (("question",), PLACES):
        if columns.keys().isdisjoint(names):
            lines.append(f"The table has no column {' or '.join(names)}.")
            missing += names
    if not missing:
        return
    for column in columns:
        if nearest := did_you_mean(column, missing):
            lines.append(f"It has {quoted(column)}. {nearest}")
    lines.append(f"Its columns: {list_ids(columns)}. No row was asked.")
    raise CallerError("\n".join(lines))


def check_rows(
    rows: Sequence[Mapping[str, Any]], record: str | Path | None
) -> tuple[list[AskedRow], list[tuple[int, str]]]:
    """Return the questions, and the mistakes with the positions of their rows."""
    asked = []
    mistakes = []
    for position, row in enumerate(rows):
        cells = {}
        others = {}
        for name, value in row.items():
            if name not in ("question", *PLACES):
                others[str(name)] = value
            elif not _is_absent(value):
                cells[name] = value
        row_mistakes = list(_mistakes_of(cells, record))
        if not row_mistakes:
            question, note, patient = map(cells.get, ("question", *PLACES))
            asked.append(AskedRow(question or "", note, patient, others))
        for mistake in row_mistakes:
            mistakes.append((position, mistake))
    return asked, mistakes


def _is_absent(value: Any) -> bool:
    """Whether a cell is None, NaN or blank."""
    if isinstance(value, str):
        return not value.strip()
    return value is None or (isinstance(value, float) and value != value)


def _mistakes_of(cells: Mapping[str, Any], record: str | Path | None) -> Iterator[str]:
    if "question" not in cells:
        yield "has no question."
    for name in ("question", *PLACES):
        if not isinstance(cells.get(name, ""), str):
            yield f"has a {name} of type {type(cells[name]).__name__}; it should be text."
    if cells.keys().isdisjoint(PLACES):
        yield "has neither a note nor a patient."
    if "patient" in cells and record is None:
        yield "names a patient, and no record was named."


def answer_row(row: AskedRow, result: AnsweredRow) -> dict[str, Any]:
    """Return the row of the result: its other columns, the keys of `--json`, and the error."""
    unanswered = Answer(question=row.question, status=Status.NOT_FOUND)
    content = (result.answer or unanswered).as_json()
    if result.answer is None:
        content.update(status=None, answer="")
    others = {name: value for name, value in row.other.items() if name not in content}
    return {**others, **content, ERROR: result.error}


def answer_rows(
    rows: Sequence[AskedRow], options: AskOptions, on_row: OnRow = lambda *_: None
) -> list[AnsweredRow]:
    """Answer all questions, those to a model side by side; results are in the order of the rows.

    Raises `CallerError` for settings without effect, and the server's error if it let no row be
    answered.
    """
    check_settings(
        options.settings, of_patient=any(row.patient is not None for row in rows)
    )
    return run_sync(_answer_all(rows, options, on_row))


async def _answer_all(
    rows: Sequence[AskedRow], options: AskOptions, on_row: OnRow
) -> list[AnsweredRow]:
    """Answer every row; after a failure of the server, no further row is asked."""
    from archqa.runs.backends import limits_of_one_process

    options = options._replace(
        announce=options.announce or Announcer(),
        limits=limits_of_one_process(options.settings),
    )
    models = ModelBackends(options)
    uses_model = asks_model(options.settings, "note_answer", options.scripted)
    # The embedded engine uses all cores for one question.
    places = asyncio.Semaphore(options.settings.limits.jobs if uses_model else 1)
    failures: list[ArchqaError] = []

    async def answer(row: AskedRow) -> AnsweredRow:
        if failures:
            return AnsweredRow(None, f"Not asked: {failures[-1]}")
        try:
            question = Question.create(
                row.question, options, note=row.note, patient=row.patient
            )
            answer = (await answer_with_models(question, models)).answer
        except (CaseFailed, CallerError) as error:
            return AnsweredRow(None, str(error))
        except (ModelError, BudgetExceeded) as error:
            failures.append(error)
            return AnsweredRow(None, str(error))
        if options.max_words is not None:
            answer = within_words(answer, options.max_words)
        return AnsweredRow(answer)

    async def answer_in_turn(position: int, row: AskedRow) -> AnsweredRow:
        async with places:
            result = await answer(row)
        on_row(position, result)
        return result

    try:
        results = await asyncio.gather(
            *itertools.starmap(answer_in_turn, enumerate(rows))
        )
    finally:
        await models.close()
    if failures and not any(result.answer for result in results):
        raise failures[-1]
    return results


SUFFIXES = (".csv", ".jsonl")
FORMAT_HINT = "A file of questions has question, and note or patient: columns of CSV, keys of JSON."


class _Line(NamedTuple):
    """A row of a file and the number of its first line."""

    number: int
    row: Mapping[str, Any]


def read_questions(
    path: Path, record: str | None, note: str | None = None, patient: str | None = None
) -> list[AskedRow]:
    """Return the questions of a file. `note` and `patient` are of the rows that name neither.

    Raises `InputError` with all wrong rows, and `CallerError` for another format.
    """
    check_suffix(path, "questions")
    try:
        text = path.read_bytes().decode("utf-8-sig")
    except UnicodeDecodeError as error:
        mistake = f": byte {error.start + 1} is not UTF-8."
        raise InputError(path, [mistake], "Save the file as UTF-8.") from None
    except OSError as error:
        raise InputError(path, [f": {error.strerror}."], FORMAT_HINT) from None
    mistakes: list[str] = []
    read = _csv_lines if path.suffix.lower() == ".csv" else _json_lines
    numbers = []
    rows = []
    for number, row in read(text, mistakes):
        if not row.get("note") and not row.get("patient"):
            row = {**row, "note": note, "patient": patient}
        numbers.append(number)
        rows.append(row)
    asked, wrong_rows = check_rows(rows, record)
    for position, mistake in wrong_rows:
        mistakes.append(f":{numbers[position]}: {mistake}")
    if not mistakes and not asked:
        mistakes.append(": has no questions.")
    if mistakes:
        raise InputError(path, mistakes, FORMAT_HINT)
    return asked


def check_suffix(path: Path, content: str) -> None:
    """Raise `CallerError` unless the file's name says that it is CSV or JSON lines."""
    if path.suffix.lower() not in SUFFIXES:
        raise CallerError(
            f"A file of {content} is CSV or JSON lines.\nName a .csv or .jsonl file."
        )


def _csv_lines(text: str, mistakes: list[str]) -> Iterator[_Line]:
    from archqa.tasks.files.source import large_csv_fields

    with large_csv_fields():
        reader = csv.reader(io.StringIO(text, newline=""), strict=True)
        try:
            names = [name.strip() for name in next(reader, [])]
            first_line = reader.line_num + 1
            for fields in reader:
                if len(fields) == len(names):
                    yield _Line(first_line, dict(zip(names, fields, strict=True)))
                elif fields:
                    mistakes.append(
                        f":{first_line}: has {len(fields)} fields, the head has {len(names)}."
                    )
                first_line = reader.line_num + 1
        except csv.Error as error:
            mistakes.append(f":{reader.line_num}: is not CSV: {error}.")


def _json_lines(text: str, mistakes: list[str]) -> Iterator[_Line]:
    for number, line in enumerate(text.split("\n"), start=1):
        if not line.strip():
            continue
        try:
            row = json.loads(line)
        except (ValueError, RecursionError):
            row = None
        if isinstance(row, dict):
            yield _Line(number, row)
        else:
            mistakes.append(f":{number}: is no JSON object.")


def write_answers(path: Path, rows: Sequence[Mapping[str, Any]]) -> None:
    """Write the rows of the result, readable by the file's owner alone. Raises `StorageError`."""
    if path.suffix.lower() == ".csv":
        text = csv_text(rows)
    else:
        lines = io.StringIO()
        for row in rows:
            lines.write(f"{json.dumps(row, ensure_ascii=False, default=str)}\n")
        text = lines.getvalue()
    with storage_errors(path):
        write_private_text(path, text)


def csv_text(rows: Sequence[Mapping[str, Any]]) -> str:
    """Return rows as CSV; no cell is a formula, and lists and objects are JSON."""
    names: dict[str, None] = {}
    for row in rows:
        names.update(dict.fromkeys(row))
    buffer = io.StringIO(newline="")
    writer = csv.DictWriter(buffer, list(names), lineterminator="\n")
    writer.writerow({name: formula_free(name) for name in names})
    for row in rows:
        cells = {}
        for name, value in row.items():
            cell = value
            if value is None or value in ([], {}):
                cell = ""
            elif isinstance(value, list | dict):
                cell = json.dumps(value, ensure_ascii=False)
            cells[name] = formula_free(cell)
        writer.writerow(cells)
    return buffer.getvalue()


class AnswerJournal:
    """The answers that a command has given so far, kept next to its output until that is written.

    A command that was stopped, even by kill, takes them over when it is run again. The file is
    readable by its owner alone. Methods raise `StorageError`.
    """

    def __init__(self, out: Path, options: AskOptions) -> None:
        self.path = out.with_name(f"{out.name}.partial")
        # What decides about all answers, as JSON values.
        values = options.settings.without_secrets()
        names = ("model", "base_url", "pipeline", "pipelines", "agents")
        settings = {name: values[name] for name in names}
        texts = map(
            str, (options.record, options.now, options.context, options.max_words)
        )
        self._common = [settings, *texts]

    def answered(self, rows: Sequence[AskedRow]) -> dict[int, AnsweredRow]:
        """Return the answers of an earlier command to these questions, by position."""
        with storage_errors(self.path):
            text = (
                self.path.read_text("utf-8", "replace") if self.path.is_file() else ""
            )
        answers: dict[str, Answer] = {}
        for line in text.split("\n")[:-1]:  # The last line may be half-written.
            try:
                entry = json.loads(line)
            except ValueError:
                continue
            answers[entry["key"]] = Answer.model_validate(entry["answer"])
        answered = {}
        for position, row in enumerate(rows):
            key = self._key(row)
            if key in answers:
                answered[position] = AnsweredRow(answers[key])
        return answered

    def add(self, row: AskedRow, result: AnsweredRow) -> None:
        """Keep an answer; a row without one is asked again."""
        if result.answer is None:
            return
        entry = {"key": self._key(row), "answer": result.answer.model_dump(mode="json")}
        with storage_errors(self.path), open_private_log(self.path) as file:
            file.write(f"{json.dumps(entry, ensure_ascii=False)}\n")

    def remove(self) -> None:
        """Remove the file: its answers stand in the output."""
        with storage_errors(self.path):
            self.path.unlink(missing_ok=True)

    def _key(self, row: AskedRow) -> str:
        content = [row.question, row.note, row.patient, self._common]
        return hashlib.sha256(json.dumps(content).encode()).hexdigest()
