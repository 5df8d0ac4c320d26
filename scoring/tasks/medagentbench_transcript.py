"""A finished MedAgentBench conversation, and what was posted in it: as the benchmark counts, and as really happened.

Source: reference of the controller's protocol and of `refsol.py` (stanfordmlgroup/MedAgentBench).
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from ..errors import ScoringError

ACCEPTED = "POST request accepted"
COMPLETED = "completed"
_FENCES = ("```tool_code", "```")
_ID = re.compile(r"task(?:[1-9]|10)_\d+")


class Message(NamedTuple):
    """One turn; `role` is `agent`, or `user` for the controller."""

    role: str
    content: str


class Post(NamedTuple):
    """One accepted POST: its URL and its payload, any JSON value."""

    url: str
    payload: Any


@dataclass(frozen=True)
class Transcript:
    """One conversation: how it ended, the text between the brackets of FINISH( ) (None without one), its turns."""

    status: str
    result: str | None
    messages: tuple[Message, ...] = ()

    @property
    def completed(self) -> bool:
        """Whether the agent finished; the benchmark appends its verdict to the status."""
        return self.status.startswith(COMPLETED)

    @property
    def mentions_post(self) -> bool:
        """Whether any agent's turn holds the letters POST, wherever: the benchmark takes that for a write."""
        return any(each.role == "agent" and "POST" in each.content for each in self.messages)

    def recorded_posts(self) -> list[Post]:
        """The POSTs as the benchmark reads them. Raises ValueError where a payload is no JSON."""
        return [
            _post(each.content)
            for each, reply in self._answered()
            if "POST" in each.content and _accepts(reply)
        ]

    def executed_posts(self) -> list[Post]:
        """The POSTs that were made and accepted: fences are taken off, prose that names the word is none."""
        bare = [(unfenced(each.content), reply) for each, reply in self._answered()]
        return [
            _post(text)
            for text, reply in bare
            if text.startswith("POST") and reply.content.startswith(ACCEPTED)
        ]

    def _answered(self) -> list[tuple[Message, Message]]:
        pairs = zip(self.messages, self.messages[1:], strict=False)
        return [(each, reply) for each, reply in pairs if each.role == "agent"]


@dataclass(frozen=True)
class Task:
    """One task of the benchmark's file; `sol` is the known answer where it has one."""

    id: str
    instruction: str = ""
    context: str = ""
    mrn: str = ""
    sol: tuple[Any, ...] | None = None

    @property
    def number(self) -> int:
        """Which of the ten kinds it is."""
        return int(self.id.removeprefix("task").partition("_")[0])


def unfenced(text: str) -> str:
    """A reply as the controller reads it: trimmed, without the fences of code blocks."""
    bare = text.strip()
    for fence in _FENCES:
        bare = bare.replace(fence, "")
    return bare.strip()


def finish_only_transcript(reply: str) -> Transcript:
    """A conversation in which the agent at once says `FINISH(…)` and nothing else."""
    return Transcript(
        COMPLETED,
        reply.removeprefix("FINISH(")[:-1],
        (Message("user", ""), Message("agent", reply)),
    )


def read_tasks(rows: Sequence[Mapping[str, Any]]) -> list[Task]:
    """The tasks of a task file. Raises ScoringError that lists every row without a task id."""
    wrong = [
        f"row {at}: id must read like task3_12" for at, row in enumerate(rows) if not _has_id(row)
    ]
    if wrong:
        raise ScoringError.from_mistakes("tasks", wrong)
    return [_task(row) for row in rows]


def read_runs(rows: Sequence[Mapping[str, Any]], task_ids: Sequence[str]) -> dict[str, Transcript]:
    """Task id → conversation, from the lines of a `runs.jsonl`; `index` is the task's place in its file, or its id.

    Of several lines of one task the last counts. Raises ScoringError that lists every malformed line.
    """
    found: dict[str, Transcript] = {}
    wrong = []
    for at, row in enumerate(rows):
        task = _whose(row, task_ids)
        if task is None:
            wrong.append(
                f"line {at + 1}: index is no place in the task file ({len(task_ids)} tasks) and no task id"
            )
        elif not _is_output(row.get("output")):
            wrong.append(
                f"line {at + 1}: output must hold status, result and history [{{role, content}}]"
            )
        else:
            found[task] = _transcript(row.get("output") or {})
    if wrong:
        raise ScoringError.from_mistakes("runs", wrong)
    return found


def _whose(row: Mapping[str, Any], task_ids: Sequence[str]) -> str | None:
    for name in ("task_id", "index"):
        value = row.get(name)
        if isinstance(value, str) and _ID.fullmatch(value):
            return value
        if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < len(task_ids):
            return task_ids[value]
    return None


def _is_output(value: object) -> bool:
    """Lines of failed tasks have no output."""
    if value is None:
        return True
    history = value.get("history") if isinstance(value, Mapping) else 0
    if history is None:
        return True
    return isinstance(history, list) and all(
        isinstance(each, Mapping)
        and isinstance(each.get("role"), str)
        and isinstance(each.get("content"), str)
        for each in history
    )


def _transcript(output: Mapping[str, Any]) -> Transcript:
    turns = tuple(Message(each["role"], each["content"]) for each in output.get("history") or ())
    result = output.get("result")
    text = result if isinstance(result, str) or result is None else json.dumps(result)
    return Transcript(str(output.get("status") or "unknown"), text, turns)


def _has_id(row: object) -> bool:
    return isinstance(row, Mapping) and bool(_ID.fullmatch(str(row.get("id"))))


def _task(row: Mapping[str, Any]) -> Task:
    sol = row.get("sol")
    texts = {name: str(row.get(name) or "") for name in ("instruction", "context")}
    known = tuple(sol) if isinstance(sol, list) else None
    return Task(id=row["id"], mrn=str(row.get("eval_MRN") or ""), sol=known, **texts)


def _post(text: str) -> Post:
    first, _, rest = text.partition("\n")
    return Post(first[4:].strip(), json.loads(rest))


def _accepts(reply: Message) -> bool:
    return ACCEPTED in reply.content
