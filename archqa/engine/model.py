"""The fitted model: feature columns in, calibrated log-odds for every sentence out.

A JSON file holds all of it, so that every weight can be inspected.
"""

import hashlib
import json
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from archqa.core.value import FrozenModel
from archqa.engine import DATA_DIR
from archqa.engine.features import FeatureTable, Matrix
from archqa.engine.gated_regression import StyleGatedRegression
from archqa.errors import InputError
from archqa.safety.private_files import write_private_text
from archqa.safety.storage import storage_errors


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

    def logits(self, table: FeatureTable) -> NDArray[np.float64]:
        """Return the log-odds of being essential, of shape (sentences,)."""
        logits: NDArray[np.float64] = self.contributions(table).sum(1) + self.linear.bias
        return logits


class LoadedModel(NamedTuple):
    """A model and the sha256 of its file."""

    model: Model
    sha256: str


def load(name: str = "default") -> LoadedModel:
    """Read `data/<name>.json`. Raises InputError when it is absent or invalid."""
    path = DATA_DIR / f"{name}.json"
    try:
        content = path.read_bytes()
        return LoadedModel(Model.model_validate_json(content), hashlib.sha256(content).hexdigest())
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
            "Fit it again: archqa evidence train",
        ) from malformed


def available_models() -> tuple[str, ...]:
    """Return the names of the models in this installation."""
    return tuple(sorted(path.stem for path in DATA_DIR.glob("*.json")))


def save(model: FrozenModel, path: Path) -> None:
    """Write a model as JSON, numbers to six digits; a reader never sees half a file."""
    content = json.dumps(_round_numbers(model.model_dump()), separators=(",", ":"))
    with storage_errors(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        write_private_text(path, f"{content}\n")


def _round_numbers(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _round_numbers(field) for key, field in value.items()}
    if isinstance(value, list | tuple):
        return [_round_numbers(element) for element in value]
    if isinstance(value, float):
        return float(f"{value:.6g}")
    return value
