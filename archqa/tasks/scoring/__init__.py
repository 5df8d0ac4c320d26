"""The contract between a task and the package `scoring`: what is scored, against what, and the report.

Each task has a `ScoringBridge` in its own `scoring` module. It reads the task's references, checks the
shape of submitted rows and calls the official metrics.
"""

import json
import re
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, Literal, NamedTuple, TypeVar

from archqa.core.case import Case
from archqa.core.id_lists import list_ids
from archqa.core.question import Item
from archqa.errors import CallerError, InputError
from archqa.safety.files import write_private_text
from archqa.tasks.case_files import load_cases, load_notes
from archqa.tasks.files.mistakes import printable
from archqa.tasks.files.source import read_source
from archqa.tasks.key_provenance import ScoredKeys, key_provenance
from archqa.tasks.scoring.score_report import Baselines, RowScorer, ScoreReport
from archqa.tasks.task import CompletedCase, EndedRun
from scoring import Scores, ScoringError

if TYPE_CHECKING:
    from archqa.tasks.scoring.judging import Judge


Reference = TypeVar("Reference")

_ID_RANGE = re.compile(r"([0-9]{1,18})-([0-9]{1,18})")
_OWN_SCORES = frozenset({"question_overlap", "line_support", "line_support_judged"})
"""Scores that the leaderboard does not have."""
_STRICT_FIX = (
    "The organisers' script refuses this submission. Without --strict it is scored."
)
_LONG_QUOTE = re.compile(r"""(['"])((?:(?!\1).){40})(?:(?!\1).)+\1""")


class ScoreSettings(NamedTuple):
    """How to score; the defaults are the official rules with the reference in note order."""

    metrics: tuple[str, ...] | None = None
    reference_order: str = "note"
    bootstrap: int = 1000
    seed: int = 12345
    quickumls_path: Path | None = None
    alignscore_path: Path | None = None
    bertscore_model: str | None = None
    grading: Literal["official", "clinical", "both"] = "both"

    def includes(self, metric: str) -> bool:
        """Whether a metric is asked for, with whatever settings."""
        return self.metrics is None or any(
            name.startswith(metric) for name in self.metrics
        )

    @property
    def resampling(self) -> dict[str, Any]:
        """The arguments that every task's `score` function takes."""
        return {"bootstrap": self.bootstrap, "seed": self.seed}

    @property
    def text_metrics(self) -> dict[str, Any]:
        """The arguments of the `score` functions that compare texts."""
        return {
            **self.resampling,
            "metrics": self.metrics,
            "quickumls_path": self.quickumls_path,
            "alignscore_path": self.alignscore_path,
            "bertscore_model": self.bertscore_model,
        }


class ScoredRun(NamedTuple):
    """What scoring needs to know of the run that made a submission.

    `ended_ids` are the cases that the run has reached, all of `case_ids` when it is finished.
    `uses_engine`: whether the embedded engine runs any of its agents.
    `ended` reads how each of them ended, where a submission does not say all of it.
    """

    folder: Path
    task: str
    pipeline: str
    data_path: Path
    data_sha256: str
    case_ids: tuple[str, ...]
    ended_ids: tuple[str, ...]
    uses_engine: bool
    record: str | None
    ended: Callable[[], Iterable[CompletedCase]] | None = None

    def cases(self) -> Sequence[Item]:
        """The cases as the run read them (`input.jsonl`)."""
        return load_cases(self.folder / "input.jsonl", self.task).cases


class Submission(NamedTuple):
    """Rows to be scored. `sha256` is of the file's bytes; `run` is None for a bare file."""

    path: Path
    task: str
    rows: list[Any]
    sha256: str
    run: ScoredRun | None = None

    @property
    def folder(self) -> Path:
        """The run's folder, or the folder that holds the file."""
        return self.run.folder if self.run else self.path.parent


class KeySelection(NamedTuple):
    """The ids of the key that count, those that do not, and warnings about `--case-ids`.

    `available` is how many there would be if the run had reached every case.
    """

    ids: list[str]
    excluded: frozenset[str] = frozenset()
    warnings: tuple[str, ...] = ()
    available: int = 0


class Gold(NamedTuple, Generic[Reference]):
    """The references to score against, a second annotator's, and the SHA-256 of the files read.

    `key_path` is the file that holds them, if it is not the one that was named; `scored_keys` has
    the labels, where it is a key of notes.
    """

    references: list[Reference]
    second_references: list[Reference]
    fingerprints: dict[str, str]
    selection: KeySelection
    key_path: Path | None = None
    scored_keys: ScoredKeys = ScoredKeys({}, {})


