"""Many questions: a table with `question` and `note` or `patient`, or a file of them, one answer a row."""

import asyncio
import csv
import hashlib
import io
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from archqa.asking.answer import Answer, Status, within_words
from archqa.asking.ask import answer_with_models
from archqa.asking.question import (
    AskOptions,
    ModelBackends,
    Question,
    asks_model,
    check_settings,
    parse_time,
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
from archqa.llm.model import Model
from archqa.runs.destinations import Announce, Announcer
from archqa.runs.event_loop import run_sync
from archqa.runs.notebook_progress import NotebookProgress
from archqa.safety.private_files import open_private_log, write_private_text
from archqa.safety.spreadsheets import formula_free
from archqa.safety.storage import storage_errors
from archqa.settings import Settings, load_settings

if TYPE_CHECKING:
    import pandas


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
    scripted: Model | None = None,
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

    if settings is not None and typed:
        raise CallerError("Both settings and single settings were given.\nPut them into one.")
    index = table.index if isinstance(table, pandas.DataFrame) else None
    rows = _rows_of(table.to_dict("records") if isinstance(table, pandas.DataFrame) else table)
    _check_columns(table, rows)
    asked, mistakes = check_rows(rows, record)
    if mistakes:
        lines = [
            f"Row {position + 1} {mistake}" for position, mistake in mistakes[:_MAX_ROWS_NAMED]
        ]
        if len(mistakes) > _MAX_ROWS_NAMED:
            lines.append(f"There are {len(mistakes) - _MAX_ROWS_NAMED:,} more such mistakes.")
        raise CallerError("\n".join([*lines, "No row was asked. Correct these and ask again."]))
    options = AskOptions(
        settings=settings or load_settings(typed=typed),
        record=record,
        now=parse_time(now),
        max_words=max_words,
        announce=announce,
        scripted=scripted,
    )
    with NotebookProgress("questions asked", len(asked)) as progress:
        answered = answer_rows(
            asked, options, lambda _, result: progress.advance(failed=result.answer is None)
        )
    contents = []
    for row, result in zip(asked, answered, strict=True):
        contents.append({**answer_row(row, result), **_evidence_columns(result)})
    return pandas.DataFrame(contents, index=index)


def _evidence_columns(result: AnsweredRow) -> dict[str, Any]:
    """Return what an answer rests on as plain cells, to be read, filtered and counted."""
    evidence = result.answer.evidence if result.answer else ()
    return {
        "evidence_ids": [piece.id for piece in evidence],
        "evidence_text": "\n".join(piece.text for piece in evidence),
    }


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
    names = table.columns if hasattr(table, "columns") else [name for row in rows for name in row]
    columns = list(dict.fromkeys(map(str, names)))
    if not columns:
        return
    needed = ("question",), PLACES
    missing = [group for group in needed if set(group).isdisjoint(columns)]
    if not missing:
        return
    lines = [f"The table has no column {' or '.join(group)}." for group in missing]
    absent = [name for group in missing for name in group]
    for column in columns:
        if nearest := did_you_mean(column, absent):
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
        row_mistakes = list(_mistakes_of(row, record))
        mistakes += [(position, mistake) for mistake in row_mistakes]
        if not row_mistakes:
            asked.append(_asked_row(row))
    return asked, mistakes


def _mistakes_of(row: Mapping[str, Any], record: str | Path | None) -> Iterable[str]:
    question = _cell(row, "question")
    if question is None:
        yield "has no question."
    for name in ("question", *PLACES):
        value = _cell(row, name)
        if value is not None and not isinstance(value, str):
            yield f"has a {name} of type {type(value).__name__}; it should be text."
    if all(_cell(row, name) is None for name in PLACES):
        yield "has neither a note nor a patient."
    if _cell(row, "patient") is not None and record is None:
        yield "names a patient, and no record was named."


def _cell(row: Mapping[str, Any], name: str) -> Any:
    """Return a cell; None if it is absent, NaN or blank."""
    value = row.get(name)
    is_nan = isinstance(value, float) and value != value
    is_blank = isinstance(value, str) and not value.strip()
    return None if is_nan or is_blank else value


def _asked_row(row: Mapping[str, Any]) -> AskedRow:
    used = {"question", *PLACES}
    return AskedRow(
        question=row["question"],
        note=_cell(row, "note"),
        patient=_cell(row, "patient"),
        other={str(name): value for name, value in row.items() if name not in used},
    )


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
    check_settings(options.settings, of_patient=any(row.patient is not None for row in rows))
    return run_sync(_Answering(options, on_row).answer_all(rows))


class _Answering:
    """The answering of one table: what its rows share, and the failure that ends it."""

    def __init__(self, options: AskOptions, on_row: OnRow) -> None:
        from archqa.runs.backends import limits_of_one_process

        self._options = options._replace(
            announce=options.announce or Announcer(),
            limits=limits_of_one_process(options.settings),
        )
        self._on_row = on_row
        self._failure: ArchqaError | None = None
        self._answered = False

    async def answer_all(self, rows: Sequence[AskedRow]) -> list[AnsweredRow]:
        """Answer every row; after a failure of the server, no further row is asked."""
        options = self._options
        models = ModelBackends(options)
        uses_model = asks_model(options.settings, "note_answer", options.scripted)
        # The embedded engine uses all cores for one question.
        places = asyncio.Semaphore(options.settings.limits.jobs if uses_model else 1)

        async def answer(position: int, row: AskedRow) -> AnsweredRow:
            async with places:
                result = await self._answer_row(row, models)
            self._on_row(position, result)
            return result

        try:
            results = await asyncio.gather(*(answer(*numbered) for numbered in enumerate(rows)))
        finally:
            await models.close()
        if self._failure is not None and not self._answered:
            raise self._failure
        return results

    async def _answer_row(self, row: AskedRow, models: ModelBackends) -> AnsweredRow:
        if self._failure is not None:
            return AnsweredRow(None, f"Not asked: {self._failure}")
        try:
            question = Question.create(
                row.question, self._options, note=row.note, patient=row.patient
            )
            answer = (await answer_with_models(question, models)).answer
        except (CaseFailed, CallerError) as error:
            return AnsweredRow(None, str(error))
        except (ModelError, BudgetExceeded) as error:
            self._failure = error
            return AnsweredRow(None, str(error))
        self._answered = True
        if self._options.max_words is not None:
            answer = within_words(answer, self._options.max_words)
        return AnsweredRow(answer)


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
    mistakes: list[str] = []
    lines = list(_lines(path, mistakes))
    rows = []
    for line in lines:
        named = any(line.row.get(name) for name in ("note", "patient"))
        row = line.row if named else {**line.row, "note": note, "patient": patient}
        rows.append(row)
    asked, wrong_rows = check_rows(rows, record)
    mistakes += [f":{lines[position].number}: {mistake}" for position, mistake in wrong_rows]
    if not mistakes and not asked:
        mistakes.append(": has no questions.")
    if mistakes:
        raise InputError(path, mistakes, FORMAT_HINT)
    return asked


def check_suffix(path: Path, content: str) -> None:
    """Raise `CallerError` unless the file's name says that it is CSV or JSON lines."""
    if path.suffix.lower() not in SUFFIXES:
        raise CallerError(f"A file of {content} is CSV or JSON lines.\nName a .csv or .jsonl file.")


def _lines(path: Path, mistakes: list[str]) -> Iterator[_Line]:
    text = _read_text(path)
    if path.suffix.lower() == ".csv":
        yield from _csv_lines(text, mistakes)
    else:
        yield from _json_lines(text, mistakes)


def _read_text(path: Path) -> str:
    try:
        return path.read_bytes().decode("utf-8-sig")
    except UnicodeDecodeError as error:
        mistake = f": byte {error.start + 1} is not UTF-8."
        raise InputError(path, [mistake], "Save the file as UTF-8.") from None
    except OSError as error:
        raise InputError(path, [f": {error.strerror}."], FORMAT_HINT) from None


def _csv_lines(text: str, mistakes: list[str]) -> Iterator[_Line]:
    from archqa.tasks.files.rows import large_csv_fields

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
    text = csv_text(rows) if path.suffix.lower() == ".csv" else _json_text(rows)
    with storage_errors(path):
        write_private_text(path, text)


def _json_text(rows: Sequence[Mapping[str, Any]]) -> str:
    lines = [json.dumps(row, ensure_ascii=False, default=str) for row in rows]
    return "".join(f"{line}\n" for line in lines)


def csv_text(rows: Sequence[Mapping[str, Any]]) -> str:
    """Return rows as CSV; no cell is a formula, and lists and objects are JSON."""
    names = dict.fromkeys(name for row in rows for name in row)
    buffer = io.StringIO(newline="")
    writer = csv.DictWriter(buffer, list(names), lineterminator="\n")
    writer.writerow({name: formula_free(name) for name in names})
    for row in rows:
        writer.writerow({name: formula_free(_csv_cell(value)) for name, value in row.items()})
    return buffer.getvalue()


def _csv_cell(value: Any) -> Any:
    """Return a cell: lists and objects as JSON, nothing for what is absent or empty."""
    if value is None or value in ([], {}):
        return ""
    if isinstance(value, list | dict):
        return json.dumps(value, ensure_ascii=False)
    return value


class AnswerJournal:
    """The answers that a command has given so far, kept beside its output until that is written.

    A command that was stopped, even by kill, takes them over when it is run again. The file is
    readable by its owner alone. Methods raise `StorageError`.
    """

    def __init__(self, out: Path, options: AskOptions) -> None:
        self.path = out.with_name(f"{out.name}.partial")
        self._common = _common_content(options)

    def answered(self, rows: Sequence[AskedRow]) -> dict[int, AnsweredRow]:
        """Return the answers of an earlier command to these questions, by position."""
        answers: dict[str, Answer] = {}
        for entry in self._entries():
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

    def _entries(self) -> Iterator[dict[str, Any]]:
        with storage_errors(self.path):
            text = self.path.read_text("utf-8", "replace") if self.path.is_file() else ""
        for line in text.split("\n")[:-1]:  # The last line may be half-written.
            try:
                yield json.loads(line)
            except ValueError:
                continue

    def _key(self, row: AskedRow) -> str:
        content = [row.question, row.note, row.patient, self._common]
        return hashlib.sha256(json.dumps(content).encode()).hexdigest()


def _common_content(options: AskOptions) -> list[Any]:
    """Return what decides about all answers, as JSON values."""
    values = options.settings.without_secrets()
    settings = {name: values[name] for name in ("model", "base_url", "pipeline", "agents")}
    texts = (options.record, options.now, options.context, options.max_words)
    return [settings, *(str(text) for text in texts)]
