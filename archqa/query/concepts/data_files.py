"""Reading of the tables in `data/`."""

from pathlib import Path

from archqa.resources import table_rows

_DATA_DIR = Path(__file__).parent / "data"


def read_rows(name: str) -> tuple[tuple[str, ...], ...]:
    """Return the rows of `data/<name>`."""
    return table_rows(_DATA_DIR / name)


def list_of(cell: str, separator: str = "|") -> tuple[str, ...]:
    """Return the entries of a cell; `-` is an empty cell."""
    return () if cell == "-" else tuple(cell.split(separator))
