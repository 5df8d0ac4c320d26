"""Cases from Python: a data frame, or a list of cases or dicts, read as a case file would be."""

import json
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, TypeAlias, TypeGuard, Union

from archqa.core.near_misses import did_you_mean
from archqa.core.question import Item
from archqa.core.value import FrozenModel, JsonObject
from archqa.errors import CallerError, quoted
from archqa.tasks.files.mistakes import are_texts
from archqa.tasks.files.source import Source
from archqa.tasks.registry import all_tasks, find
from archqa.tasks.task import Task

if TYPE_CHECKING:
    import pandas

CaseTable: TypeAlias = Union["pandas.DataFrame", Iterable[Item | Mapping[str, Any]]]
"""A data frame, or a list of cases, questions, tasks or dicts."""

TABLE_PATH = "(table)"
"""What stands for the path of the case file in messages and in `run.json`."""


def is_table(source: object) -> TypeGuard[CaseTable]:
    """Whether this is a table, not a path, bytes or a file that was read."""
    return _is_frame(source) or isinstance(source, list | tuple | Iterator)


def read_table(table: object, task_name: str | None) -> tuple[Source, Task]:
    """Return the table as a JSON file of its task, and the task: named, or told by the columns.

    Rows without an id are called by the data frame's index, or numbered from 1. Raises one
    `CallerError` that names all columns that are unknown or missing.
    """
    labels: list[str] = []
    if _is_frame(table):
        if not table.columns.is_unique:
            raise CallerError(
                "Two columns of the table have one name.\nRename one of them."
            )
        if table.index.is_unique:
            labels = list(map(str, table.index))
        rows = list(map(_plain, table.to_dict("records")))
    else:
        rows = list(map(_row_of, table if isinstance(table, Iterable) else ()))
    columns: dict[str, None] = {}
    for row in rows:
        columns.update(dict.fromkeys(row))
    if task_name is None:
        task = max(all_tasks(), key=lambda task: _fit(columns, task))
    else:
        task = find(task_name)
    _check_columns(columns, task)
    named = []
    for number, row in enumerate(rows, start=1):
        label = labels[number - 1] if labels else str(number)
        named.append(_in_full(row, task, label))
    text = json.dumps(named, ensure_ascii=False, default=str)
    return Source(TABLE_PATH, text.encode("utf-8", "surrogatepass")), task


def _is_frame(source: object) -> TypeGuard["pandas.DataFrame"]:
    """Whether this is a data frame; pandas is not imported to find out."""
    return type(source).__name__ == "DataFrame" and hasattr(source, "to_dict")


def _row_of(entry: object) -> JsonObject:
    """Return one entry of a list. Raises `CallerError` for what is none; it is not quoted."""
    if isinstance(entry, FrozenModel) and isinstance(entry, Item):
        entry = entry.model_dump(mode="json")
    if not isinstance(entry, Mapping):
        raise CallerError(
            f"An entry of the list is of type {type(entry).__name__}; it should be a Case or a "
            "dict.\nTo read a file, give its path."
        )
    row: JsonObject = _plain(entry)
    return row


def _plain(cell: Any) -> Any:
    """Return a row or a cell as JSON has it, without types of numpy and pandas; None for an empty one."""
    if isinstance(cell, Mapping):
        return {str(name): _plain(value) for name, value in cell.items()}
    if isinstance(cell, list | tuple):
        return list(map(_plain, cell))
    if hasattr(cell, "tolist"):
        return _plain(cell.tolist())
    is_missing = not isinstance(cell, str) and cell != cell
    if is_missing or type(cell).__name__ == "NAType" or cell in ("", None):
        return None
    return cell


def _fit(columns: Iterable[str], task: Task) -> tuple[int, int]:
    """How well columns fit a task; the task that they fit best is theirs, the earliest of several."""
    known = set(task.columns.names).intersection(
        _full_name(name, task) for name in columns
    )
    missing = 0
    for group in task.columns.required:
        missing += known.isdisjoint(group)
    return -missing, len(known)


def _full_name(column: str, task: Task) -> str:
    return task.columns.short_names.get(column, column)


def _check_columns(columns: Collection[str], task: Task) -> None:
    """Raise one `CallerError` for all columns that are unknown, missing or there twice."""
    known = task.columns
    if not known.names or not columns:
        return
    mistakes = []
    full_names = [_full_name(name, task) for name in columns]
    for name, full_name in zip(columns, full_names, strict=True):
        if full_name not in known.names:
            nearest = did_you_mean(name, known.names)
            mistakes.append(f"  {quoted(name)} is no column of it. {nearest}".rstrip())
        if full_names.count(full_name) > 1:
            mistakes.append(f"  {quoted(name)} stands twice, by two names.")
    short_names = {full: short for short, full in known.short_names.items()}
    for group in known.required:
        if set(group).isdisjoint(full_names):
            alternatives: list[str] = []
            for full_name in group:
                alternatives += filter(None, (short_names.get(full_name), full_name))
            mistakes.append(f"  there is no column {' or '.join(alternatives)}.")
    if mistakes:
        head = f"The table is not one of {task.name}; nothing was read:"
        advice = f"Its columns: {', '.join(known.names)}.\nLeave the others out, or rename them."
        raise CallerError("\n".join([head, *mistakes, advice]))


def _in_full(row: Mapping[str, Any], task: Task, label: str) -> JsonObject:
    """Return the row under the names of the task's case file, with an id.

    Sentences that are mere texts get ids from 1.
    """
    content = {
        _full_name(name, task): cell for name, cell in row.items() if cell is not None
    }
    id_column = task.columns.id
    if id_column:
        case_id = content.get(id_column, label)
        if isinstance(case_id, float) and case_id.is_integer():
            case_id = int(case_id)  # pandas makes 5.0 of 5 in a column with gaps.
        content[id_column] = str(case_id)
    sentences = content.get("sentences")
    if are_texts(sentences):
        content["sentences"] = []
        for number, text in enumerate(sentences, start=1):
            content["sentences"].append({"id": str(number), "text": text})
    return content
