"""Tasks: their cases, keys, pipelines, results, submissions and scores.

Everything is imported when it is used, so that settings load fast.
"""

from typing import TYPE_CHECKING

from archqa.core.public_names import imported_on_use

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

_NAMES = {
    "archehr_2025.task": ("dump_json",),
    "archehr_2026.task": (
        "clinician_sentences",
        "with_clinician_answers",
    ),
    "keys": ("check_key_matches", "find_key", "load_key"),
    "case_files": (
        "complete",
        "load_cases",
        "load_cases_to_answer",
        "load_notes",
    ),
    "registry": ("find", "names"),
    "task": ("CaseFile", "CompletedCase", "EndedRun", "Task"),
}

__getattr__ = imported_on_use(__name__, _NAMES)
