"""Word lists for the text of notes: tab-separated files in `data/`."""

from pathlib import Path

from archqa.resources import table_rows

DATA_DIR = Path(__file__).parent / "data"


def read_rows(name: str) -> tuple[tuple[str, ...], ...]:
    """Return the rows of `data/<name>`."""
    return table_rows(DATA_DIR / name)
