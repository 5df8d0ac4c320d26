"""Reads a run, finished or in progress, from its folder."""

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from archqa import tasks
from archqa.core.case import Case
from archqa.core.question import Item
from archqa.core.usage import Usage, sum_usage
from archqa.runs.folder import Records, RunFolder
from archqa.runs.record import CaseRecord, CaseStatus, RunManifest
from archqa.runs.run_view import run_html
from archqa.safety.arguments import as_path
from archqa.tasks import CompletedCase, EndedRun

if TYPE_CHECKING:
    import pandas


class Run:
    """Reads a run folder. Never calls a model.

    `cases` are those of the run if they are in memory already; else they are read when needed.
    """

    def __init__(self, folder: RunFolder, cases: Sequence[Item] | None = None) -> None:
        self.folder = folder
        if cases is not None:
            self.cases = cases

    @classmethod
    def open(cls, path: str | Path) -> "Run":
        """The run in this folder. Raises `InputError` if it is not a run folder."""
        return cls(RunFolder.open(as_path(path, "The run")))

    @property
    def path(self) -> Path:
        """The run's folder."""
        return self.folder.path

    @cached_property
    def manifest(self) -> RunManifest:
        """`run.json`."""
        return self.folder.manifest()

    @property
    def records(self) -> tuple[CaseRecord, ...]:
        """How the cases ended, in the order of the case file; those not yet reached are absent."""
        return tuple(self.iter_records())

    def iter_records(self) -> Iterator[CaseRecord]:
        """The same, one at a time, for runs too long to hold in memory."""
        for case_id in self.manifest.case_ids:
            if case_id in self._ended:
                yield self._ended[case_id]

    @cached_property
    def _ended(self) -> Records:
        return self.folder.records()

    @cached_property
    def cases(self) -> Sequence[Item]:
        """The cases as the run read them (`input.jsonl`)."""
        return tasks.load_cases(self.path / "input.jsonl", task=self.manifest.task).cases

    @property
    def notes(self) -> Sequence[Case]:
        """The cases of a run over notes; empty for questions to a FHIR record."""
        return [case for case in self.cases if isinstance(case, Case)]

    def get_record(self, case_id: str) -> CaseRecord | None:
        """How one case ended; None if it has not been reached."""
        return self._ended.get(case_id)

    def record_line(self, case_id: str) -> bytes:
        """The line of `cases.jsonl` that says how a case ended; empty if it was not reached."""
        return self._ended.line(case_id) if case_id in self._ended else b""

    @property
    def usage(self) -> Usage:
        """Calls, tokens and cost of all cases."""
        return sum_usage(record.usage for record in self.iter_records())

    @property
    def complete(self) -> bool:
        """Whether every case has ended, with or without an answer."""
        return len(self._ended) == len(self.manifest.case_ids)

    def count(self, status: CaseStatus) -> int:
        """The number of cases with this status."""
        return sum(record.status is status for record in self.iter_records())

    def summary(self) -> dict[str, Any]:
        """The object that `archqa predict --json` prints."""
        statuses: Counter[CaseStatus] = Counter()
        usage = Usage()
        for record in self.iter_records():
            statuses[record.status] += 1
            usage += record.usage
        return {
            "run": str(self.path),
            "task": self.manifest.task,
            "pipeline": self.manifest.pipeline,
            "cases": len(self.manifest.case_ids),
            "answered": statuses[CaseStatus.ANSWERED],
            "failed": statuses[CaseStatus.FAILED],
            "unanswerable": statuses[CaseStatus.UNANSWERABLE],
            "calls": usage.calls,
            "cached_calls": usage.cached_calls,
            "prompt_tokens": usage.prompt_tokens,
            "completion_tokens": usage.completion_tokens,
            "cost_usd": usage.cost_usd,
            "seconds": round(self.manifest.seconds, 3),
        }

    def ended(self) -> Iterator[CompletedCase]:
        """Every case that ended, with its outcome, in the order of the case file."""
        for case in self.cases:
            if case.id in self._ended:
                record = self._ended[case.id]
                yield CompletedCase(
                    case, record.answer, record.result, record.error, record.usage, record.evidence
                )

    def submission(self) -> Any:
        """The ended cases in the task's own format."""
        return tasks.find(self.manifest.task).submission(self.ended())

    def write_submission(self) -> Path:
        """Write `submission.json` into the folder."""
        return self.folder.write_json("submission.json", self.submission())

    def as_ended(self) -> EndedRun:
        """The run as the task needs it to write the files of its benchmark."""
        data = self.manifest.data
        return EndedRun(Path(data.path), data.sha256, self.manifest.case_ids, self.ended())

    def write_task_files(self) -> None:
        """Write the further files of the task's benchmark, next to the submission."""
        for name, content in tasks.find(self.manifest.task).extra_files(self.as_ended()).items():
            if name.endswith(".jsonl"):
                lines = (json.dumps(row, ensure_ascii=False) for row in content)
                self.folder.write_lines(name, lines)
            else:
                self.folder.write_json(name, content)

    def to_pandas(self) -> "pandas.DataFrame":
        """Return a table of the cases: id, status, answer, evidence, usage, seconds, error."""
        import pandas

        return pandas.DataFrame(_row(record) for record in self.iter_records())

    def judgements_to_pandas(self) -> "pandas.DataFrame":
        """Return a table of the judgements, and whether the answer cites their sentences."""
        import pandas

        rows: list[tuple[Any, ...]] = []
        for record in self.iter_records():
            rows.extend(_judgement_rows(record))
        return pandas.DataFrame(rows, columns=_JUDGEMENT_COLUMNS)

    def __repr__(self) -> str:
        manifest = self.manifest
        what = f"{manifest.task}, {manifest.pipeline}, {manifest.status.value}"
        return f"<Run {str(self.path)!r}: {what}, {len(manifest.case_ids):,} cases>"

    def _repr_html_(self) -> str:
        return run_html(self)


