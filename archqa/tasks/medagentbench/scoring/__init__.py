"""Scores MedAgentBench: conversations are graded against the record that was acted on."""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from archqa.errors import CallerError, InputError
from archqa.safety.server_urls import is_server_url, server_identity
from archqa.tasks.files.json_node import JsonContent
from archqa.tasks.files.mistakes import FileErrors, printable
from archqa.tasks.files.source import Source, read_source
from archqa.tasks.medagentbench.files import overall
from archqa.tasks.medagentbench.scoring.grading import load_tasks
from archqa.tasks.medagentbench.scoring.rates import score_clinical
from archqa.tasks.medagentbench.task import MEDAGENTBENCH
from archqa.tasks.official_files import write_leaderboard
from archqa.tasks.row_checks import repeated_ids
from archqa.tasks.scoring import Gold, ScoringBridge, ScoringInputs, ScoringRequest
from archqa.tasks.scoring.row_scorer import Rows, RowScorer
from archqa.tasks.scoring.score_report import ScoreReport
from archqa.tasks.task import EndedRun
from scoring import Scores
from scoring.tasks.medagentbench_transcript import Task

_TASK_ID = re.compile(r"task[0-9]+_[0-9]+")
_NO_CONVERSATION = (
    "These MedAgentBench results are answers without the conversations that led to them, "
    "which is what is graded.\n"
    "Name the run folder, or its runs.jsonl."
)


class MedAgentBenchScoring(ScoringBridge):
    """Scores lines of `runs.jsonl`, or rows that are graded already."""

    reads_submission_file = False
    takes_fhir_base = True

    def recognises_rows(self, rows: Sequence[Any], fields: frozenset[str]) -> bool:
        """Rows with a task id, or the benchmark's own lines."""
        if "question_id" in fields:
            return False
        return "task_id" in fields or fields >= {"index", "output"}

    def rows_from_object(self, content: Mapping[str, Any]) -> list[Any] | None:
        """The rows of `{task_id: result}`, or of a `runs.jsonl` of one line."""
        if content and all(map(_TASK_ID.fullmatch, content)):
            return list(map(_row, content.items()))
        if content.keys() >= {"index", "output"}:
            return [content]
        return None

    def rows_of_run(self, run: EndedRun) -> tuple[list[Any], bytes]:
        """The lines of `runs.jsonl`."""
        rows = []
        lines = []
        for row in MEDAGENTBENCH.transcripts(run):
            line = json.dumps(row, ensure_ascii=False)
            lines.append(line)
            rows.append(json.loads(line))
        content = "\n".join(lines)
        return rows, content.encode("utf-8", "replace")

    def row_errors(self, rows: Sequence[Any]) -> Iterator[str]:
        """Graded rows without a task id or with grades that are not true or false."""
        if all(isinstance(row, dict) and "output" in row for row in rows):
            return
        if not any(isinstance(row, dict) and "correct" in row for row in rows):
            raise CallerError(_NO_CONVERSATION)
        for index, row in enumerate(rows):
            if not isinstance(row, dict) or not _TASK_ID.fullmatch(str(row.get("task_id"))):
                yield f"row {index}: no task_id like task3_12."
                continue
            if not isinstance(row.get("correct"), bool):
                yield f"{row['task_id']}: correct must be true or false."
            if not isinstance(row.get("clinical_correct", False), bool):
                yield f"{row['task_id']}: clinical_correct must be true or false."
        yield from repeated_ids(rows, "task_id", "graded")

    def row_scorer(self, inputs: ScoringInputs) -> RowScorer:
        """Grades conversations against the record of the inputs."""

        def score(rows: Rows, tasks: Sequence[Task], _: tuple[str, ...] | None) -> Scores:
            common = {"bootstrap": 0}
            result = score_clinical(rows, tasks, "both", common, record=inputs.record, pipeline="")
            return result.scores

        return RowScorer({task.id: task for task in load_gold(inputs).references}, score)

    def score(self, request: ScoringRequest) -> ScoreReport:
        """Success rates over the tasks of the key."""
        if request.settings.metrics is not None:
            raise CallerError("MedAgentBench's rates come together.\nLeave --metric out.")
        gold = load_gold(request.inputs)
        rows = request.selected_rows(gold.selection, "task_id")
        run = request.submission.run
        result = score_clinical(
            rows,
            gold.references,
            request.settings.grading,
            request.settings.resampling,
            record=_record(request),
            allow_plain_http=request.inputs.allow_plain_http,
            fhir_base=request.inputs.fhir_base,
            pipeline=run.pipeline if run else "",
        )
        if request.official_path:
            write_leaderboard(request.official_path, result.scores.scores)
        report = self.report(request, gold, result.scores, result.baselines)
        if run and result.graded:
            totals = overall(rows, len(run.case_ids), result.graded)
            report = replace(report, run_files={"overall.json": totals})
        return replace(report, faults=result.faults)


def _record(request: ScoringRequest) -> str | None:
    """The record named, else the run's; a run's file may not choose the server that gets the token.

    Raises `CallerError`.
    """
    run = request.submission.run
    if request.inputs.record or run is None or run.record is None:
        return request.inputs.record
    if is_server_url(run.record):
        raise CallerError(
            "The record of this run is on a server.\n"
            f"Name it, to grade against it: --record {server_identity(run.record)}"
        )
    return run.record


BRIDGE = MedAgentBenchScoring()


def _row(result_of_task: tuple[str, Any]) -> dict[str, Any]:
    task_id, result = result_of_task
    return {"task_id": task_id, "result": result}


def load_gold(inputs: ScoringInputs) -> Gold[Task]:
    """The tasks with what they are graded by.

    Raises `CallerError` if no file was named, `InputError`.
    """
    path = inputs.key or inputs.case_file
    if path is None:
        raise CallerError(
            "Rates are taken over the benchmark's tasks.\nName their file with --key FILE."
        )
    source = read_source(path)
    selection = inputs.select_cases(_task_ids(source))
    tasks = [task for task in load_tasks(path) if task.id not in selection.excluded]
    return Gold(tasks, [], {"key": source.sha256}, selection, path)


def _task_ids(source: Source) -> list[str]:
    mistakes = FileErrors(
        source.path, 'A task file is [{"id": "task1_1", "instruction": …, "eval_MRN": …}, …].'
    )
    if not isinstance(source.content, JsonContent):
        raise InputError(source.path, [": is not JSON."], "Name MedAgentBench's task file.")
    rows = source.content.entries(mistakes)
    ids: list[str] = []
    for row in rows:
        task_id = row.required("id")
        if task_id and not _TASK_ID.fullmatch(task_id):
            row.add_error("id", "should read like task1_1.")
        elif task_id in ids:
            row.add_error("id", f"'{printable(task_id)}' stands in an earlier task too; keep one.")
        ids.append(task_id)
    mistakes.raise_if_any()
    return ids
