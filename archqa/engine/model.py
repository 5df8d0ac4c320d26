"""The fitted model: feature columns in, calibrated log-odds for every sentence out.

A logistic regression gated by the note's style: in a typed note all columns count, in a dictated
one the cross-encoder's logit alone, because there the rest is noise (training/engine-log.md, sixth
round). Notes between the two styles get a mixture. A JSON file holds all of it, so that every
weight can be inspected.
"""

import hashlib
from functools import cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from archqa.core.tables import read_rows
from archqa.core.value import FrozenModel
from archqa.engine import DATA_DIR
from archqa.engine.features import FeatureTable, Matrix
from archqa.errors import InputError
from archqa.notes.sections import MIN_TYPED_SHORTHAND

CROSS_ENCODER_COLUMN = "reader.logit"
"""The one column that counts in dictated notes."""
STYLE_COLUMN = "shape.telegraphic"
"""The share of shorthand in the note."""
STYLE_TRANSITION_WIDTH = 0.05
"""Distance from `MIN_TYPED_SHORTHAND` at which a note is wholly of one style."""


class StyleGatedRegression(FrozenModel):
    """Weights for standardised columns.

    `typed` are the weights of all columns in typed notes, `dictated` that of the cross-encoder's
    logit in dictated ones, `style` that of the style itself.
    """

    columns: tuple[str, ...]
    centre: tuple[float, ...]
    scale: tuple[float, ...]
    typed: tuple[float, ...]
    dictated: float
    style: float
    bias: float

    def contributions(self, rows: Matrix) -> Matrix:
        """Return what each column adds to the log-odds, of the shape of `rows` (rows, columns)."""
        weights = np.array([*self.typed, self.dictated, self.style])
        design = design_matrix(
            rows, self.columns, np.array(self.centre), np.array(self.scale)
        )
        weighted = design * weights
        by_column: Matrix = weighted[:, : len(self.columns)]
        by_column[:, self.columns.index(CROSS_ENCODER_COLUMN)] += weighted[:, -2]
        by_column[:, self.columns.index(STYLE_COLUMN)] += weighted[:, -1]
        return by_column


def design_matrix(
    rows: Matrix, columns: tuple[str, ...], centre: Matrix, scale: Matrix
) -> Matrix:
    """Return the columns times how typed the note is, the logit times how dictated, and the style.

    The style is 0 in dictated notes, 1 in typed ones. `centre` and `scale` standardise the columns.
    """
    shorthand = rows[:, [columns.index(STYLE_COLUMN)]]
    distance = (shorthand - MIN_TYPED_SHORTHAND) / STYLE_TRANSITION_WIDTH
    typed = (np.clip(distance, -1.0, 1.0) + 1) / 2
    standardised = (rows - centre) / scale
    logit = standardised[:, [columns.index(CROSS_ENCODER_COLUMN)]]
    return np.hstack([standardised * typed, logit * (1 - typed), typed])


class Model(FrozenModel):
    """A regression over feature columns; `expected_f1` and `mass` are the selection's prior.

    `fitted_on` are the digests of the cases it was fitted on, `reader_further` those that only the
    cross-encoder was trained on.
    """

    schema_version: int = 4
    linear: StyleGatedRegression
    expected_f1: float
    mass: float
    fitted_on: tuple[str, ...] = ()
    seed: int = 0
    reader_sha256: str = ""
    reader_further: tuple[str, ...] = ()
    made_by: str = ""

    def contributions(self, table: FeatureTable) -> Matrix:
        """Return what each column adds to each log-odds, of shape (sentences, columns)."""
        return self.linear.contributions(table.matrix(self.columns))

    @property
    def columns(self) -> tuple[str, ...]:
        """The names of the columns."""
        return self.linear.columns


class LoadedModel(NamedTuple):
    """A model and the sha256 of its file."""

    model: Model
    sha256: str


def load(name: str = "default") -> LoadedModel:
    """Read `data/<name>.json`. Raises InputError when it is absent or invalid."""
    path = DATA_DIR / f"{name}.json"
    try:
        content = path.read_bytes()
        return LoadedModel(
            Model.model_validate_json(content), hashlib.sha256(content).hexdigest()
        )
    except OSError as absent:
        raise InputError(
            path,
            [": there is no such engine."],
            f"Engines shipped: {', '.join(available_models())}.",
        ) from absent
    except ValueError as malformed:
        raise InputError(
            path,
            [": is not a fitted model."],
            "Install archqa again.",
        ) from malformed


def available_models() -> tuple[str, ...]:
    """Return the names of the models in this installation."""
    return tuple(sorted(path.stem for path in DATA_DIR.glob("*.json")))


MAX_FOR, MAX_AGAINST = 3, 2
"""Reasons shown for and against a sentence."""
MIN_CONTRIBUTION = 0.08
"""Log-odds below which a feature is not mentioned."""

NOTE_COLUMNS = ("shape.note", "shape.telegraphic")
"""Columns that are equal for all sentences of a note, and so no reason for one of them."""


def rationale(
    columns: tuple[str, ...],
    contributions: NDArray[np.float64],
    shared_concepts: frozenset[str] = frozenset(),
) -> str:
    """Explain one sentence by what each column added to its log-odds, the largest first.

    `shared_concepts` are those the sentence shares with the question. Contributions without a
    phrase in `data/reasons.tsv`, such as not being a heading, are left out.
    """
    # Columns that share a phrase are added up.
    by_group: dict[str, float] = {}
    for column, contribution in zip(columns, contributions.tolist(), strict=True):
        if column not in NOTE_COLUMNS:
            group = phrase_group(column)
            by_group[group] = by_group.get(group, 0.0) + contribution
    ranked = sorted(by_group.items(), key=lambda group_and_sum: -group_and_sum[1])
    supporting = []
    for group, contribution in ranked:
        phrase, _ = _phrases()[group]
        if group == "topic" and shared_concepts:
            phrase = f"names {', '.join(sorted(shared_concepts))}, as the question does"
        if contribution > MIN_CONTRIBUTION and phrase:
            supporting.append(phrase)
    opposing = []
    for group, contribution in ranked[::-1][:MAX_AGAINST]:
        if contribution < -MIN_CONTRIBUTION:
            opposing.append(_phrases()[group][1])
    parts = []
    if supporting:
        parts.append(f"For: {'; '.join(supporting[:MAX_FOR])}.")
    if opposing:
        parts.append(f"Against: {'; '.join(opposing)}.")
    return " ".join(parts) or "Nothing about it stands out."


@cache
def phrase_group(column: str) -> str:
    """Return the longest prefix of a column's name that `data/reasons.tsv` has phrases for."""
    prefixes = [prefix for prefix in _phrases() if column.startswith(prefix)]
    return max(prefixes, key=len)


@cache
def _phrases() -> dict[str, tuple[str, str]]:
    """Return the phrases for and against by group."""
    phrases = {}
    for group, supporting, opposing in read_rows("engine/data/reasons.tsv", 3):
        phrases[group] = (supporting, opposing)
    return phrases