_JUDGEMENT_COLUMNS = (
    "case_id",
    "sentence_id",
    "agent",
    "label",
    "probability",
    "rationale",
    "cited",
)


def write_cases(folder: RunFolder, task: str, cases: Iterable[Item]) -> None:
    """Copy the cases into the run, so that it can be shown and scored without the case file."""
    benchmark = tasks.find(task)
    folder.write_lines("input.jsonl", (benchmark.dump_line(case) for case in cases))


def _row(record: CaseRecord) -> dict[str, Any]:
    return {
        "case_id": record.id,
        "status": record.status.value,
        "answer": record.answer.submission if record.answer else _said(record),
        "evidence": list(record.evidence or _cited_resources(record)),
        "words": record.answer.words if record.answer else None,
        "calls": record.usage.calls,
        "prompt_tokens": record.usage.prompt_tokens,
        "completion_tokens": record.usage.completion_tokens,
        "cost_usd": record.usage.cost_usd,
        "seconds": record.seconds,
        "tries": record.tries,
        "error": record.error,
    }


def _said(record: CaseRecord) -> str | None:
    """The answer of a question or task on a FHIR record, which is in no note's form."""
    return record.result.answer_text if record.result else None


def _cited_resources(record: CaseRecord) -> tuple[str, ...]:
    """The evidence of a question or task on a FHIR record."""
    return record.result.cited_resources if record.result else ()


def _judgement_rows(record: CaseRecord) -> Iterator[tuple[Any, ...]]:
    cited = record.answer.cited if record.answer else frozenset(record.evidence)
    for agent, judgements in record.judgements.items():
        for judgement in judgements:
            yield (
                record.id,
                judgement.sentence_id,
                agent,
                judgement.label.value,
                judgement.probability,
                judgement.rationale,
                judgement.sentence_id in cited,
            )
