"""The fitted model: named columns in, a calibrated probability for each sentence out.

A JSON file holds all of it, so that anyone can see every weight. `fingerprint` is the file's sha256.
"""

import hashlib
import json
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from archqa.core.value import FrozenModel
from archqa.engine.features import FeatureTable, Matrix
from archqa.engine.gated_regression import StyleGatedRegression
from archqa.errors import InputError

MODEL_DIR = Path(__file__).parent / "data"


class Model(FrozenModel):
    """A regression over columns. `max_expected_f1` and `mass` serve selection.

    `fitted_on` holds the digests of the cases, `reader_further` those that the reader was trained on beside them.
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
        """What each column adds to each sentence's log-odds, of shape (sentences, columns)."""
        return self.linear.contributions(table.matrix(self.columns))

    @property
    def columns(self) -> tuple[str, ...]:
        """The names of the columns."""
        return self.linear.columns

    def logits(self, table: FeatureTable) -> NDArray[np.float64]:
        """Log-odds of being essential, of shape (sentences,)."""
        summed: NDArray[np.float64] = self.contributions(table).sum(1) + self.linear.bias
        return summed


class LoadedModel(NamedTuple):
    """A model and the sha256 of the file it came from."""

    model: Model
    fingerprint: str


def load(name: str = "default") -> LoadedModel:
    """Reads `data/<name>.json`. Raises InputError when it is absent or not a model."""
    path = MODEL_DIR / f"{name}.json"
    try:
        raw = path.read_bytes()
        return LoadedModel(Model.model_validate_json(raw), hashlib.sha256(raw).hexdigest())
    except OSError as absent:
        raise InputError(
            path,
            [": there is no such engine."],
            f"Engines shipped: {', '.join(available_models())}.",
        ) from absent
    except ValueError as malformed:
        raise InputError(
            path, [": is not a fitted model."], "Fit it again: archqa evidence train"
        ) from malformed


def available_models() -> tuple[str, ...]:
    """Names of the engines in this installation."""
    return tuple(sorted(path.stem for path in MODEL_DIR.glob("*.json")))


def save(model: Model, path: Path) -> None:
    """Writes the model in one move, so that nobody reads half of it."""
    draft = path.with_suffix(".draft")
    draft.write_text(
        json.dumps(_rounded(model.model_dump()), separators=(",", ":")) + "\n", encoding="utf-8"
    )
    draft.replace(path)


def _rounded(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _rounded(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [_rounded(each) for each in value]
    return float(f"{value:.6g}") if isinstance(value, float) else value
