"""The embedded engine: probabilities, evidence and a cited answer without a model server."""

import json
import os
from pathlib import Path
from typing import TYPE_CHECKING

# onnxruntime reports its use to Microsoft and keeps a device id for that (Privacy.md in its
# package), unless this is set before it is imported. Nothing may leave this machine unasked.
os.environ["ORT_DISABLE_TELEMETRY"] = "1"

if TYPE_CHECKING:
    from archqa.core.case import case_digest
    from archqa.engine.engine import Engine

DATA_DIR = Path(__file__).parent / "data"
"""The shipped networks, weights and tables."""

__all__ = ["Engine", "case_digest", "fitted_on"]

_PUBLIC = {
    "Engine": "archqa.engine.engine",
    "case_digest": "archqa.core.case",
}
"""Public name to its module: who asks a note imports nothing of what the contest needs."""


def fitted_on() -> frozenset[str]:
    """`case_digest` of every case that the model or its cross-encoder was fitted on.

    Read from the model's file alone: scores of a run are told by it, without loading an engine.
    """
    path = DATA_DIR / "default.json"
    model = json.loads(path.read_text(encoding="utf-8"))
    return frozenset((*model["fitted_on"], *model["reader_further"]))


def __getattr__(name: str) -> object:
    """Import a public name when it is used first."""
    from importlib import import_module

    if name not in _PUBLIC:
        raise AttributeError(f"module 'archqa.engine' has no attribute {name!r}")
    return getattr(import_module(_PUBLIC[name]), name)
