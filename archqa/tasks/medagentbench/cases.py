"""MedAgentBench: instructions of physicians to be carried out on a FHIR record.

Source: `data/medagentbench/test_data_v1.json` and `_v2.json` of stanfordmlgroup/MedAgentBench
(Jiang et al., NEJM AI 2025). The loaded tasks leave out the file's answers and record numbers,
which are the key.
"""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from archqa.core.question import ClinicalTask
from archqa.errors import ArchqaError, InputError
from archqa.tasks.files.json_node import JsonContent, JsonNode
from archqa.tasks.files.mistakes import FileErrors, is_blank, printable
from archqa.tasks.files.source import Source, read_source
from archqa.tasks.medagentbench.files import benchmark_files
from archqa.tasks.medagentbench.result import ConversationResult
from archqa.tasks.medagentbench.transcripts import transcript_rows
from archqa.tasks.task import CaseSource, CompletedCase, EndedRun, TableColumns, Task

_FIX = 'A task file is [{"id": "task1_1", "instruction": …, "context": …, "eval_MRN": …}, …].'
_COLUMNS = TableColumns(
    id="id", required=(("instruction",),), optional=("context", "eval_MRN", "sol")
)
_FIELDS = ("id", "instruction", "context", "eval_MRN", "sol")


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
        tasks = tuple(map(_parse_task, rows))
        _report_repeated_ids(rows, tasks)
        mistakes.raise_if_any()
        return tasks

    def dump_line(self, item: ClinicalTask) -> str:
        """A task as one line of JSON, which `read_line` reads back unchanged."""
        return json.dumps(item.model_dump(), ensure_ascii=False)

    def read_line(self, line: bytes, path: str) -> ClinicalTask:
        """The task in one line. Raises `InputError` with every mistake of it."""
        as_list = b"[" + line.strip() + b"]"
        [task] = self.load(Source(path, as_list))
        return task

    def submission(self, ended: Iterable[CompletedCase]) -> dict[str, Any]:
        """`{task_id: result}`: the text in the brackets of FINISH( ), or null without FINISH."""
        return {completed.item.id: _finish_text(completed) for completed in ended}

    def extra_files(self, run: EndedRun) -> Mapping[str, Any]:
        """`runs.jsonl`, `overall.json` and, if a conversation was lost, `error.jsonl`."""
        return benchmark_files(self.transcripts(run), len(run.case_ids))

    def transcripts(self, run: EndedRun) -> list[dict[str, Any]]:
        """The lines of `runs.jsonl`, numbered as in the task file, or in the run if it has changed."""
        ids = self._ids_in_file(run) or run.case_ids
        return list(transcript_rows(run.ended, ids))

    def _ids_in_file(self, run: EndedRun) -> list[str]:
        try:
            source = read_source(run.data_path)
            if source.sha256 != run.data_sha256:
                return []
            return [task.id for task in self.load(source)]
        except ArchqaError:
            return []


def _finish_text(completed: CompletedCase) -> str | None:
    if not isinstance(completed.result, ConversationResult):
        return None
    return completed.result.result


def _parse_task(row: JsonNode) -> ClinicalTask:
    row.expect(_FIELDS)
    if row.required("instruction") and is_blank(row.text("instruction")):
        row.add_error("instruction", "holds invisible characters only; write what is to be done.")
    return ClinicalTask(
        id=row.required("id"),
        instruction=_verbatim(row, "instruction"),
        context=_verbatim(row, "context"),
    )


def _verbatim(row: JsonNode, name: str) -> str:
    """A text with the blanks at its ends, which the benchmark's prompt keeps."""
    if not row.text(name):
        return ""
    return str(row.value(name))


def _report_repeated_ids(rows: Iterable[JsonNode], tasks: Iterable[ClinicalTask]) -> None:
    previous_ids: set[str] = set()
    for row, task in zip(rows, tasks, strict=True):
        if task.id and task.id in previous_ids:
            row.add_error("id", f"'{printable(task.id)}' stands in an earlier task too; keep one.")
        previous_ids.add(task.id)
