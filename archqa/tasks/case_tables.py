"""Cases from Python: a data frame, or a list of cases or dicts, read as a case file would be."""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias, TypeGuard, Union

from archqa.core.near_misses import did_you_mean
from archqa.core.question import Item
from archqa.core.value import FrozenModel
from archqa.errors import CallerError, quoted
from archqa.tasks.files.source import Source
from archqa.tasks.registry import all_tasks, find
from archqa.tasks.task import Task

if TYPE_CHECKING:
    import pandas

CaseTable: TypeAlias = Union["pandas.DataFrame", Iterable[Item | Mapping[str, Any]]]
"""A data frame, or a list of cases, questions, tasks or dicts."""

TABLE_PATH = "(table)"
"""What stands for the path of the case file in messages and in `run.json`."""


class _Rows(NamedTuple):
    """Rows of a table, and what each is called where the table has no column of ids."""

    rows: list[dict[str, Any]]
    labels: list[str]


def is_table(source: object) -> TypeGuard[CaseTable]:
    """Whether this is a table, not a path, bytes or a file that was read."""
    return _is_frame(source) or isinstance(source, list | tuple | Iterator)


def read_table(table: object, task_name: str | None) -> tuple[Source, Task]:
    """Return the table as a JSON file of its task, and the task: named, or told by the columns.

    Rows without an id are called by the data frame's index, or numbered from 1. Raises one
    `CallerError` that names all columns that are unknown or missing.
    """
    rows, labels = _rows_of(table)
    columns = list(dict.fromkeys(str(name) for row in rows for name in row))
    task = find(task_name) if task_name is not None else _recognise(columns)
    _check_columns(columns, task)
    named = [_in_full(row, task, label) for row, label in zip(rows, labels, strict=True)]
    text = json.dumps(named, ensure_ascii=False, default=str)
    return Source(TABLE_PATH, text.encode("utf-8", "surrogatepass")), task


def _is_frame(source: object) -> TypeGuard["pandas.DataFrame"]:
    """Whether this is a data frame; pandas is not imported to find out."""
    return type(source).__name__ == "DataFrame" and hasattr(source, "to_dict")


def _rows_of(table: object) -> _Rows:
    if _is_frame(table):
        if not table.columns.is_unique:
            raise CallerError("Two columns of the table have one name.\nRename one of them.")
        labels = [str(label) for label in table.index]
        if not table.index.is_unique:
            labels = _numbers(len(table))
        return _Rows(list(map(_content, table.to_dict("records"))), labels)
    entries = list(table) if isinstance(table, Iterable) else []
    return _Rows(list(map(_row_of, entries)), _numbers(len(entries)))


def _numbers(count: int) -> list[str]:
    return [str(number) for number in range(1, count + 1)]


def _row_of(entry: object) -> dict[str, Any]:
    """Return one entry of a list. Raises `CallerError` for what is none; it is not quoted."""
    if isinstance(entry, FrozenModel) and isinstance(entry, Item):
        return _content(entry.model_dump(mode="json"))
    if isinstance(entry, Mapping):
        return _content(entry)
    raise CallerError(
        f"An entry of the list is of type {type(entry).__name__}; it should be a Case or a dict.\n"
        "To read a file, give its path."
    )


def _content(row: Mapping[Any, Any]) -> dict[str, Any]:
    """Return the row as JSON has it; cells without content are None."""
    return {str(name): _plain(cell) for name, cell in row.items()}


def _plain(cell: Any) -> Any:
    """Return a cell without the types of numpy and pandas, and None for an empty one."""
    if isinstance(cell, Mapping):
        return {str(name): _plain(value) for name, value in cell.items()}
    if isinstance(cell, list | tuple):
        return [_plain(value) for value in cell]
    if hasattr(cell, "tolist"):
        return _plain(cell.tolist())
    is_missing = not isinstance(cell, str) and cell != cell
    if is_missing or type(cell).__name__ == "NAType" or cell in ("", None):
        return None
    return cell


def _recognise(columns: Sequence[str]) -> Task:
    """Return the task whose columns fit best; the earliest of several."""
    return max(all_tasks(), key=lambda task: _fit(columns, task))


def _fit(columns: Sequence[str], task: Task) -> tuple[int, int]:
    known = {_full_name(name, task) for name in columns}.intersection(task.columns.names)
    needed = sum(not known.isdisjoint(group) for group in task.columns.required)
    return needed - len(task.columns.required), len(known)


def _full_name(column: str, task: Task) -> str:
    return task.columns.short_names.get(column, column)


def _check_columns(columns: Sequence[str], task: Task) -> None:
    """Raise one `CallerError` for all columns that are unknown, missing or there twice."""
    known = task.columns
    if not known.names or not columns:
        return
    mistakes = []
    full_names = [_full_name(name, task) for name in columns]
    for name in columns:
        if _full_name(name, task) not in known.names:
            nearest = did_you_mean(name, known.names)
            mistakes.append(f"  {quoted(name)} is no column of it. {nearest}".rstrip())
        if full_names.count(_full_name(name, task)) > 1:
            mistakes.append(f"  {quoted(name)} stands twice, by two names.")
    for group in known.required:
        if set(group).isdisjoint(full_names):
            mistakes.append(f"  there is no column {' or '.join(_as_typed(group, task))}.")
    if mistakes:
        head = f"The table is not one of {task.name}; nothing was read:"
        advice = f"Its columns: {', '.join(known.names)}.\nLeave the others out, or rename them."
        raise CallerError("\n".join([head, *mistakes, advice]))


def _as_typed(group: Iterable[str], task: Task) -> list[str]:
    """Return the columns of a group, each with its short name first."""
    short_names = {full: short for short, full in task.columns.short_names.items()}
    return [name for full in group for name in (short_names.get(full), full) if name]


def _in_full(row: Mapping[str, Any], task: Task, label: str) -> dict[str, Any]:
    """Return the row under the names of the task's case file, with an id."""
    content = {_full_name(name, task): cell for name, cell in row.items() if cell is not None}
    id_column = task.columns.id
    if id_column:
        content[id_column] = _id_text(content.get(id_column, label))
    if "sentences" in content:
        content["sentences"] = _numbered(content["sentences"])
    return content


def _id_text(case_id: Any) -> str:
    """Return an id as text; pandas makes 5.0 of 5 in a column with gaps."""
    is_whole = isinstance(case_id, float) and case_id.is_integer()
    return str(int(case_id)) if is_whole else str(case_id)


def _numbered(sentences: Any) -> Any:
    """Return sentences that are mere texts with ids from 1; others as they are."""
    if not isinstance(sentences, list) or not all(isinstance(text, str) for text in sentences):
        return sentences
    return [{"id": str(number), "text": text} for number, text in enumerate(sentences, start=1)]
