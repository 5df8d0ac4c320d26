"""Benchmarks: their cases, their keys, their submission formats."""

from archqa.tasks.archehr_2025.cases import dump_json
from archqa.tasks.archehr_2026.clinician_answers import clinician_sentences, with_clinician_answers
from archqa.tasks.key_matching import check_key_matches
from archqa.tasks.registry import (
    MEDAGENTBENCH,
    find,
    find_key,
    load_cases,
    load_key,
    names,
    recognise,
)
from archqa.tasks.task import CaseFile, CompletedCase, EndedRun, KeyFile, Task

__all__ = [
    "MEDAGENTBENCH",
    "CaseFile",
    "CompletedCase",
    "EndedRun",
    "KeyFile",
    "Task",
    "check_key_matches",
    "clinician_sentences",
    "dump_json",
    "find",
    "find_key",
    "load_cases",
    "load_key",
    "names",
    "recognise",
    "with_clinician_answers",
]
