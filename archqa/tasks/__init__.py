"""Tasks: their cases, keys, pipelines, results, submissions and scores."""

from archqa.tasks.archehr_2025.cases import dump_json
from archqa.tasks.archehr_2026.clinician_answers import clinician_sentences, with_clinician_answers
from archqa.tasks.key_matching import check_key_matches
from archqa.tasks.registry import (
    all_tasks,
    default_task,
    find,
    find_key,
    load_cases,
    load_key,
    load_notes,
    names,
    recognise,
    register,
)
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
    "default_task",
    "dump_json",
    "find",
    "find_key",
    "load_cases",
    "load_key",
    "load_notes",
    "names",
    "recognise",
    "register",
    "with_clinician_answers",
]
