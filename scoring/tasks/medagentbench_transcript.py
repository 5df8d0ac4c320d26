"""A finished MedAgentBench conversation and its POSTs, as benchmark and reviewer read them.

Source: the controller's protocol and `refsol.py` of stanfordmlgroup/MedAgentBench.
"""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, NamedTuple

from ..errors import ScoringError
from ..submission import Rows

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
            raise IndexError(
                "no message follows the last one of the agent, which mentions POST"
            )
        posts = []
        for request, reply in self._exchanges():
            if "POST" in request and ACCEPTED in reply:
                with suppress(ValueError, RecursionError):
                    posts.append(_parse_post(request))
        return posts

    def executed_posts(self) -> list[Post]:
        """The POSTs that were really sent and accepted, as a reviewer reads the conversation.

        Code fences are removed; prose that mentions POST does not count. Raises ValueError where a
        payload is not JSON.
        """
        return [_parse_post(request) for request in self._executed_requests()]

    def executed_urls(self) -> list[str]:
        """The URLs of the accepted POSTs, whatever their bodies hold."""
        urls = []
        for request in self._executed_requests():
            request_line, _, _ = request.partition("\n")
            urls.append(_url(request_line))
        return urls

    def _executed_requests(self) -> Iterator[str]:
        for request, reply in self._exchanges():
            text = unfenced(request)
            if text.startswith("POST") and reply.startswith(ACCEPTED):
                yield text

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
        without_prefix = self.id.removeprefix("task")
        number, _, _ = without_prefix.partition("_")
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


def read_tasks(rows: Rows) -> list[Task]:
    """The tasks of a task file. Raises ScoringError that lists every row without a task id."""
    tasks = []
    mistakes = []
    for index, row in enumerate(rows):
        task_id = row.get("id") if isinstance(row, Mapping) else None
        if not _ID.fullmatch(str(task_id)):
            mistakes.append(f"row {index}: id must read like task3_12")
            continue
        sol = row.get("sol")
        task = Task(
            id=row["id"],
            instruction=str(row.get("instruction") or ""),
            context=str(row.get("context") or ""),
            mrn=str(row.get("eval_MRN") or ""),
            sol=tuple(sol) if isinstance(sol, list) else None,
        )
        tasks.append(task)
    if mistakes:
        raise ScoringError.from_mistakes("tasks", mistakes)
    return tasks


def read_runs(rows: Rows, task_ids: Sequence[str]) -> dict[str, Transcript]:
    """Task id → conversation, from the lines of a `runs.jsonl`.

    A line's `index` is the task's position in the task file, or its id. If several lines are of one
    task, the last counts. Raises ScoringError that lists every malformed line.
    """
    transcripts: dict[str, Transcript] = {}
    mistakes = []
    count = len(task_ids)
    for number, row in enumerate(rows, start=1):
        task_id = _task_id(row, task_ids)
        output = row.get("output")
        if task_id is None:
            problem = (
                f"index is no place in the task file ({count} tasks) and no task id"
            )
            mistakes.append(f"line {number}: {problem}")
        elif not _is_output(output):
            problem = "output must hold status, result and history [{role, content}]"
            mistakes.append(f"line {number}: {problem}")
        else:
            output = output or {}
            messages = []
            for turn in output.get("history") or ():
                messages.append(Message(turn["role"], turn["content"]))
            transcripts[task_id] = Transcript(
                status=str(output.get("status") or "unknown"),
                result=output.get("result"),
                messages=tuple(messages),
            )
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
    if not isinstance(history, list):
        return False
    for message in history:
        if not isinstance(message, Mapping):
            return False
        if not isinstance(message.get("role"), str):
            return False
        if not isinstance(message.get("content"), str):
            return False
    return True


def _mentions_post(message: Message) -> bool:
    return message.role == "agent" and "POST" in message.content


def _parse_post(text: str) -> Post:
    """The URL follows POST on the first line; the payload is the rest."""
    request_line, _, payload = text.partition("\n")
    url = _url(request_line)
    return Post(url, json.loads(payload))


def _url(request_line: str) -> str:
    return request_line[len("POST") :].strip()
