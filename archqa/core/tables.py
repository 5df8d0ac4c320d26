"""The tables that archqa is written in: tab-separated files in the `data/` folders of the package.

A line that begins with `#` is a comment, an empty line is skipped. A cell holds its text without
spaces around it; `-` is an empty list.
"""

from collections.abc import Mapping
from functools import cache
from pathlib import Path
from types import MappingProxyType

from archqa.errors import InputError

TableRow = tuple[str, ...]

EMPTY = "-"

_PACKAGE = Path(__file__).resolve().parents[1]


@cache
def read_rows(
    table: str | Path, columns: int, optional: int = 0
) -> tuple[TableRow, ...]:
    """Return the rows of a table, each with `columns` cells; read once.

    Args:
        table: Path below the package, such as `"notes/data/question_patterns.tsv"`.
        columns: Number of cells of a row.
        optional: Number of cells at the end that a row may lack; they are returned as "".

    Raises:
        InputError: Rows have fewer or more cells; it names all of them by line.
    """
    path = _PACKAGE / table
    rows: list[TableRow] = []
    mistakes: list[str] = []
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        if line.startswith("#") or not line.strip():
            continue
        cells = [cell.strip() for cell in line.split("\t")]
        if not columns - optional <= len(cells) <= columns:
            mistakes.append(f", line {number}: {len(cells)} cells; expected {columns}.")
        cells += [""] * (columns - len(cells))
        rows.append(tuple(cells))
    if mistakes:
        raise InputError(path, mistakes, "Separate the cells of a row by single tabs.")
    return tuple(rows)


@cache
def read_mapping(table: str | Path) -> Mapping[str, str]:
    """Return a table of two columns as a mapping; of rows with one key, the last counts."""
    return MappingProxyType({key: value for key, value in read_rows(table, 2)})  # noqa: C416


def split_cell(cell: str, separator: str = "|") -> tuple[str, ...]:
    """Return the entries of a cell; of `-`, none."""
    return () if cell == EMPTY else tuple(cell.split(separator))
