"""MedAgentBench's conversation.

An agent replies with GET, POST or FINISH, the controller answers in fixed sentences.

Source: reference of the benchmark's controller (stanfordmlgroup/MedAgentBench,
`src/server/tasks/medagentbench`). The sentences are the benchmark's, to the letter: its grader
searches for them.
"""

import json
from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Any, Literal, NamedTuple

from archqa.errors import ArchqaError
from archqa.fhir.record import Resource, objects_of
from archqa.fhir.values.json_text import InvalidBody, parse_bounded
from archqa.fhir.values.references import parse_reference
from archqa.fhir.values.urls import build_search_url
from archqa.safety.text import json_without_surrogates
from archqa.tasks.medagentbench.session import FHIR_BASE_URL, ClinicalSession, parse_now
from archqa.tasks.medagentbench.settings import PayloadFormat
from archqa.tasks.medagentbench.write_checks import (
    WriteContext,
    missing_reads,
    objections,
)

RUNNING = "running"
COMPLETED = "completed"
CONTEXT_LIMIT = "agent context limit"
INVALID_ACTION = "agent invalid action"
LIMIT_REACHED = "task limit reached"
TASK_ERROR = "task error"

_CALL_FINISH = (
    "Please call FINISH if you have got answers for all the questions "
    "and finished all the requested tasks"
)
GET_RESPONSE = "Here is the response from the GET request:\n{data}. " + _CALL_FINISH
GET_ERROR = "Error in sending the GET request: {error}"
POST_ACCEPTED = "POST request accepted and executed successfully. " + _CALL_FINISH
INVALID_POST = "Invalid POST request"

_MAX_PAGES = 3
"""Pages read of one search: an agent has eight turns."""


class AgentTurn(NamedTuple):
    """One turn of an agent as the controller reads it.

    `body` is a POST's payload, or FINISH's result.
    """

    verb: Literal["GET", "POST", "FINISH", ""]
    url: str = ""
    body: str = ""


def parse_turn(text: str) -> AgentTurn:
    """The action in an agent's turn, without the fences of code blocks."""
    action = text.strip().replace("```tool_code", "").replace("```", "").strip()
    if action.startswith("GET"):
        return AgentTurn("GET", action[3:].strip())
    if action.startswith("POST"):
        request_line, _, payload = action.partition("\n")
        return AgentTurn("POST", request_line[4:].strip(), payload)
    if action.startswith("FINISH("):
        return AgentTurn("FINISH", body=action[len("FINISH(") : -1])
    return AgentTurn("")


class TaskController:
    """The controller of one task's conversation.

    `history` has the benchmark's shape. `resources_read` maps `Type/id` to every resource in the
    responses, `requested_urls` are the successful GETs, `accepted_writes` the payloads of accepted
    POSTs, `last_page` is the response to the last GET. `evidence` names the resources that justify
    the next POST, for the audit log.
    """

    def __init__(self, prompt: str, session: ClinicalSession, rounds: int) -> None:
        self.history: list[dict[str, str]] = [{"role": "user", "content": prompt}]
        self.status = RUNNING
        self.result: str | None = None
        self.resources_read: dict[str, Resource] = {}
        self.requested_urls: list[str] = []
        self.accepted_writes: list[Resource] = []
        self.last_page = ""
        self.evidence: tuple[str, ...] = ()
        self._session = session
        self._rounds_left = rounds

    @property
    def running(self) -> bool:
        """Whether the agent has another turn."""
        return self.status == RUNNING

    @property
    def rounds_left(self) -> int:
        """Turns that the agent still has."""
        return self._rounds_left if self.running else 0

    def handle_turn(self, text: str) -> str | None:
        """Take an agent's turn and answer it; None if it ended the conversation. Raises nothing."""
        self._rounds_left -= 1
        self.history.append({"role": "agent", "content": text})
        turn = parse_turn(text)
        if turn.verb == "FINISH":
            self.status, self.result = COMPLETED, turn.body
        elif not turn.verb:
            self.status = INVALID_ACTION
        if not self.running:
            return None
        answer = self._get(turn.url) if turn.verb == "GET" else self._post(turn)
        self.history.append({"role": "user", "content": answer})
        if self._rounds_left == 0:
            self.status = LIMIT_REACHED
        return answer

    def end(self, status: str) -> None:
        """End a running conversation for an outside reason: a full context, or a failure."""
        if self.running:
            self.status = status

    def _get(self, url: str) -> str:
        self.last_page = ""
        response = self._session.gateway.get(f"{url}&_format=json")
        if response.error:
            return GET_ERROR.format(error=response.error)
        self.requested_urls.append(url)
        self.last_page = response.text
        for resource in parse_resources(response.text):
            reference = f"{resource.get('resourceType')}/{resource.get('id')}"
            self.resources_read[reference] = resource
        return GET_RESPONSE.format(data=response.text)

    def _post(self, turn: AgentTurn) -> str:
        try:
            payload = json_without_surrogates(json.loads(turn.body))
        except (ValueError, RecursionError):
            return INVALID_POST
        reasons = self._session.post(turn.url, turn.body, self.evidence)
        if reasons:
            return f"{INVALID_POST}: {' '.join(reasons)}"
        if isinstance(payload, dict):
            self.accepted_writes.append(payload)
        return POST_ACCEPTED


