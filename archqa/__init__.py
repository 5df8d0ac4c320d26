"""Answers a question from the patient's own record and shows, for every claim, the evidence it rests on.

import archqa
run = archqa.predict("data/dev.json")
print(archqa.score(run)["strict_micro_f1"])
run.to_pandas()
archqa.ask("Why was she given antibiotics?", note="...").text
"""

import logging as _logging
import typing as _typing

from archqa.core.version import __version__

if _typing.TYPE_CHECKING:
    from archqa import fhir
    from archqa.asking.answer import Answer
    from archqa.asking.ask import ask
    from archqa.asking.many import ask_many
    from archqa.asking.thread import Thread
    from archqa.briefing.brief import Brief, brief
    from archqa.evaluation.comparison import compare_runs as compare
    from archqa.evaluation.scoring import score
    from archqa.report import show_case
    from archqa.runs.predict import predict
    from archqa.runs.run import Run
    from archqa.tasks import load_cases

__all__ = [
    "Answer",
    "Brief",
    "Run",
    "Thread",
    "__version__",
    "ask",
    "ask_many",
    "brief",
    "compare",
    "fhir",
    "load_cases",
    "predict",
    "score",
    "show_case",
]

_PUBLIC = {
    "Answer": ("archqa.asking.answer", "Answer"),
    "Brief": ("archqa.briefing.brief", "Brief"),
    "Run": ("archqa.runs.run", "Run"),
    "Thread": ("archqa.asking.thread", "Thread"),
    "ask": ("archqa.asking.ask", "ask"),
    "ask_many": ("archqa.asking.many", "ask_many"),
    "brief": ("archqa.briefing.brief", "brief"),
    "compare": ("archqa.evaluation.comparison", "compare_runs"),
    "load_cases": ("archqa.tasks", "load_cases"),
    "predict": ("archqa.runs.predict", "predict"),
    "score": ("archqa.evaluation.scoring", "score"),
    "show_case": ("archqa.report", "show_case"),
}
"""Public name to its module and its name there."""

# Without a handler Python prints stamina's messages about retries to stderr; applications may still configure them.
_logging.getLogger("stamina").addHandler(_logging.NullHandler())


def __getattr__(name: str) -> object:
    """Import a public name when it is used first, so that `import archqa` is fast."""
    from importlib import import_module

    if name == "fhir":
        return import_module("archqa.fhir")
    if name not in _PUBLIC:
        raise AttributeError(f"module 'archqa' has no attribute {name!r}")
    module, attribute = _PUBLIC[name]
    return getattr(import_module(module), attribute)


def __dir__() -> list[str]:
    return list(__all__)