class ScoringInputs(NamedTuple):
    """The files to score against. A run's own data stands in where `data` is None.

    `case_ids` are the arguments of `--case-ids` in the organisers' form: `121-167 5 7-9`; `record` is a
    FHIR store or server, which `allow_plain_http` lets be on another machine without https.
    `fhir_base` is the base URL that MedAgentBench's agents were told.
    `all_cases` counts the cases that a partial run has not reached as unanswered.
    """

    key: Path | None = None
    data: Path | None = None
    second_key: Path | None = None
    case_ids: tuple[str, ...] = ()
    run: ScoredRun | None = None
    record: str | None = None
    allow_plain_http: bool = False
    fhir_base: str | None = None
    all_cases: bool = False

    @property
    def case_file(self) -> Path | None:
        """The case file passed with `--data`, else the run's."""
        if self.data is not None:
            return self.data
        return self.run.data_path if self.run else None

    def notes(self, path: Path) -> tuple[Sequence[Case], str]:
        """The cases of the file and its SHA-256: the run's own copy if its file is gone or changed."""
        if self.data is None and self.run is not None:
            sha256 = self.run.data_sha256
            if not path.is_file() or read_source(path).sha256 != sha256:
                return load_notes(self.run.folder / "input.jsonl").notes, sha256
        file = load_notes(path)
        return file.notes, file.sha256

    def select_cases(self, key_ids: Iterable[str]) -> KeySelection:
        """The key's ids that are scored: of those that `--case-ids` names, the run's own.

        Without `--case-ids`, of all; with `all_cases`, also those that the run did not reach.
        Raises `CallerError` for none.
        """
        key_ids = list(key_ids)
        named, warnings = self._named_ids(key_ids) if self.case_ids else (key_ids, ())
        ids = named
        if self.run is not None and not self.all_cases:
            own_ids = set(self.run.ended_ids)
            ids = [case_id for case_id in named if case_id in own_ids]
            if not ids:
                raise CallerError(
                    f"{self.run.folder} has no case of the key that has ended.\n"
                    "Go on with it, name another key, or count every case as unanswered: "
                    "--all-cases."
                )
        return KeySelection(ids, frozenset(key_ids) - set(ids), warnings, len(named))

    def _named_ids(self, key_ids: Sequence[str]) -> tuple[list[str], tuple[str, ...]]:
        """Those of the key's ids that `--case-ids` names, and a warning about others it names."""
        single_ids = []
        ranges = []
        for argument in self.case_ids:
            bounds = _ID_RANGE.fullmatch(argument)
            if bounds:
                ranges.append(range(int(bounds[1]), int(bounds[2]) + 1))
            else:
                single_ids.append(argument)
        ids = []
        for case_id in key_ids:
            number = int(case_id) if re.fullmatch(r"[0-9]{1,18}", case_id) else -1
            if case_id in single_ids or any(number in bounds for bounds in ranges):
                ids.append(case_id)
        if not ids:
            raise CallerError(
                f"--case-ids {list_ids(self.case_ids)} names no case of the key."
            )
        unknown = [
            printable(case_id) for case_id in single_ids if case_id not in key_ids
        ]
        if unknown:
            return ids, (f"--case-ids: the key has no case {list_ids(unknown)}.",)
        return ids, ()


class ScoringRequest(NamedTuple):
    """One call of `archqa score`.

    If `strict`, a submission that the organisers' script refuses is refused here too.
    """

    submission: Submission
    inputs: ScoringInputs
    settings: ScoreSettings = ScoreSettings()
    strict: bool = False
    judge: "Judge | None" = None
    official_path: Path | None = None

    def selected_rows(self, selection: KeySelection, id_field: str) -> list[Any]:
        """The submitted rows without those of cases that are not scored."""
        rows = []
        for row in self.submission.rows:
            excluded = (
                isinstance(row, Mapping)
                and str(row.get(id_field)) in selection.excluded
            )
            if not excluded:
                rows.append(row)
        return rows


