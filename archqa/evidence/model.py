"""The fitted model: named columns in, a calibrated probability for each sentence out.

A JSON file holds all of it, so that a reader can see every weight. `fingerprint` is the file's sha256.
"""

import hashlib
import json
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from archqa.core.value import Value
from archqa.errors import InputError
from archqa.evidence.features import Matrix, Table

SHIPPED = Path(__file__).parent / "data"
CLIP = 4.0
"""Standard deviations beyond which a feature says no more: an odd note must not overrule everything else."""


class Weight(Value):
    """One column's part in the sum: (value - mean) / scale * weight."""

    name: str
    mean: float
    scale: float
    weight: float


class Model(Value):
    """A logistic model over columns. `expected_f1` and `mass` serve selection; `fitted_on` holds digests."""

    schema_version: int = 1
    weights: tuple[Weight, ...]
    bias: float
    expected_f1: float
    mass: float
    fitted_on: tuple[str, ...] = ()
    seed: int = 0
    made_by: str = ""

    def names(self) -> tuple[str, ...]:
        """The columns it reads, in order."""
        return tuple(each.name for each in self.weights)

    def contributions(self, table: Table) -> Matrix:
        """What each column adds to each sentence's log-odds, of shape (sentences, columns)."""
        mean, scale, weight = (
            np.array([getattr(each, part) for each in self.weights]) for part in ("mean", "scale", "weight")
        )
        added: Matrix = np.clip((table.matrix(self.names()) - mean) / scale, -CLIP, CLIP) * weight
        return added

    def logits(self, table: Table) -> NDArray[np.float64]:
        """Log-odds of being essential, of shape (sentences,)."""
        summed: NDArray[np.float64] = self.contributions(table).sum(1) + self.bias
        return summed


class Shipped(NamedTuple):
    """A model and the sha256 of the file it came from."""

    model: Model
    fingerprint: str


def load(name: str = "default") -> Shipped:
    """Reads `data/<name>.json`. Raises InputError when it is absent or not a model."""
    path = SHIPPED / f"{name}.json"
    try:
        raw = path.read_bytes()
        return Shipped(Model.model_validate_json(raw), hashlib.sha256(raw).hexdigest())
    except OSError as absent:
        raise InputError(path, [": there is no such engine."], f"Engines shipped: {', '.join(shipped())}.") from absent
    except ValueError as malformed:
        raise InputError(path, [": is not a fitted model."], "Fit it again: archqa evidence train") from malformed


def shipped() -> tuple[str, ...]:
    """Names of the engines in this installation."""
    return tuple(sorted(path.stem for path in SHIPPED.glob("*.json")))


def save(model: Model, path: Path) -> None:
    """Writes the model in one move, so that nobody reads half of it."""
    draft = path.with_suffix(".draft")
    draft.write_text(json.dumps(_rounded(model.model_dump()), indent=1) + "\n", encoding="utf-8")
    draft.replace(path)


def _rounded(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _rounded(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [_rounded(each) for each in value]
    return float(f"{value:.6g}") if isinstance(value, float) else value
