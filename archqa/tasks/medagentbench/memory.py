"""Corrections that an agent learns from its mistakes, in a file of JSON lines.

They are off in the benchmark's mode and never learnt from graded tasks. Each records a fingerprint
of the instruction it was learnt from, and is not used for that instruction.
"""

import hashlib
import json
import re
from collections.abc import Iterable
from pathlib import Path

from pydantic import Field, ValidationError

from archqa.core.value import FrozenModel
from archqa.errors import CallerError, InputError
from archqa.safety.private_files import open_private_log

_GRADED_TASK_ID = re.compile(r"task\d+_\d+")
_PATIENT = re.compile(r"[A-Z]{0,3}\d{5,}")


class Correction(FrozenModel):
    """One correction. `learnt_from` is the fingerprint of the instruction it came from."""

    when: str = Field(min_length=1, max_length=400)
    do: str = Field(min_length=1, max_length=400)
    learnt_from: str

    @property
    def text(self) -> str:
        """The sentence that a model reads."""
        return f"When {self.when}: {self.do}"


def fingerprint(instruction: str) -> str:
    """A sha256 that is the same for instructions that differ only in the patient."""
    without_patient = _PATIENT.sub("#", instruction).lower()
    normalised = " ".join(without_patient.split())
    return hashlib.sha256(normalised.encode()).hexdigest()


def add_correction(
    path: Path, instruction: str, when: str, do: str, task_id: str = ""
) -> Correction:
    """Append a correction to a file.

    Raises `CallerError` if it comes from a graded task of a benchmark.
    """
    if _GRADED_TASK_ID.fullmatch(task_id):
        raise CallerError(f"{task_id} is a graded task.\nMemory is fed from ungraded work only.")
    correction = Correction(when=when, do=do, learnt_from=fingerprint(instruction))
    with open_private_log(path) as file:
        file.write(correction.model_dump_json() + "\n")
    return correction


def load_corrections(path: Path, instruction: str) -> tuple[str, ...]:
    """The corrections for an instruction, without those learnt from it.

    Raises `InputError` for a malformed file.
    """
    own_fingerprint = fingerprint(instruction)
    corrections = _read_corrections(path)
    return tuple(
        correction.text for correction in corrections if correction.learnt_from != own_fingerprint
    )


def _read_corrections(path: Path) -> Iterable[Correction]:
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError):
        raise InputError(
            path, [": cannot be read."], "Name a file of corrections, or leave memory out."
        ) from None
    for number, line in enumerate(lines, 1):
        if line.strip():
            yield _parse_correction(line, path, number)


def _parse_correction(line: str, path: Path, number: int) -> Correction:
    try:
        return Correction.model_validate(json.loads(line))
    except (ValueError, ValidationError):
        fix = 'A line reads {"when": …, "do": …, "learnt_from": …}.'
        raise InputError(path, [f":{number}: is no correction."], fix) from None
