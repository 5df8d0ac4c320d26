"""Reads a run, finished or in progress, from its folder."""

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from archqa import tasks
from archqa.core import html
from archqa.core.case import Case
from archqa.core.html import scores_html
from archqa.core.question import ClinicalTask, Item
from archqa.core.usage import Usage, sum_usage
from archqa.runs.folder import Records, RunFolder
from archqa.runs.record import CaseRecord, CaseStatus, RunManifest
from archqa.safety.arguments import as_path
from archqa.tasks import CompletedCase, EndedRun

if TYPE_CHECKING:
    import pandas


_SHOWN_CASES = 5


def run_html(run: "Run") -> str:
    """Return the view; all text is escaped, and there is no script."""
    scores = _stored_scores(run)
    parts = [
        html.table(("run", ""), _facts(run)),
        scores_html(scores, scores["warnings"]) if scores else _not_scored(run),
        html.table(("case", "status", "question", "answer"), _case_rows(run)),
        _further_cases(run),
    ]
    return "".join(parts)


def _facts(run: "Run") -> list[tuple[str, str]]:
    manifest = run.manifest
    usage = run.usage
    answering = ", ".join(manifest.answered_by)
    cost = "unknown" if usage.cost_usd is None else f"${usage.cost_usd:.2f}"
    facts = {
        "folder": str(run.path),
        "task": manifest.task,
        "pipeline": f"{manifest.pipeline} ({answering})" if answering else manifest.pipeline,
        "status": f"{manifest.status.value}: {_counts(run)}",
        "model calls": f"{usage.calls}, cost {cost}" if usage.calls else "none",
        "took": f"{manifest.seconds:.1f} s",
    }
    if manifest.remarks:
        facts["remarks"] = " ".join(manifest.remarks)
    return [(html.text(name), html.shortened(value, 300)) for name, value in facts.items()]


def _counts(run: "Run") -> str:
    total = len(run.manifest.case_ids)
    counts = [f"{total:,} cases"]
    for status in CaseStatus:
        if count := run.count(status):
            counts.append(f"{count:,} {status.value}")
    return ", ".join(counts)


def _stored_scores(run: "Run") -> dict[str, Any] | None:
    """Return what `archqa score` wrote into the folder; None if it has not, or it is damaged."""
    try:
        content = json.loads((run.path / "scores.json").read_text(encoding="utf-8"))
        has_all = {"task", "cases", "scores", "intervals", "signatures", "missing", "warnings"}
        return content if has_all <= content.keys() else None
    except (OSError, ValueError, AttributeError):
        return None


def _not_scored(run: "Run") -> str:
    return f"<p>Not scored yet: <code>archqa.score({html.text(repr(str(run.path)))})</code></p>"


def _case_rows(run: "Run") -> list[tuple[str, ...]]:
    rows: list[tuple[str, ...]] = []
    for item in islice(run.cases, _SHOWN_CASES):
        record = run.get_record(item.id)
        rows.append(
            (
                html.text(item.id),
                html.text(record.status.value if record else "open"),
                html.shortened(_question(item)),
                html.shortened(_answer(record) if record else ""),
            )
        )
    return rows


def _question(item: Item) -> str:
    if isinstance(item, Case):
        return item.clinician_question or item.patient_narrative
    return item.instruction if isinstance(item, ClinicalTask) else item.question


def _answer(record: CaseRecord) -> str:
    if record.answer:
        return record.answer.submission
    if record.result and record.result.answer_text:
        return record.result.answer_text
    return ", ".join(record.evidence) or record.error


def _further_cases(run: "Run") -> str:
    hidden = len(run.manifest.case_ids) - _SHOWN_CASES
    if hidden <= 0:
        return ""
    return f"<p>and {hidden:,} more: <code>.to_pandas()</code> has all.</p>"


class Run:
    """Reads a run folder. Never calls a model."""

    def __init__(self, folder: RunFolder) -> None:
        self.folder = folder

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
