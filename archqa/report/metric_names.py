"""What people call a score, for the pages; `scores.json` and the command line keep its name."""

from functools import cache
from pathlib import Path

from archqa.resources import table_rows

_TABLE = Path(__file__).resolve().parent / "data" / "metric_names.tsv"


def metric_label(name: str) -> str:
    """Return what people call a score; an unknown name with spaces for its underscores."""
    return _labels().get(name, name.replace("_", " "))


@cache
def _labels() -> dict[str, str]:
    return {row[0]: row[1] for row in table_rows(_TABLE)}
