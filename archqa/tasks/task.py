"""What a task is: everything the rest of archqa needs to know of a benchmark, in one object."""

import pkgutil
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, cast

from archqa.core.answer import CitedAnswer
from archqa.core.case import Case
from archqa.core.key import CaseKey
from archqa.core.question import Item
from archqa.core.result import TaskResult
from archqa.core.usage import Usage
from archqa.errors import CallerError
from archqa.tasks.files.cohorts import CasesOnDisk
from archqa.tasks.files.mistakes import printable
from archqa.tasks.files.source import Content, Source

if TYPE_CHECKING:
    from archqa.tasks.pipeline import Pipeline
    from archqa.tasks.scoring import ScoringBridge


_MAX_NAMED_CASES = 20


class LoadRemarks:
    """Which notes were split into sentences: the first twenty by case, the others by number.

    A cohort is read again and again, so that little is kept, and a case counts once while
    `texts` has not been called.
    """

    def __init__(self) -> None:
        self._sentence_counts: dict[str, int] = {}
        self._unnamed_count = 0

    def add_split(self, case_id: str, sentence_count: int) -> None:
        """Record that the sentences of a case were made from its note."""
        if case_id in self._sentence_counts:
            return
        if len(self._sentence_counts) < _MAX_NAMED_CASES:
            self._sentence_counts[case_id] = sentence_count
        else:
            self._unnamed_count += 1

    def texts(self) -> tuple[str, ...]:
        """The remarks so far."""
        remarks = []
        for case_id, count in self._sentence_counts.items():
            sentences = "1 sentence" if count == 1 else f"{count} sentences"
            remarks.append(
                f"case {printable(case_id)}: {sentences} made from note_excerpt"
            )
        if self._unnamed_count:
            remarks.append(
                f"sentences of {self._unnamed_count} more cases were made from note_excerpt"
            )
        return tuple(remarks)


CaseSource = Source | str | Path | bytes
"""A path, `-` (standard input), `mini` (the bundled cases), or a file that was read before."""


@dataclass(frozen=True)
class CaseFile:
    """A case file as it was read. `path` is `-` for standard input; `sha256` is of its bytes.

    `is_complete` if every case is known to have all that an answer needs; `remarks` say what the
    loader made itself.
    """

    path: Path
    task: str
    cases: Sequence[Item]
    sha256: str
    format: Literal["xml", "json", "jsonl", "csv", "parquet"]
    is_complete: bool = False
    remarks: tuple[str, ...] = ()

    @property
    def ids(self) -> tuple[str, ...]:
        """The cases' ids, in file order."""
        if isinstance(self.cases, CasesOnDisk):
            return self.cases.ids
        return tuple(case.id for case in self.cases)

    @property
    def notes(self) -> Sequence[Case]:
        """The cases of a file that holds notes. Raises `CallerError` if it holds questions to a FHIR record."""
        if any(not isinstance(case, Case) for case in self.cases[:1]):
            raise CallerError(
                f"{self.path} is of {self.task}, which has no notes.\nName an ArchEHR-QA case file."
            )
        return cast("Sequence[Case]", self.cases)

    def select(self, indices: Sequence[int]) -> Sequence[Item]:
        """The cases at these indices; those of a cohort stay on disk."""
        if isinstance(self.cases, CasesOnDisk):
            return self.cases.select(indices)
        return tuple(self.cases[index] for index in indices)


@dataclass(frozen=True)
class KeyFile:
    """A key as it was read: case id → the organisers' labels and answer."""

    path: Path
    sha256: str
    keys: dict[str, CaseKey]


class MissingPart(NamedTuple):
    """A field that a case cannot be answered without, and what to do about it."""

    field: str
    problem: str


class CompletedCase(NamedTuple):
    """How one item of a run ended, as a submission takes it. `error` is empty unless it failed."""

    item: Item
    answer: CitedAnswer | None = None
    result: TaskResult | None = None
    error: str = ""
    usage: Usage = Usage()
    evidence: tuple[str, ...] = ()


class EndedRun(NamedTuple):
    """A run as a task sees it: the case file, its ids, and how each case ended.

    `ended` is read once, one case at a time: a long run does not fit into memory.
    """

    data_path: Path
    data_sha256: str
    case_ids: tuple[str, ...]
    ended: Iterable[CompletedCase]


