"""Scores MedAgentBench: conversations are graded against the record that was acted on."""

import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from archqa.core.value import JsonObject
from archqa.errors import CallerError, InputError
from archqa.fhir import FhirClient, FhirError, FhirService, Store, connect
from archqa.fhir.record import Record
from archqa.fhir.values.json_text import InvalidBody, parse_bounded
from archqa.safety.server_urls import (
    fhir_server_problem,
    is_server_url,
    server_identity,
)
from archqa.tasks.files.json_node import JsonContent
from archqa.tasks.files.mistakes import FileErrors, printable
from archqa.tasks.files.source import read_source
from archqa.tasks.medagentbench.task import MEDAGENTBENCH, finished, overall
from archqa.tasks.scoring import (
    Gold,
    ScoreSettings,
    ScoringBridge,
    ScoringInputs,
    ScoringRequest,
    repeated_ids,
    write_leaderboard,
)
from archqa.tasks.scoring.score_report import Baselines, Rows, RowScorer, ScoreReport
from archqa.tasks.task import EndedRun
from scoring import Scores, ScoringError
from scoring.tasks import medagentbench
from scoring.tasks.medagentbench import (
    count_posts_elsewhere,
    grade_all,
    grade_do_nothing,
)
from scoring.tasks.medagentbench_official import BASE
from scoring.tasks.medagentbench_transcript import Task, read_runs, read_tasks

_TASK_ID = re.compile(r"task[0-9]+_[0-9]+")
_NO_CONVERSATION = (
    "These MedAgentBench results are answers without the conversations that led to them, "
    "which is what is graded.\n"
    "Name the run folder, or its runs.jsonl."
)
_OTHER_TYPES = ("Condition", "MedicationRequest", "Procedure")
"""Resource types of the benchmark's server besides Patient and Observation."""

_CONSTANT_REPLIES: Baselines = {
    "FINISH([])": {
        "success_rate": 70 / 3,
        "query_success_rate": 0.0,
        "action_success_rate": 70 / 1.5,
    },
    "FINISH([-1])": {
        "success_rate": 37 / 3,
        "query_success_rate": 21 / 1.5,
        "action_success_rate": 16 / 1.5,
    },
    "FINISH()": {
        "success_rate": 16 / 3,
        "query_success_rate": 0.0,
        "action_success_rate": 16 / 1.5,
    },
}
"""Each reply given to all 300 tasks of version 2 and graded by the benchmark's own refsol.py.

`FINISH([])` is right in 70 tasks (28, 29 and 13 of types 5, 9 and 10), `FINISH([-1])` in 37 (19, 16
and 2 of types 4, 5 and 6) and `FINISH()` in 16 (type 5).
"""


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
            return [
                {"task_id": name, "result": result} for name, result in content.items()
            ]
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
            if not isinstance(row, dict) or not _TASK_ID.fullmatch(
                str(row.get("task_id"))
            ):
                yield f"row {index}: no task_id like task3_12."
                continue
            if not isinstance(row.get("correct"), bool):
                yield f"{row['task_id']}: correct must be true or false."
            if not isinstance(row.get("clinical_correct", False), bool):
                yield f"{row['task_id']}: clinical_correct must be true or false."
        yield from repeated_ids(rows, "task_id", "graded")

    def row_scorer(self, inputs: ScoringInputs) -> RowScorer:
        """Grades conversations against the record of the inputs."""

        return RowScorer(
            {task.id: task for task in load_gold(inputs).references},
            lambda rows, tasks, **_: (
                score_rows(rows, tasks, inputs, ScoreSettings(bootstrap=0)).scores
            ),
        )

    def score(self, request: ScoringRequest) -> ScoreReport:
        """Success rates over the tasks of the key."""
        if request.settings.metrics is not None:
            raise CallerError(
                "MedAgentBench's rates come together.\nLeave --metric out."
            )
        gold = load_gold(request.inputs)
        rows = request.selected_rows(gold.selection, "task_id")
        run = request.submission.run
        inputs = request.inputs._replace(record=_record(request))
        result = score_rows(rows, gold.references, inputs, request.settings)
        scores = result.scores
        if result.graded and run and run.pipeline == "do-nothing":
            scores.warnings.append("the pipeline do-nothing is no score of any model.")
        write_leaderboard(request.official_path, scores.scores)
        report = self.report(request, gold, scores, result.baselines)
        if result.graded is None:
            return report
        faults = {}
        for row in result.graded:
            task_faults = {
                "official": row["faults"],
                "clinical": row["clinical_faults"],
            }
            faults[row["task_id"]] = task_faults
        run_files = {}
        if run:
            total = len(run.case_ids)
            run_files["overall.json"] = overall(
                rows, total, _grades(rows, total, result)
            )
        return replace(report, run_files=run_files, faults=faults)


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
    content = source.content
    if not isinstance(content, JsonContent):
        raise InputError(
            source.path, [": is not JSON."], "Name MedAgentBench's task file."
        )
    mistakes = FileErrors(
        source.path,
        'A task file is [{"id": "task1_1", "instruction": …, "eval_MRN": …}, …].',
    )
    ids: list[str] = []
    for row in content.entries(mistakes):
        task_id = row.required("id")
        if task_id and not _TASK_ID.fullmatch(task_id):
            row.add_error("id", "should read like task1_1.")
        elif task_id in ids:
            row.add_error(
                "id", f"'{printable(task_id)}' stands in an earlier task too; keep one."
            )
        ids.append(task_id)
    mistakes.raise_if_any()
    selection = inputs.select_cases(ids)
    try:
        tasks = read_tasks(content.value)
    except ScoringError as error:
        raise _input_error(source.path, error) from None
    selected = [task for task in tasks if task.id not in selection.excluded]
    return Gold(selected, [], {"key": source.sha256}, selection, path)


