"""Runs the agent with typed tools on one task, with a model that says what it is told to."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from archqa.evaluation.scoring import score
from archqa.llm.model import Reply, Request
from archqa.llm.scripted import ScriptedModel
from archqa.runs.predict import predict
from archqa.runs.record import CaseRecord
from tests.fakes.replies import tool_call_reply
from tests.tasks.medagentbench.invented import SyntheticBenchmark

Lines = list[Any] | Callable[[Request], Any]


def run_task(
    benchmark: SyntheticBenchmark,
    tmp_path: Path,
    row: dict[str, Any],
    lines: Lines,
    **more: Any,
) -> CaseRecord:
    """How one task ends when a model calls tools like this."""
    tasks = tmp_path / "tasks.json"
    tasks.write_text(json.dumps([row]))
    run = predict(
        tasks,
        out=tmp_path / "run",
        pipeline="typed",
        record=str(benchmark.store),
        scripted=ScriptedModel(lines),
        model="m",
        cache=False,
        **more,
    )
    return run.records[0]


def is_correct(tmp_path: Path) -> bool:
    """Whether both gradings find the work right."""
    report = score(tmp_path / "run")
    assert report.faults is not None
    return not any(
        faults for gradings in report.faults.values() for faults in gradings.values()
    )


def tool_results(asked: list[Request]) -> list[dict[str, Any]]:
    """What the tools gave, in order, as the last request shows it."""
    return [
        json.loads(message.content)
        for message in asked[-1].messages
        if message.role == "tool"
    ]


class ScriptedAgent:
    """Says lines in order and keeps what it was asked."""

    def __init__(self, *lines: Any) -> None:
        self.lines = list(lines)
        self.requests: list[Request] = []

    def __call__(self, request: Request) -> Any:
        self.requests.append(request)
        line = self.lines.pop(0)
        return line(request) if callable(line) else line


def finish(*answers: Any, cited: tuple[str, ...] = ()) -> Reply:
    return tool_call_reply(
        (
            "finish",
            {
                "answers": list(answers),
                "explanation": "So it is.",
                "cited": list(cited),
            },
        )
    )
