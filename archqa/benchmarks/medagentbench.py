"""MedAgentBench: instructions of physicians to be carried out on a FHIR record.

Source: `data/medagentbench/test_data_v1.json` and `_v2.json` of stanfordmlgroup/MedAgentBench (Jiang et al., NEJM AI
2025). Answers and record numbers of the file stay in it: they are the key.
"""

import json
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from archqa.benchmarks.base import Benchmark, Ended, Readable
from archqa.benchmarks.json_node import JsonContent, JsonNode
from archqa.benchmarks.mistakes import Mistakes, shown
from archqa.benchmarks.source import Source, open_source
from archqa.core.question import ClinicalTask
from archqa.errors import InputError

_FIX = 'A task file is [{"id": "task1_1", "instruction": …, "context": …, "eval_MRN": …}, …].'
_FIELDS = ("id", "instruction", "context", "eval_MRN", "sol")


@dataclass(frozen=True)
class MedAgentBench(Benchmark):
    """The tasks of MedAgentBench, version 1 or 2, or a file of the same form."""

    def load(self, source: Readable) -> tuple[ClinicalTask, ...]:
        """The tasks of a JSON file. Raises `InputError` with every mistake of the file."""
        opened = open_source(source)
        mistakes = Mistakes(opened.path, _FIX)
        if not isinstance(opened.content, JsonContent):
            raise InputError(opened.path, [": is not JSON."], _FIX)
        rows = opened.content.entries(mistakes)
        tasks = tuple(_task(row) for row in rows)
        _refuse_twins(rows, tasks)
        mistakes.settle()
        return tasks

    def dump_line(self, item: ClinicalTask) -> str:
        """A task as one line of JSON, which `read_line` reads back unchanged."""
        return json.dumps(item.model_dump(), ensure_ascii=False)

    def read_line(self, line: bytes, path: str) -> ClinicalTask:
        """The task in one line. Raises `InputError` with every mistake of it."""
        [task] = self.load(Source(path, b"[" + line.strip() + b"]"))
        return task

    def submission(self, ended: Iterable[Ended]) -> dict[str, Any]:
        """`{task_id: result}`: the text between the brackets of FINISH( ), null where the agent did not come to it."""
        return {each.item.id: each.result.get("result") for each in ended}


def _task(row: JsonNode) -> ClinicalTask:
    row.expect(_FIELDS)
    # Blanks at the ends are the benchmark's own, and stand in its prompt.
    texts = {name: row.value(name) if row.text(name) else "" for name in ("instruction", "context")}
    row.required("instruction")
    return ClinicalTask(id=row.required("id"), **texts)


def _refuse_twins(rows: Iterable[JsonNode], tasks: Iterable[ClinicalTask]) -> None:
    seen: set[str] = set()
    for row, task in zip(rows, tasks, strict=True):
        if task.id and task.id in seen:
            row.complain("id", f"'{shown(task.id)}' stands in an earlier task too; keep one.")
        seen.add(task.id)
