"""MedAgentBench: instructions of physicians to be carried out on a FHIR record.

Source: `data/medagentbench/test_data_v1.json` and `_v2.json` of stanfordmlgroup/MedAgentBench
(Jiang et al., NEJM AI 2025), whose `src/assigner.py` and `src/server/tasks/medagentbench` write
`runs.jsonl`, `error.jsonl` and `overall.json`. The loaded tasks leave out the file's answers and
record numbers, which are the key.
"""

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from operator import attrgetter
from typing import Any

from archqa.core.question import ClinicalTask
from archqa.core.result import TaskResult, reference_names
from archqa.core.value import JsonObject
from archqa.errors import ArchqaError, InputError
from archqa.tasks.files.json_node import JsonContent, JsonNode
from archqa.tasks.files.mistakes import FileErrors, is_blank, refuse_repeated_ids
from archqa.tasks.files.source import read_source
from archqa.tasks.medagentbench import NAME
from archqa.tasks.task import (
    CaseSource,
    CompletedCase,
    EndedRun,
    ScoreDisplay,
    TableColumns,
    Task,
)

_FIX = 'A task file is [{"id": "task1_1", "instruction": …, "context": …, "eval_MRN": …}, …].'
_FIELDS = ("id", "instruction", "context", "eval_MRN", "sol")
_COLUMNS = TableColumns(
    id="id", required=(("instruction",),), optional=("context", "eval_MRN", "sol")
)

STATUSES = (
    "running",
    "completed",
    "agent context limit",
    "agent validation failed",
    "agent invalid action",
    "task limit reached",
    "unknown",
    "task error",
)
"""How a conversation may end, in the benchmark's words."""


class ConversationResult(TaskResult):
    """A conversation as the benchmark keeps it, with the agent's explanation.

    `result` is the text between the brackets of FINISH( ), None if the agent did not finish.
    `cited` and `retrieved` map resource types to ids; `written` are the attempts to write;
    `why_not` are remarks on what failed.
    """

    status: str = ""
    result: str | None = None
    history: tuple[JsonObject, ...] = ()
    explanation: str = ""
    cited: dict[str, tuple[str, ...]] = {}
    retrieved: dict[str, tuple[str, ...]] = {}
    written: tuple[JsonObject, ...] = ()
    why_not: tuple[str, ...] = ()

    @property
    def answer_text(self) -> str | None:
        """The text between the brackets of FINISH( )."""
        return self.result

    @property
    def cited_resources(self) -> tuple[str, ...]:
        """The cited resources as `Type/id`."""
        return reference_names(self.cited)


@dataclass(frozen=True)
class MedAgentBench(Task):
    """The tasks of MedAgentBench, version 1 or 2, or a file of the same form."""

    columns: TableColumns = _COLUMNS

    def load(self, source: CaseSource) -> tuple[ClinicalTask, ...]:
        """The tasks of a JSON file. Raises `InputError` with every mistake of the file."""
        opened = read_source(source)
        mistakes = FileErrors(opened.path, _FIX)
        if not isinstance(opened.content, JsonContent):
            raise InputError(opened.path, [": is not JSON."], _FIX)
        rows = opened.content.entries(mistakes)
        tasks = []
        for row in rows:
            row.expect(_FIELDS)
            if row.required("instruction") and is_blank(row.text("instruction")):
                problem = "holds invisible characters only; write what is to be done."
                row.add_error("instruction", problem)
            task = ClinicalTask(
                id=row.required("id"),
                instruction=_verbatim(row, "instruction"),
                context=_verbatim(row, "context"),
            )
            tasks.append(task)
        ids = map(attrgetter("id"), tasks)
        refuse_repeated_ids(rows, ids, "id", "stands in an earlier task too; keep one.")
        mistakes.raise_if_any()
        return tuple(tasks)

    def dump_line(self, item: ClinicalTask) -> str:
        """A task as one line of JSON, which `read_line` reads back unchanged."""
        return json.dumps(item.model_dump(), ensure_ascii=False)

    def submission(self, ended: Iterable[CompletedCase]) -> JsonObject:
        """`{task_id: result}`: the text in the brackets of FINISH( ), or null without FINISH."""
        results: JsonObject = {}
        for completed in ended:
            results[completed.item.id] = None
            if isinstance(completed.result, ConversationResult):
                results[completed.item.id] = completed.result.result
        return results

    def extra_files(self, run: EndedRun) -> Mapping[str, Any]:
        """`runs.jsonl`, `overall.json` and, if a conversation was lost, `error.jsonl`."""
        rows = self.transcripts(run)
        files = {
            "runs.jsonl": finished(rows),
            "overall.json": overall(rows, len(run.case_ids)),
        }
        lost = [row for row in rows if row["output"] is None]
        if lost:
            files["error.jsonl"] = lost
        return files

    def transcripts(self, run: EndedRun) -> list[JsonObject]:
        """The lines of `runs.jsonl`, in the benchmark's shape; `task_id` is archqa's addition.

        `index` is the position of a task in the task file, or in the run if the file has changed;
        -1 if it is not there. `output` is None without a conversation.
        """
        ids: Sequence[str] = run.case_ids
        with suppress(ArchqaError):
            source = read_source(run.data_path)
            if source.sha256 == run.data_sha256:
                ids = [task.id for task in self.load(source)]
        positions = {task_id: position for position, task_id in enumerate(ids)}
        rows = []
        for completed in run.ended:
            index = positions.get(completed.item.id, -1)
            row: JsonObject = {
                "index": index,
                "task_id": completed.item.id,
                "error": None,
                "info": None,
                "output": None,
                "time": {"seconds": round(completed.usage.seconds, 3)},
            }
            result = completed.result
            if isinstance(result, ConversationResult) and result.status:
                row["output"] = {
                    "index": index,
                    "status": result.status,
                    "result": result.result,
                    "history": list(result.history),
                }
            else:
                error_type = completed.error.partition(":")[0]
                row.update(error=error_type or "unknown", info=completed.error)
            rows.append(row)
        return rows


def _verbatim(row: JsonNode, name: str) -> str:
    """A text with the blanks at its ends, which the benchmark's prompt keeps."""
    return str(row.value(name)) if row.text(name) else ""


def overall(
    rows: Sequence[Mapping[str, Any]],
    total: int,
    grades: Mapping[str, Any] | None = None,
) -> JsonObject:
    """`overall.json` of `total` tasks: shares of the statuses, and lengths of the conversations.

    `custom`, the benchmark's grades, is empty until the run is scored.
    """
    statuses: Counter[str] = Counter()
    lengths = []
    for row in finished(rows):
        statuses[row["output"]["status"]] += 1
        lengths.append(len(row["output"]["history"]))
    count = len(lengths) or 1
    validation = {status: statuses[status] / count for status in STATUSES}
    validation["average_history_length"] = sum(lengths) / count
    validation["max_history_length"] = max(lengths, default=0)
    validation["min_history_length"] = min(lengths, default=0)
    return {"total": total, "validation": validation, "custom": grades or {}}


def finished(rows: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """The lines of conversations that were not lost."""
    return [row for row in rows if row["output"] is not None]


MEDAGENTBENCH = MedAgentBench(
    NAME,
    "MedAgentBench",
    marks=frozenset({"instruction", "eval_MRN"}),
    result_type=ConversationResult,
    pipelines_path="archqa.tasks.medagentbench.pipelines:CLINICAL_PIPELINES",
    scoring_path="archqa.tasks.medagentbench.scoring:BRIDGE",
    display=ScoreDisplay(
        headline=("success_rate", "query_success_rate", "action_success_rate"),
    ),
)