def parse_resources(text: str) -> list[Resource]:
    """The resources of a searchset, or the one resource in a text.

    The list is empty if the text is not FHIR's JSON.
    """
    try:
        content = parse_bounded(text)
    except InvalidBody:
        return []
    if not isinstance(content, dict):
        return []
    if content.get("resourceType") != "Bundle":
        return [content] if "id" in content else []
    resources = []
    for entry in objects_of(content, "entry"):
        resource = entry.get("resource")
        if isinstance(resource, dict):
            resources.append(resource)
    return resources


class ActionFailed(ArchqaError):
    """The action was refused or failed; the message tells the agent why."""


class Actions:
    """The actions of an agent in one task.

    `cited` are the resources that the answer rests on, `created` those that were stored by
    `Type/id`, `remarks` tell of refused writes.
    """

    def __init__(
        self,
        controller: TaskController,
        session: ClinicalSession,
        payload_format: PayloadFormat | None,
    ) -> None:
        self.controller = controller
        self.session = session
        self.payload_format = payload_format or session.payload_format
        self.cited: list[str] = []
        self.created: dict[str, Resource] = {}
        self.explanation = ""
        self.remarks: list[str] = []

    @property
    def now(self) -> datetime:
        """The task's clock. Raises `Unusable` if the task names no time."""
        return parse_now(self.session.task_text.context)

    @property
    def known_resources(self) -> dict[str, Resource]:
        """The resources that were read or stored in this task, by `Type/id`."""
        return {**self.controller.resources_read, **self.created}

    def search(
        self, resource_type: str, params: Iterable[tuple[str, str]]
    ) -> list[Resource]:
        """The matches on the first pages of a search. Raises `ActionFailed`."""
        url: str | None = f"{FHIR_BASE_URL}{build_search_url(resource_type, params)}"
        resources: list[Resource] = []
        for _ in range(_MAX_PAGES):
            if url is None:
                break
            answer = self._take_turn(f"GET {url}")
            page = self.controller.last_page
            if not page:
                raise ActionFailed(answer)
            resources += parse_resources(page)
            # A write and FINISH need the last two turns.
            url = _next_link(page) if self.controller.rounds_left > 2 else None
        return [
            resource
            for resource in resources
            if resource.get("resourceType") == resource_type
        ]

    def refusal_reasons(
        self, payload: dict[str, Any], evidence: tuple[str, ...]
    ) -> list[str]:
        """Every reason against a write; nothing is written."""
        in_record = self.session.write_context(payload)
        context = WriteContext(
            self.known_resources,
            tuple(self.controller.requested_urls),
            tuple(self.controller.accepted_writes),
            in_record.existing_resources,
            in_record.patient_exists,
        )
        task_text = self.session.task_text
        return [
            *objections(payload, task_text, context, evidence),
            *missing_reads(payload, task_text, context, evidence),
        ]

    def write(self, payload: dict[str, Any], evidence: tuple[str, ...]) -> str:
        """Check a payload and post it; returns its reference, empty where nothing is stored.

        Raises `ActionFailed` with every reason against it.
        """
        url = f"{FHIR_BASE_URL}{payload['resourceType']}"
        body = json.dumps(payload)
        accepted_before = len(self.controller.accepted_writes)
        reasons = self.refusal_reasons(payload, evidence)
        if reasons:
            self.session.write(url, body, evidence, tuple(reasons))
            answer = " ".join(reasons)
        else:
            self.controller.evidence = evidence
            answer = self._take_turn(f"POST {url}\n{body}")
        if len(self.controller.accepted_writes) == accepted_before:
            self.remarks.append(f"{payload['resourceType']} refused")
            raise ActionFailed(answer)
        location = parse_reference(str(self.session.attempts[-1]["location"]))
        if location is None or not location.type:
            return ""
        reference = f"{location.type}/{location.id}"
        self.created[reference] = {**payload, "id": location.id}
        return reference

    def finish(
        self, answers: Sequence[Any], explanation: str = "", cited: Sequence[str] = ()
    ) -> None:
        """End the conversation with these answers.

        Explanation and citations are stored apart from them.
        """
        self.explanation = explanation
        self.cited = list(dict.fromkeys(cited))
        self._take_turn(f"FINISH({json.dumps(list(answers), ensure_ascii=False)})")

    def _take_turn(self, text: str) -> str:
        if not self.controller.running:
            raise ActionFailed("The task has ended; there are no turns left.")
        if self.controller.rounds_left == 1 and not text.startswith("FINISH"):
            raise ActionFailed("Only one turn is left: finish.")
        return self.controller.handle_turn(text) or ""


def _next_link(page: str) -> str | None:
    """The link to the next page of a searchset, if it leads to the same server."""
    try:
        bundle = parse_bounded(page)
    except InvalidBody:
        return None
    for link in objects_of(bundle, "link"):
        if link.get("relation") == "next":
            url = str(link.get("url"))
            if url.startswith(FHIR_BASE_URL.rstrip("/")):
                return url
    return None
