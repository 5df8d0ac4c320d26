"""Tasks: their cases, keys, pipelines, results, submissions and scores.

Everything is imported when it is used, so that settings load fast.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from archqa.tasks.archehr_2025.task import dump_json
    from archqa.tasks.archehr_2026.task import (
        clinician_sentences,
        with_clinician_answers,
    )
    from archqa.tasks.case_files import (
        complete,
        load_cases,
        load_cases_to_answer,
        load_notes,
    )
    from archqa.tasks.keys import check_key_matches, find_key, load_key
    from archqa.tasks.registry import find, names
    from archqa.tasks.task import CaseFile, CompletedCase, EndedRun, Task

__all__ = [
    "CaseFile",
    "CompletedCase",
    "EndedRun",
    "Task",
    "check_key_matches",
    "clinician_sentences",
    "complete",
    "dump_json",
    "find",
    "find_key",
    "load_cases",
    "load_cases_to_answer",
    "load_key",
    "load_notes",
    "names",
    "with_clinician_answers",
]

_MODULES = {
    "archqa.tasks.archehr_2025.task": ("dump_json",),
    "archqa.tasks.archehr_2026.task": (
        "clinician_sentences",
        "with_clinician_answers",
    ),
    "archqa.tasks.keys": ("check_key_matches", "find_key", "load_key"),
    "archqa.tasks.case_files": (
        "complete",
        "load_cases",
        "load_cases_to_answer",
        "load_notes",
    ),
    "archqa.tasks.registry": ("find", "names"),
    "archqa.tasks.task": ("CaseFile", "CompletedCase", "EndedRun", "Task"),
}


def __getattr__(name: str) -> Any:
    for module, attributes in _MODULES.items():
        if name in attributes:
            return getattr(import_module(module), name)
    raise AttributeError(f"module 'archqa.tasks' has no attribute {name!r}")
