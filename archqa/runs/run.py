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
from archqa.core.question import Item, question_of
from archqa.core.usage import Usage, sum_usage
from archqa.runs.folder import Records, RunFolder
from archqa.runs.record import CaseRecord, CaseStatus, RunManifest
from archqa.safety.arguments import as_path
from archqa.tasks import CompletedCase, EndedRun

if TYPE_CHECKING:
    import pandas

_SHOWN_CASES = 5
"""Cases that a notebook shows of a run."""

_SCORE_KEYS = {
    "task",
    "cases",
    "scores",
    "intervals",
    "signatures",
    "missing",
    "warnings",
}
"""What a view of scores needs of `scores.json`."""

_JUDGEMENT_COLUMNS = (
    "case_id",
    "sentence_id",
    "agent",
    "label",
    "probability",
    "rationale",
    "cited",
)


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
        return tasks.load_cases(
            self.path / "input.jsonl", task=self.manifest.task
        ).cases

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
                    case,
                    record.answer,
                    record.result,
                    record.error,
                    record.usage,
                    record.evidence,
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
        return EndedRun(
            Path(data.path), data.sha256, self.manifest.case_ids, self.ended()
        )

    def write_task_files(self) -> None:
        """Write the further files of the task's benchmark, next to the submission."""
        for name, content in (
            tasks.find(self.manifest.task).extra_files(self.as_ended()).items()
        ):
            if name.endswith(".jsonl"):
                lines = (json.dumps(row, ensure_ascii=False) for row in content)
                self.folder.write_lines(name, lines)
            else:
                self.folder.write_json(name, content)

    def to_pandas(self) -> "pandas.DataFrame":
        """Return a table of the cases: id, status, answer, evidence, usage, seconds, error."""
        import pandas

        rows = []
        for record in self.iter_records():
            rows.append(
                {
                    "case_id": record.id,
                    "status": record.status.value,
                    "answer": record.submitted_text,
                    "evidence": list(record.evidence_ids),
                    "words": record.answer.words if record.answer else None,
                    "calls": record.usage.calls,
                    "prompt_tokens": record.usage.prompt_tokens,
                    "completion_tokens": record.usage.completion_tokens,
                    "cost_usd": record.usage.cost_usd,
                    "seconds": record.seconds,
                    "tries": record.tries,
                    "error": record.error,
                }
            )
        return pandas.DataFrame(rows)

    def judgements_to_pandas(self) -> "pandas.DataFrame":
        """Return a table of the judgements, and whether the answer cites their sentences."""
        import pandas

        rows: list[tuple[Any, ...]] = []
        for record in self.iter_records():
            cited = record.answer.cited if record.answer else frozenset(record.evidence)
            for agent, judgements in record.judgements.items():
                for judgement in judgements:
                    rows.append(
                        (
                            record.id,
                            judgement.sentence_id,
                            agent,
                            judgement.label.value,
                            judgement.probability,
                            judgement.rationale,
                            judgement.sentence_id in cited,
                        )
                    )
        return pandas.DataFrame(rows, columns=_JUDGEMENT_COLUMNS)

    def __repr__(self) -> str:
        manifest = self.manifest
        what = f"{manifest.task}, {manifest.pipeline}, {manifest.status.value}"
        return f"<Run {str(self.path)!r}: {what}, {len(manifest.case_ids):,} cases>"

    def _repr_html_(self) -> str:
        """What it is, how it stands, its scores and its first cases; all text is escaped."""
        rows = []
        for item in islice(self.cases, _SHOWN_CASES):
            record = self.get_record(item.id)
            answer = ""
            if record:
                answer = (
                    record.submitted_text or ", ".join(record.evidence) or record.error
                )
            status = record.status.value if record else "open"
            question = html.shortened(question_of(item))
            rows.append(
                (
                    html.text(item.id),
                    html.text(status),
                    question,
                    html.shortened(answer),
                )
            )
        view = html.table(("run", ""), self._facts())
        view += self._scores_html()
        view += html.table(("case", "status", "question", "answer"), rows)
        hidden = len(self.manifest.case_ids) - _SHOWN_CASES
        if hidden > 0:
            view += f"<p>and {hidden:,} more: <code>.to_pandas()</code> has all.</p>"
        return view

    def _facts(self) -> list[tuple[str, str]]:
        manifest = self.manifest
        usage = self.usage
        answering = ", ".join(manifest.answered_by)
        counts = [f"{len(manifest.case_ids):,} cases"]
        for status in CaseStatus:
            if count := self.count(status):
                counts.append(f"{count:,} {status.value}")
        cost = "unknown" if usage.cost_usd is None else f"${usage.cost_usd:.2f}"
        facts = {
            "folder": str(self.path),
            "task": manifest.task,
            "pipeline": f"{manifest.pipeline} ({answering})"
            if answering
            else manifest.pipeline,
            "status": f"{manifest.status.value}: {', '.join(counts)}",
            "model calls": f"{usage.calls}, cost {cost}" if usage.calls else "none",
            "took": f"{manifest.seconds:.1f} s",
        }
        if manifest.remarks:
            facts["remarks"] = " ".join(manifest.remarks)
        return [
            (html.text(name), html.shortened(value, 300))
            for name, value in facts.items()
        ]

    def _scores_html(self) -> str:
        """The scores that `archqa score` wrote into the folder, unless they are damaged."""
        try:
            scores = json.loads((self.path / "scores.json").read_text(encoding="utf-8"))
            if scores.keys() >= _SCORE_KEYS:
                return html.scores_html(scores, scores["warnings"])
        except (OSError, ValueError, AttributeError):
            pass
        path = html.text(repr(str(self.path)))
        return f"<p>Not scored yet: <code>archqa.score({path})</code></p>"


def write_cases(folder: RunFolder, task: str, cases: Iterable[Item]) -> None:
    """Copy the cases into the run, so that it can be shown and scored without the case file."""
    benchmark = tasks.find(task)
    folder.write_lines("input.jsonl", (benchmark.dump_line(case) for case in cases))