class ScoringBridge(ABC):
    """How a task's submissions are recognised, checked and scored.

    `plain_metric` is cheap and needs only well-formed rows: if it passes where the requested metrics
    fail, the caller's choice of metrics is at fault, not the file.
    """

    plain_metric: str = "strict_micro_f1"
    takes_judge: bool = False
    takes_fhir_base: bool = False
    reads_submission_file: bool = True
    """Whether a run is scored by its `submission.json`; otherwise `rows_of_run` makes the rows."""

    @abstractmethod
    def score(self, request: ScoringRequest) -> ScoreReport:
        """Score a submission. Raises `InputError`, `CallerError`."""

    def recognises_rows(self, rows: Sequence[Any], fields: frozenset[str]) -> bool:
        """Whether rows with these fields can be a submission of this task."""
        return False

    def rows_from_object(self, content: Mapping[str, Any]) -> list[Any] | None:
        """The rows of a submission file that is one JSON object; None if it is not this task's."""
        return None

    def rows_of_run(self, run: EndedRun) -> tuple[list[Any], bytes]:
        """The rows that a run submits and their bytes, for the fingerprint."""
        raise NotImplementedError

    def row_scorer(self, inputs: ScoringInputs) -> RowScorer:
        """What scores rows in memory against these inputs.

        Raises `CallerError` for a task that has none, and for a file that was not named.
        """
        raise CallerError("Rows of this task are scored from a run or a file alone.")

    def row_errors(self, rows: Sequence[Any]) -> Iterator[str]:
        """Errors in the shape of rows that `scoring` would not report, or would quote record text for."""
        yield from ()

    def check_strictly(
        self, request: ScoringRequest, refusals: Callable[[], Iterable[str]]
    ) -> None:
        """Raise `InputError` with all `refusals` of the organisers' script, if these count."""
        if not request.strict:
            return
        try:
            messages = list(map(shorten_quotes, refusals()))
        except ScoringError:
            # Malformed rows: `compute` reports them.
            return
        if messages:
            problems = [f": {message}" for message in dict.fromkeys(messages)]
            raise InputError(request.submission.path, problems, _STRICT_FIX)

    def compute(self, request: ScoringRequest, score: Callable[..., Scores]) -> Scores:
        """Call `score`. Raises `InputError` if the rows are malformed, `CallerError` for the metrics."""
        try:
            return score()
        except ScoringError as error:
            lines = [shorten_quotes(line.strip()) for line in str(error).splitlines()]
        try:
            score(metrics=[self.plain_metric], bootstrap=0)
        except ScoringError:
            has_heading = len(lines) > 1 and lines[0].endswith(":")
            errors = lines[1:] if has_heading else lines
            raise InputError(
                request.submission.path, [f": {line}" for line in errors]
            ) from None
        raise CallerError("\n".join(lines))

    def report(
        self,
        request: ScoringRequest,
        gold: Gold[Any],
        scores: Scores,
        baselines: Baselines,
    ) -> ScoreReport:
        """The report of these scores, with the warnings about `--case-ids` and about the key."""
        inputs = request.inputs
        path = gold.key_path or inputs.key or inputs.case_file
        key = None
        if path is not None:
            sha256 = gold.fingerprints.get("key") or gold.fingerprints.get("data", "")
            folder = request.submission.folder
            folders = (folder,) if (folder / "run.json").is_file() else ()
            is_met = scores.scores.get("strict_micro_f1") == 100
            provenance = key_provenance(path, sha256, gold.scored_keys, folders)
            key = provenance.meeting(equals_run=is_met)
            scores.warnings[:0] = key.warnings
        scores.warnings.extend(gold.selection.warnings)
        fingerprints = {**gold.fingerprints, "submission": request.submission.sha256}
        unreached = gold.selection.available - len(gold.selection.ids)
        cases_in_key = scores.cases + unreached
        return ScoreReport(
            scores, baselines, fingerprints, cases_in_key=cases_in_key, key=key
        )


def shorten_quotes(line: str) -> str:
    """The line with 40 characters of each longer quotation, which may be record text."""
    return _LONG_QUOTE.sub(r"\1\2…\1", line)


def write_leaderboard(path: Path | None, scores: Mapping[str, float]) -> None:
    """Write the scores by their official names, as the leaderboard takes them, if a file was named."""
    if path is None:
        return
    official = {
        name: value for name, value in scores.items() if name not in _OWN_SCORES
    }
    write_official_text(path, json.dumps(official, indent=2) + "\n")


def write_official_text(path: Path, text: str) -> None:
    """Write a text file with mode 0600. Raises `InputError` if it cannot be written."""
    try:
        write_private_text(path, text)
    except OSError as error:
        raise unwritable(path, error) from None


def unwritable(path: Path, error: OSError) -> InputError:
    """The error for a file that cannot be written."""
    return InputError(
        path,
        [f": cannot be written: {error.strerror}."],
        "Name a place that can, with --official-json.",
    )


def is_id(value: Any) -> bool:
    """Whether a value can be an id: a number or a text that is not empty."""
    return isinstance(value, str | int) and not isinstance(value, bool) and value != ""


def repeated_ids(rows: Sequence[Any], field: str, verb: str) -> Iterator[str]:
    """An error for each id that several rows have, such as `question_id q1: answered 2 times`."""
    ids = [row.get(field) for row in rows if isinstance(row, dict)]
    counts = Counter(map(str, filter(is_id, ids)))
    for row_id, count in counts.items():
        if count > 1:
            yield f"{field} {printable(row_id)}: {verb} {count} times; keep one."
