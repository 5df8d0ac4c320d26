"""The patient who was found, and the errors where none or several were.

The messages of the errors may go to a log: they repeat neither what was typed nor the record.
"""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from archqa.errors import CallerError

_MAX_SHOWN = 10
"""Patients that an error names."""


class PatientMatch(NamedTuple):
    """The patient who was found; `birth_date` as in the record, or empty."""

    id: str
    name: str
    birth_date: str
    resource: Mapping[str, Any]

    @property
    def as_json(self) -> dict[str, str]:
        """The `id` and the `name`, as an answer has them."""
        return {"id": self.id, "name": self.name}

    @property
    def line(self) -> str:
        """The patient in one line, to choose from several."""
        born = f"born {self.birth_date}" if self.birth_date else "birth date unknown"
        return f"{self.id}  {self.name or 'no name'}, {born}"


class PatientNotFound(CallerError):
    """The record has no patient of this id, identifier or name."""

    def __init__(self) -> None:
        super().__init__(
            "The record has no patient of this id, identifier or name.\n"
            "Tried: the FHIR id, every identifier (MRN), and every name by whole words, written "
            '"Given Family" or "Family, Given".\n`archqa fhir search Patient` lists the patients.'
        )


class TooManyPatients(CallerError):
    """So many patients have names that begin like this that not all of them were read."""

    def __init__(self, count: int) -> None:
        super().__init__(
            f"More than {count} patients of the record have such a name.\n"
            "Name one by FHIR id or identifier."
        )


class SeveralPatients(CallerError):
    """Several patients have this name or identifier.

    `candidates` are up to ten of them and `details` names these, for where answers are shown.
    `count` is how many there are, or at least are if `is_cut`.
    """

    def __init__(self, matches: Sequence[PatientMatch], what: str, *, is_cut: bool = False) -> None:
        self.candidates = tuple(sorted(matches, key=_name_and_birth)[:_MAX_SHOWN])
        self.count = len(matches)
        self.is_cut = is_cut
        at_least = "At least " if is_cut else ""
        self._headline = f"{at_least}{self.count} patients of the record have this {what}"
        super().__init__(f"{self._headline}.\nName one by FHIR id, or by an identifier of its own.")

    @property
    def details(self) -> str:
        """The patients by id, name and birth date, one a line, and how many more there are."""
        lines = [f"{self._headline}:", *(match.line for match in self.candidates)]
        others = self.count - len(self.candidates)
        if others:
            lines.append(f"and {'at least ' if self.is_cut else ''}{others} more")
        return "\n".join(lines)

    @property
    def as_json(self) -> dict[str, Any]:
        """The patients as `archqa ask --json` prints them."""
        candidates = [
            {**match.as_json, "birth_date": match.birth_date} for match in self.candidates
        ]
        return {"candidates": candidates, "count": self.count}


def _name_and_birth(match: PatientMatch) -> tuple[str, str, str]:
    return match.name, match.birth_date, match.id