class ScoredRows(NamedTuple):
    """Scores and the baselines' rates.

    `graded` are the rows as `scoring` takes them, None if they came with grades; `do_nothing` are
    those of each reply that does nothing, by reply.
    """

    scores: Scores
    baselines: Baselines
    graded: list[JsonObject] | None = None
    do_nothing: Mapping[str, list[JsonObject]] = {}


def score_rows(
    rows: Rows,
    tasks: Sequence[Task],
    inputs: ScoringInputs,
    settings: ScoreSettings,
) -> ScoredRows:
    """Rates over the tasks; conversations are graded against the record of the inputs.

    Raises `CallerError` if conversations need grading and no record is named, and for a base URL
    that is none of a FHIR server; `InputError` for malformed lines; and what the record raises.
    """
    options: dict[str, Any] = {"grading": settings.grading, **settings.resampling}
    base = _checked_base(inputs.fhir_base)
    task_ids = [task.id for task in tasks]
    if not rows or any("output" not in row for row in rows):
        scores = medagentbench.score(rows, task_ids, **options)
        task_types = Counter(task_id.partition("_")[0] for task_id in task_ids)
        is_version_2 = task_types == {f"task{number}": 30 for number in range(1, 11)}
        return ScoredRows(scores, _CONSTANT_REPLIES if is_version_2 else {})
    if not inputs.record:
        raise CallerError(
            "Grading MedAgentBench reads the record that was acted on.\n"
            "Name it with --record STORE_OR_URL."
        )
    is_plain = inputs.allow_plain_http
    with connect(inputs.record, profile="hapi", allow_plain_http=is_plain) as record:
        lookup = RecordLookup(record)
        try:
            transcripts = read_runs(rows, task_ids)
        except ScoringError as error:
            raise _input_error("runs.jsonl", error) from None
        graded = grade_all(tasks, transcripts, lookup, base)
        do_nothing = grade_do_nothing(tasks, lookup)
        warnings = lookup.warnings
    posted_elsewhere = count_posts_elsewhere(transcripts.values(), base)
    if posted_elsewhere:
        warnings.append(
            f"{posted_elsewhere} conversations post to another address than {base}, which the "
            "official grading counts as wrong. If their agents were told another server, name its "
            "base URL with --fhir-base URL."
        )
    scores = medagentbench.score(graded, task_ids, baselines=do_nothing, **options)
    scores.warnings.extend(warnings)
    return ScoredRows(scores, scores.tables["baselines"], graded, do_nothing)


class RecordLookup:
    """Runs a grader's searches on a record, each search once."""

    def __init__(self, record: Record) -> None:
        self._record = record
        self._service: FhirService | None = None
        if isinstance(record, Store):
            self._service = FhirService(record.as_profile("hapi"))
        self._bundles: dict[str, Mapping[str, Any]] = {}

    def __call__(self, search: str) -> Mapping[str, Any]:
        """The searchset. Raises `FhirError`, `ServerUnavailable`."""
        if search not in self._bundles:
            try:
                bundle = parse_bounded(self._fetch(search))
            except InvalidBody:
                bundle = None
            if not isinstance(bundle, dict):
                raise FhirError(
                    "The record's answer to the grader's search is no Bundle.", 502
                )
            self._bundles[search] = bundle
        return self._bundles[search]

    @property
    def warnings(self) -> list[str]:
        """Warnings to print with numbers from this record."""
        if not isinstance(self._record, Store):
            return []
        counts = self._record.counts()
        if not counts or any(name in counts for name in _OTHER_TYPES):
            return []
        return [
            f"the record holds no {', '.join(_OTHER_TYPES)}: it is not the benchmark's server. "
            "Success rates mean the same if its answers are the same; context lengths do not."
        ]

    def _fetch(self, search: str) -> str:
        if self._service is None:
            assert isinstance(self._record, FhirClient)
            return self._record.fetch(search)
        response = self._service.get(search)
        if response.status >= 400:
            raise FhirError(
                "The record cannot answer the grader's search.", response.status
            )
        return response.body


def _checked_base(url: str | None) -> str:
    """The base URL with a slash at its end; the benchmark's own without one."""
    if url is None:
        return BASE
    problem = fhir_server_problem(url.strip())
    if problem:
        raise CallerError(
            f"The FHIR base URL {problem}.\n"
            f"Write the one that the agents were told, such as {BASE}, after --fhir-base."
        )
    return url.strip().rstrip("/") + "/"


def _input_error(path: str, error: ScoringError) -> InputError:
    """The mistakes that `scoring` lists below the first line of its message."""
    mistakes = str(error).splitlines()[1:]
    return InputError(path, [f": {mistake.strip()}" for mistake in mistakes])


def _grades(rows: Rows, total: int, result: ScoredRows) -> JsonObject:
    """The benchmark's grades of a run of `total` tasks, for `overall.json`."""

    def rate(graded: Rows, verdict: str) -> float:
        successes: int = sum(row[verdict] for row in graded)
        return successes / (total or 1)

    graded = result.graded or []
    correct = {row["task_id"]: row["correct"] for row in graded}
    raw_results = []
    for row in finished(rows):
        output = dict(row["output"])
        if output["result"] is not None and row["task_id"] in correct:
            # The benchmark appends its verdict to the status of a conversation with a result.
            output["status"] += "Correct" if correct[row["task_id"]] else "Incorrect"
        raw_results.append(output)
    do_nothing = {}
    for reply, reply_rows in result.do_nothing.items():
        do_nothing[reply] = rate(reply_rows, "correct")
    return {
        "success rate": rate(graded, "correct"),
        "raw_results": raw_results,
        "clinical success rate": rate(graded, "clinical_correct"),
        "do-nothing success rates": do_nothing,
    }
