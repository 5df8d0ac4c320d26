"""Files of questions and of their answers, CSV or JSON lines, and what a stopped command had answered."""

import csv
import hashlib
import io
import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from archqa.asking.answer import Answer
from archqa.asking.many import AnsweredRow, AskedRow, check_rows
from archqa.asking.question import AskOptions
from archqa.errors import CallerError, InputError
from archqa.safety.files import open_private_log, storage_errors, write_private_text
from archqa.safety.text import formula_free

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
