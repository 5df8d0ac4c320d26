"""The numbers by which notes are searched, read and shown; `data/weights.tsv` says where each is from."""

from dataclasses import dataclass, fields
from math import isfinite
from pathlib import Path

from archqa.core.tables import read_rows
from archqa.errors import InputError

_TABLE = Path("chart/data/weights.tsv")


@dataclass(frozen=True, slots=True)
class Weights:
    """Weights and margins in log-odds, shares from 0 to 1, and limits as counts.

    What each means stands beside it in the table.
    """

    bm25_saturation: float
    bm25_length: float
    fusion: float
    title_term: float
    hits: int
    whole_notes: int
    hits_of_note: int
    max_whole: int
    neighbours: int
    max_read: int
    max_read_of_parts: int
    min_read: int
    about: float
    heading_term: float
    previous_term: float
    off_topic: float
    min_coverage: float
    in_time: float
    out_of_time: float
    newest: float
    newest_years: float
    correction: float
    min_coverage_to_correct: float
    section: float
    min_score: float
    margin: float
    min_score_of_all: float
    margin_of_all: float
    max_lines: int
    max_lines_of_all: int
    max_words_of_line: int
    min_template_uses: int


def read_weights(table: Path = _TABLE) -> Weights:
    """Return the weights of a table: name, value, meaning, provenance.

    Raises `InputError` that names all rows which are unknown, missing, repeated, no number, or
    without meaning and provenance.
    """
    types = {field.name: field.type for field in fields(Weights)}
    values: dict[str, float] = {}
    mistakes = []
    for name, value, meaning, provenance in read_rows(table, 4):
        if name not in types:
            mistakes.append(f": {name} is no weight.")
        elif name in values:
            mistakes.append(f": {name} stands twice.")
        elif not meaning or not provenance:
            mistakes.append(f": {name} needs a meaning and a provenance.")
        else:
            try:
                values[name] = int(value) if types[name] is int else float(value)
            except ValueError:
                mistakes.append(f": {name} is {value!r}; expected a number.")
                values[name] = 0
            if not isfinite(values[name]):
                mistakes.append(f": {name} is {value!r}; expected a finite number.")
    mistakes += [f": {name} is missing." for name in types if name not in values]
    if mistakes:
        raise InputError(table, mistakes, "Each weight needs one row of four cells.")
    return Weights(**values)  # type: ignore[arg-type]


WEIGHTS = read_weights()
