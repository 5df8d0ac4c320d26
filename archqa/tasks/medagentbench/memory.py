"""Corrections that an agent keeps from its mistakes: "when asked for this, do that". A file of JSON lines.

Off in the benchmark's mode, and never fed with what is graded: a correction says which instruction it was learnt from,
and none is used on that one.
"""

import hashlib
import json
import os
import re
from collections.abc import Iterable
from pathlib import Path

from pydantic import Field, ValidationError

from archqa.core.value import FrozenModel
from archqa.errors import CallerError, InputError

_GRADED = re.compile(r"task\d+_\d+")
_PATIENT = re.compile(r"[A-Z]{0,3}\d{5,}")


class Correction(FrozenModel):
    """One lesson. `learnt_from` is the fingerprint of the instruction it came from, patient left out."""

    when: str = Field(min_length=1, max_length=400)
    do: str = Field(min_length=1, max_length=400)
    learnt_from: str

    @property
    def text(self) -> str:
        """As it is said to a model."""
        return f"When {self.when}: {self.do}"


def fingerprint(instruction: str) -> str:
    """The same for instructions that differ in the patient only."""
    general = " ".join(_PATIENT.sub("#", instruction).lower().split())
    return hashlib.sha256(general.encode()).hexdigest()


def add_correction(
    path: Path, instruction: str, when: str, do: str, task_id: str = ""
) -> Correction:
    """Add a lesson. Raises `CallerError` if it comes from a graded task of a benchmark."""
    if _GRADED.fullmatch(task_id):
        raise CallerError(f"{task_id} is a graded task.\nMemory is fed from ungraded work only.")
    lesson = Correction(when=when, do=do, learnt_from=fingerprint(instruction))
    number = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    with os.fdopen(number, "a", encoding="utf-8") as file:
        file.write(lesson.model_dump_json() + "\n")
    return lesson


def load_corrections(path: Path, instruction: str) -> tuple[str, ...]:
    """The lessons for an instruction, those learnt from its like left out. Raises `InputError` for a bad file."""
    own = fingerprint(instruction)
    return tuple(each.text for each in _lessons(path) if each.learnt_from != own)


def _lessons(path: Path) -> Iterable[Correction]:
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError):
        raise InputError(
            path, [": cannot be read."], "Name a file of corrections, or leave memory out."
        ) from None
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            yield Correction.model_validate(json.loads(line))
        except (ValueError, ValidationError):
            fix = 'A line reads {"when": …, "do": …, "learnt_from": …}.'
            raise InputError(path, [f":{number}: is no correction."], fix) from None
