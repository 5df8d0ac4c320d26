"""Answers a question from the patient's own record and shows, for every claim, the evidence it rests on.

import archqa
run = archqa.predict("data/dev.json")
print(archqa.score(run.path).scores.scores["strict_micro_f1"])
run.to_pandas()
"""

import logging
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

__all__ = ["Run", "__version__", "load_cases", "predict", "score"]

if TYPE_CHECKING:
    from archqa.evaluation.scoring import score
    from archqa.runs.predict import predict
    from archqa.runs.run import Run
    from archqa.tasks import load_cases

logging.getLogger("stamina").addHandler(
    logging.NullHandler()
)  # Of retries reads who sets logging up; else nobody.

_WHERE = {
    "Run": "archqa.runs.run",
    "load_cases": "archqa.tasks",
    "predict": "archqa.runs.predict",
    "score": "archqa.evaluation.scoring",
}


def __getattr__(name: str) -> Any:
    """The public doors are opened when they are used, so that importing one room does not import the house."""
    from importlib import import_module

    if name == "fhir":
        return import_module("archqa.fhir")
    if name not in _WHERE:
        raise AttributeError(f"module 'archqa' has no attribute {name!r}")
    return getattr(import_module(_WHERE[name]), name)
