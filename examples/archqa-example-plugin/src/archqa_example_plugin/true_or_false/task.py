"""A task: how its cases are read and how its submission is written."""

import json
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from archqa.core.question import RecordQuestion
from archqa.core.result import TaskResult
from archqa.tasks.files.source import read_source
from archqa.tasks.task import CaseSource, CompletedCase, ScoreDisplay, Task


class Judged(TaskResult):
    """Whether a statement is held to be true."""

    is_true: bool


@dataclass(frozen=True)
class TrueOrFalse(Task):
    """Statements in a JSON file: `[{"statement_id", "statement", "is_true"}]`."""

    def load(self, source: CaseSource) -> tuple[RecordQuestion, ...]:
        """The statements of a file."""
        return tuple(map(_statement, read_source(source).content.value))

    def dump_line(self, item: RecordQuestion) -> str:
        """A statement as one line of the run folder."""
        return json.dumps({"statement_id": item.id, "statement": item.question})

    def read_line(self, line: bytes, path: str) -> RecordQuestion:
        """The statement in one line."""
        return _statement(json.loads(line))

    def submission(self, ended: Iterable[CompletedCase]) -> list[dict[str, Any]]:
        """`[{"statement_id", "held"}]`."""
        rows = []
        for case in ended:
            if isinstance(case.result, Judged):
                rows.append({"statement_id": case.item.id, "held": case.result.is_true})
        return rows


def _statement(row: dict[str, Any]) -> RecordQuestion:
    return RecordQuestion(id=row["statement_id"], question=row["statement"])


TRUE_OR_FALSE = TrueOrFalse(
    name="true-or-false",
    title="Statements that are true or false",
    marks=frozenset({"statement_id", "statement"}),
    result_type=Judged,
    pipelines_path="archqa_example_plugin.true_or_false.pipelines:PIPELINES",
    scoring_path="archqa_example_plugin.true_or_false.scoring:BRIDGE",
    display=ScoreDisplay(headline=("statement_accuracy",)),
)
