"""Tasks: their cases, keys, pipelines, results, submissions and scores.

Everything is imported when it is used, so that settings load fast.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from archqa.tasks.archehr_2025.cases import dump_json
    from archqa.tasks.archehr_2026.task import (
        clinician_sentences,
        with_clinician_answers,
    )
    from archqa.tasks.case_files import (
        complete,
        find_key,
        load_cases,
        load_cases_to_answer,
        load_key,
        load_notes,
        recognise,
    )
    from archqa.tasks.key_matching import check_key_matches
    from archqa.tasks.registry import all_tasks, default_task, find, names, register
    from archqa.tasks.task import CaseFile, CompletedCase, EndedRun, KeyFile, Task

__all__ = [
    "CaseFile",
    "CompletedCase",
    "EndedRun",
    "KeyFile",
    "Task",
    "all_tasks",
    "check_key_matches",
    "clinician_sentences",
    "complete",
    "default_task",
    "dump_json",
    "find",
    "find_key",
    "load_cases",
    "load_cases_to_answer",
    "load_key",
    "load_notes",
    "names",
    "recognise",
    "register",
    "with_clinician_answers",
]

_MODULES = {
    "archqa.tasks.archehr_2025.cases": ("dump_json",),
    "archqa.tasks.archehr_2026.task": (
        "clinician_sentences",
        "with_clinician_answers",
    ),
    "archqa.tasks.key_matching": ("check_key_matches",),
    "archqa.tasks.case_files": (
        "complete",
        "find_key",
        "load_cases",
        "load_cases_to_answer",
        "load_key",
        "load_notes",
        "recognise",
    ),
    "archqa.tasks.registry": ("all_tasks", "default_task", "find", "names", "register"),
    "archqa.tasks.task": ("CaseFile", "CompletedCase", "EndedRun", "KeyFile", "Task"),
}
_MODULE_OF = {
    attribute: module for module, attributes in _MODULES.items() for attribute in attributes
}


def __getattr__(name: str) -> Any:
    if name not in _MODULE_OF:
        raise AttributeError(f"module 'archqa.tasks' has no attribute {name!r}")
    return getattr(import_module(_MODULE_OF[name]), name)
