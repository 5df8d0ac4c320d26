"""What a benchmark is: cases, a key and a submission format. Every benchmark of this room is one instance of it."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from archqa.benchmarks.cohort import CasesOnDisk
from archqa.benchmarks.node import Content
from archqa.benchmarks.source import Source
from archqa.core.answer import CitedAnswer
from archqa.core.case import Case
from archqa.core.key import CaseKey
from archqa.errors import CallerError

Readable = Source | str | Path | bytes
"""A path, `-` (standard input), `mini` (the bundled cases), or what was read of a file before."""


class NotBuilt(CallerError):
    """The benchmark is known, this version cannot do it yet."""

    def __init__(self, name: str) -> None:
        super().__init__(
            f"{name} is not built yet in this version.\nA later one may have it (CHANGELOG.md); archehr-2025 is built."
        )


@dataclass(frozen=True)
class CaseFile:
    """A case file as it was read. `path` is `-` for standard input; `sha256` is of its bytes."""

    path: Path
    task: str
    cases: Sequence[Case]
    sha256: str
    format: Literal["xml", "json", "jsonl", "csv"]

    @property
    def ids(self) -> tuple[str, ...]:
        """The cases' ids, in file order."""
        return self.cases.ids if isinstance(self.cases, CasesOnDisk) else tuple(case.id for case in self.cases)

    def at(self, places: Sequence[int]) -> Sequence[Case]:
        """The cases at these places; those of a cohort stay on disk."""
        return (
            self.cases.at(places) if isinstance(self.cases, CasesOnDisk) else tuple(self.cases[each] for each in places)
        )


@dataclass(frozen=True)
class KeyFile:
    """A key as it was read: case id to what the organisers hold true of that case."""

    path: Path
    sha256: str
    keys: dict[str, CaseKey]


@dataclass(frozen=True)
class Benchmark:
    """A benchmark that is known by name and by content. Subclasses can do it; this one says that it cannot.

    `marks` are the fields of a file that tell it; empty if only `--task` chooses it. `word_limit` is None when
    answers may have any length.
    """

    name: str
    title: str
    marks: frozenset[str] = frozenset()
    word_limit: int | None = None

    def recognises(self, content: Content) -> bool:
        """Whether a file's content is of this benchmark."""
        return bool(self.marks) and self.marks <= content.fields

    def load(self, source: Readable) -> tuple[Case, ...]:
        """The cases of a file, in its order. Raises `InputError` with every mistake of the file."""
        raise NotBuilt(self.name)

    def load_key(self, source: Readable) -> dict[str, CaseKey]:
        """Case id to key. Raises `InputError` with every mistake of the file."""
        raise NotBuilt(self.name)

    def submission(self, answers: Iterable[tuple[str, CitedAnswer]]) -> list[dict[str, Any]]:
        """Answers by case id in the form that the organisers take, ready for `json.dump`."""
        raise NotBuilt(self.name)