class ScoreDisplay(NamedTuple):
    """How scores of a task are shown. Scores run from 0 to `max_score`.

    `headline` are the scores shown first, the main one leading. `case_metrics` are computed for each case
    of a run that has its scores already; None computes all.
    """

    headline: tuple[str, ...] = ()
    case_metrics: tuple[str, ...] | None = None
    max_score: float = 100.0
    decimals: int = 1


class TableColumns(NamedTuple):
    """The columns of a table of cases. `id` is the column of ids.

    Each of `required` lists columns of which a table has one at least. `short_names` are what
    people call some columns.
    """

    id: str = ""
    required: tuple[tuple[str, ...], ...] = ()
    optional: tuple[str, ...] = ()
    short_names: Mapping[str, str] = {}

    @property
    def names(self) -> tuple[str, ...]:
        """Every column, short names first."""
        needed = [name for alternatives in self.required for name in alternatives]
        return tuple(
            dict.fromkeys((*self.short_names, self.id, *needed, *self.optional))
        )


class ExportFormat(NamedTuple):
    """How the organisers take a submission.

    `made_by` says which runs have what the submission takes; it is empty if only runs of the task have it.
    """

    as_zip: bool = False
    needs_all_cases: bool = False
    made_by: str = ""


_PLAIN_DISPLAY = ScoreDisplay()
_ANY_COLUMNS = TableColumns()
_PLAIN_EXPORT = ExportFormat()


@dataclass(frozen=True)
class Task(ABC):
    """A benchmark that is recognised by name and by content.

    `marks` are the fields of a file that identify it; empty if only `--task` chooses it. `word_limit` is
    None when answers may have any length. `result_type` is the type of a case's result; None if that is
    the cited answer alone. `pipelines_path` and `scoring_path` name a tuple of pipelines and a scoring
    bridge as `module:attribute`; they are imported when they are needed. `columns` are those of its
    cases as a data frame; without them, a table may have any.
    """

    name: str
    title: str
    marks: frozenset[str] = frozenset()
    word_limit: int | None = None
    result_type: type[TaskResult] | None = None
    pipelines_path: str = ""
    scoring_path: str = ""
    display: ScoreDisplay = _PLAIN_DISPLAY
    export: ExportFormat = _PLAIN_EXPORT
    columns: TableColumns = _ANY_COLUMNS

    @property
    def reads_notes(self) -> bool:
        """Whether the evidence is the sentences of a note, not the resources of a FHIR record."""
        return False

    def pipelines(self) -> "tuple[Pipeline, ...]":
        """The pipelines that do this task; the first of each backend is its default."""
        pipelines: tuple[Pipeline, ...] = pkgutil.resolve_name(self.pipelines_path)
        return pipelines

    def scoring(self) -> "ScoringBridge":
        """How its submissions are scored."""
        bridge: ScoringBridge = pkgutil.resolve_name(self.scoring_path)
        return bridge

    def recognises(self, content: Content) -> bool:
        """Whether a file's content is of this benchmark."""
        return bool(self.marks) and self.marks <= content.fields

    @abstractmethod
    def load(self, source: CaseSource) -> tuple[Item, ...]:
        """The cases of a file, in its order. Raises `InputError` with every mistake of the file."""

    def for_answering(self, remarks: LoadRemarks) -> "Task":
        """This task as it reads cases that will be answered.

        A case without a question or a note is then a mistake of its file. What the loader makes
        itself goes to `remarks`.
        """
        return self

    def for_scoring(self) -> "Task":
        """This task as it reads cases that were answered: complete ones, and withheld ones too."""
        return self

    def completed(self, item: Any, remarks: LoadRemarks) -> Any:
        """An item that was read without `for_answering`, with what can be made of its note."""
        return item

    def missing_parts(self, item: Any) -> Iterable[MissingPart]:
        """What an item lacks to be answered."""
        return ()

    @abstractmethod
    def dump_line(self, item: Any) -> str:
        """An item as one line of a JSON Lines file, which `read_line` reads back unchanged."""

    def read_line(self, line: bytes, path: str) -> Item:
        """The item in one line of a JSON Lines file. Raises `InputError` with every mistake of the line."""
        [item] = self.load(Source(path, b"[" + line.strip() + b"]"))
        return item

    @abstractmethod
    def submission(self, ended: Iterable[CompletedCase]) -> Any:
        """The submission in the organisers' form, ready for `json.dump`."""

    def extra_files(self, run: EndedRun) -> Mapping[str, Any]:
        """The benchmark's further files: name → JSON value, or rows if the name ends in `.jsonl`."""
        return {}
