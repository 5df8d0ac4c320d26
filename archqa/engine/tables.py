"""Tables of the engine: tab-separated files in `data/`."""

from pathlib import Path

from archqa.resources import table_rows

FOLDER = Path(__file__).parent / "data"


def rows(name: str) -> tuple[tuple[str, ...], ...]:
    """The rows of `data/<name>`."""
    return table_rows(FOLDER / name)
