"""A finished MedAgentBench conversation and its POSTs, as benchmark and reviewer read them.

Source: the controller's protocol and `refsol.py` of stanfordmlgroup/MedAgentBench.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, NamedTuple

from ..errors import ScoringError

ACCEPTED = "POST request accepted"
COMPLETED = "completed"
_FENCES = ("```tool_code", "```")
_ID = re.compile(r"task(?:[1-9]|10)_\d+")


class Message(NamedTuple):
    """One message; its `role` is `agent`, or `user` for the controller."""

    role: str
    content: str


class Post(NamedTuple):
    """One accepted POST: its URL and its payload, any JSON value."""

    url: str
    payload: Any


@dataclass(frozen=True)
class Transcript:
    """A conversation: its final status, its messages, and the text in FINISH( ) (None without).

    Other controllers than the benchmark's also store the result as JSON, such as a list.
    """

    status: str
    result: Any
    messages: tuple[Message, ...] = ()

    @property
    def completed(self) -> bool:
        """Whether the agent finished; the benchmark may append its verdict to the status."""
        return self.status.startswith(COMPLETED)

    @property
    def mentions_post(self) -> bool:
        """Whether an agent's message has the letters POST: for the benchmark, a write."""
        return any(map(_mentions_post, self.messages))

    def recorded_posts(self) -> list[Post]:
        """The accepted POSTs as the benchmark reads them, without those whose body is not JSON.

        Raises IndexError if the agent's last message has the letters POST and no message follows:
        the benchmark looks for a reply to it and fails.
        """
        if self.messages and _mentions_post(self.messages[-1]):
            raise IndexError("no message follows the last one of the agent, which mentions POST")
        posts = []
        for request, reply in self._exchanges():
            if "POST" in request and ACCEPTED in reply:
                posts.extend(_readable_posts(request))
        return posts

    def executed_posts(self) -> list[Post]:
        """The POSTs that were really sent and accepted, as a reviewer reads the conversation.

        Code fences are removed; prose that mentions POST does not count. Raises ValueError where a
        payload is not JSON.
        """
        posts = []
        for request, reply in self._exchanges():
            text = unfenced(request)
            if text.startswith("POST") and reply.startswith(ACCEPTED):
                posts.append(_parse_post(text))
        return posts

    def executed_urls(self) -> list[str]:
        """The URLs of the accepted POSTs, whatever their bodies hold."""
        urls = []
        for request, reply in self._exchanges():
            text = unfenced(request)
            if text.startswith("POST") and reply.startswith(ACCEPTED):
                request_line, _, _ = text.partition("\n")
                urls.append(_url(request_line))
        return urls

    def _exchanges(self) -> Iterator[tuple[str, str]]:
        """The contents of every message of the agent and of the message after it."""
        for message, reply in pairwise(self.messages):
            if message.role == "agent":
                yield message.content, reply.content


@dataclass(frozen=True)
class Task:
    """One task of the benchmark's file; `sol` is the gold answer where the file has one."""

    id: str
    instruction: str = ""
    context: str = ""
    mrn: str = ""
    sol: tuple[Any, ...] | None = None

    @property
    def number(self) -> int:
        """The number of the task's template, 1 to 10: 3 for `task3_12`."""
        number, _, _ = self.id.removeprefix("task").partition("_")
        return int(number)


def unfenced(text: str) -> str:
    """A reply as the controller reads it: trimmed, without the fences of code blocks."""
    bare = text.strip()
    for fence in _FENCES:
        bare = bare.replace(fence, "")
    return bare.strip()


def finish_only_transcript(reply: str) -> Transcript:
    """A conversation in which the agent's only message is `reply`, such as `FINISH([])`."""
    result = reply.removeprefix("FINISH(").removesuffix(")")
    messages = (Message("user", ""), Message("agent", reply))
    return Transcript(COMPLETED, result, messages)


def read_tasks(rows: Sequence[Mapping[str, Any]]) -> list[Task]:
    """The tasks of a task file. Raises ScoringError that lists every row without a task id."""
    mistakes = []
    for index, row in enumerate(rows):
        if not _has_id(row):
            mistakes.append(f"row {index}: id must read like task3_12")
    if mistakes:
        raise ScoringError.from_mistakes("tasks", mistakes)
    return [_parse_task(row) for row in rows]


def read_runs(rows: Sequence[Mapping[str, Any]], task_ids: Sequence[str]) -> dict[str, Transcript]:
    """Task id → conversation, from the lines of a `runs.jsonl`.

    A line's `index` is the task's position in the task file, or its id. If several lines are of one
    task, the last counts. Raises ScoringError that lists every malformed line.
    """
    transcripts: dict[str, Transcript] = {}
    mistakes = []
    count = len(task_ids)
    for number, row in enumerate(rows, start=1):
        task_id = _task_id(row, task_ids)
        if task_id is None:
            problem = f"index is no place in the task file ({count} tasks) and no task id"
            mistakes.append(f"line {number}: {problem}")
        elif not _is_output(row.get("output")):
            problem = "output must hold status, result and history [{role, content}]"
            mistakes.append(f"line {number}: {problem}")
        else:
            transcripts[task_id] = _parse_transcript(row.get("output") or {})
    if mistakes:
        raise ScoringError.from_mistakes("runs", mistakes)
    return transcripts


def _task_id(row: Mapping[str, Any], task_ids: Sequence[str]) -> str | None:
    for name in ("task_id", "index"):
        value = row.get(name)
        if isinstance(value, str) and _ID.fullmatch(value):
            return value
        if not isinstance(value, int) or isinstance(value, bool):
            continue
        if 0 <= value < len(task_ids):
            return task_ids[value]
    return None


def _is_output(value: object) -> bool:
    """Whether a line's `output` can be read; lines of failed tasks have none."""
    if value is None:
        return True
    if not isinstance(value, Mapping):
        return False
    history = value.get("history")
    if history is None:
        return True
    return isinstance(history, list) and all(map(_is_message, history))


def _is_message(value: object) -> bool:
    if not isinstance(value, Mapping):
        return False
    return isinstance(value.get("role"), str) and isinstance(value.get("content"), str)


def _parse_transcript(output: Mapping[str, Any]) -> Transcript:
    history = output.get("history") or ()
    messages = tuple(Message(turn["role"], turn["content"]) for turn in history)
    status = str(output.get("status") or "unknown")
    return Transcript(status, output.get("result"), messages)


def _has_id(row: object) -> bool:
    return isinstance(row, Mapping) and bool(_ID.fullmatch(str(row.get("id"))))


def _parse_task(row: Mapping[str, Any]) -> Task:
    sol = row.get("sol")
    return Task(
        id=row["id"],
        instruction=str(row.get("instruction") or ""),
        context=str(row.get("context") or ""),
        mrn=str(row.get("eval_MRN") or ""),
        sol=tuple(sol) if isinstance(sol, list) else None,
    )


def _mentions_post(message: Message) -> bool:
    return message.role == "agent" and "POST" in message.content


def _readable_posts(text: str) -> list[Post]:
    """The POST in a message, or none if the lines after the first are not JSON."""
    try:
        return [_parse_post(text)]
    except (ValueError, RecursionError):
        return []


def _parse_post(text: str) -> Post:
    """The URL follows POST on the first line; the payload is the rest."""
    request_line, _, payload = text.partition("\n")
    return Post(_url(request_line), json.loads(payload))


def _url(request_line: str) -> str:
    return request_line[len("POST") :].strip()
