"""MedAgentBench's conversation.

An agent replies with GET, POST or FINISH, the controller answers in fixed sentences.

Source: reference of the benchmark's controller (stanfordmlgroup/MedAgentBench,
`src/server/tasks/medagentbench`). The sentences are the benchmark's, to the letter: its grader
searches for them.
"""

import json
from typing import Any, Literal, NamedTuple, Protocol

from archqa.fhir.record import Resource
from archqa.safety.text import json_without_surrogates
from archqa.tasks.medagentbench.gateway import FhirGateway
from archqa.tasks.medagentbench.settings import MAX_ROUNDS

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


class AgentTurn(NamedTuple):
    """One turn of an agent as the controller reads it.

    `body` is a POST's payload, or FINISH's result.
    """

    verb: Literal["GET", "POST", "FINISH", ""]
    url: str = ""
    body: str = ""


class Poster(Protocol):
    """Carries out a POST."""

    def post(self, url: str, body: str, evidence: tuple[str, ...]) -> tuple[str, ...]:
        """Write, or only check, depending on the mode.

        Returns the reasons for a refusal, none if it was accepted.
        """
        ...


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

    def __init__(
        self, prompt: str, gateway: FhirGateway, poster: Poster, rounds: int = MAX_ROUNDS
    ) -> None:
        self.history: list[dict[str, str]] = [{"role": "user", "content": prompt}]
        self.status = RUNNING
        self.result: str | None = None
        self.resources_read: dict[str, Resource] = {}
        self.requested_urls: list[str] = []
        self.accepted_writes: list[Resource] = []
        self.last_page = ""
        self.evidence: tuple[str, ...] = ()
        self._gateway = gateway
        self._poster = poster
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
        response = self._gateway.get(f"{url}&_format=json")
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
        reasons = self._poster.post(turn.url, turn.body, self.evidence)
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
        content = json.loads(text)
    except (ValueError, RecursionError):
        return []
    if not isinstance(content, dict):
        return []
    if content.get("resourceType") != "Bundle":
        return [content] if "id" in content else []
    return _bundle_resources(content)


def _bundle_resources(bundle: dict[str, Any]) -> list[Resource]:
    entries = bundle.get("entry")
    if not isinstance(entries, list):
        return []
    resources = [entry.get("resource") for entry in entries if isinstance(entry, dict)]
    return [resource for resource in resources if isinstance(resource, dict)]
