"""MedAgentBench's conversation: an agent says GET, POST or FINISH, the controller answers in fixed words.

Source: reference of the benchmark's controller (stanfordmlgroup/MedAgentBench, `src/server/tasks/medagentbench`). The
sentences are the benchmark's, to the letter: its grader looks for them.
"""

import json
from typing import Any, Literal, NamedTuple, Protocol

from archqa.fhir.record import Resource
from archqa.tasks.medagentbench.gateway import FhirGateway
from archqa.tasks.medagentbench.settings import MAX_ROUNDS

RUNNING = "running"
COMPLETED = "completed"
CONTEXT_LIMIT = "agent context limit"
INVALID_ACTION = "agent invalid action"
LIMIT_REACHED = "task limit reached"
TASK_ERROR = "task error"

_GO_ON = "Please call FINISH if you have got answers for all the questions and finished all the requested tasks"
GOT = "Here is the response from the GET request:\n{data}. " + _GO_ON
NOT_GOT = "Error in sending the GET request: {error}"
POST_ACCEPTED = "POST request accepted and executed successfully. " + _GO_ON
NOT_POSTED = "Invalid POST request"


class AgentTurn(NamedTuple):
    """One turn of an agent as the controller reads it. `url` is as written; `rest` the payload, or the result."""

    verb: Literal["GET", "POST", "FINISH", ""]
    url: str = ""
    body: str = ""


class Poster(Protocol):
    """What becomes of a POST."""

    def post(self, url: str, body: str, evidence: tuple[str, ...]) -> tuple[str, ...]:
        """Write, or only look, as the mode has it; the reasons why not, none if it was accepted."""
        ...


def parse_turn(text: str) -> AgentTurn:
    """What an agent's turn asks for, after the fences of code blocks are taken off."""
    bare = text.strip().replace("```tool_code", "").replace("```", "").strip()
    if bare.startswith("GET"):
        return AgentTurn("GET", bare[3:].strip())
    if bare.startswith("POST"):
        first, _, rest = bare.partition("\n")
        return AgentTurn("POST", first[4:].strip(), rest)
    if bare.startswith("FINISH("):
        return AgentTurn("FINISH", body=bare[len("FINISH(") : -1])
    return AgentTurn("")


class TaskController:
    """One task's conversation. `history` is the benchmark's; `read` holds every resource that came back.

    `page` is what the last GET brought; `evidence` is what the next POST rests on, for the audit log.
    """

    def __init__(
        self, prompt: str, door: FhirGateway, poster: Poster, rounds: int = MAX_ROUNDS
    ) -> None:
        self.history: list[dict[str, str]] = [{"role": "user", "content": prompt}]
        self.status = RUNNING
        self.result: str | None = None
        self.read: dict[str, Resource] = {}
        self.asked: list[str] = []
        self.accepted: list[Resource] = []
        self.page = ""
        self.evidence: tuple[str, ...] = ()
        self._door = door
        self._poster = poster
        self._left = rounds

    @property
    def running(self) -> bool:
        """Whether the agent has another turn."""
        return self.status == RUNNING

    @property
    def left(self) -> int:
        """Turns that are left."""
        return self._left if self.running else 0

    def say(self, text: str) -> str | None:
        """An agent's turn, and what it is answered; None when that ended the conversation. Raises nothing."""
        self._left -= 1
        self.history.append({"role": "agent", "content": text})
        said = parse_turn(text)
        if said.verb == "FINISH":
            self.status, self.result = COMPLETED, said.body
        elif not said.verb:
            self.status = INVALID_ACTION
        if not self.running:
            return None
        answer = self._get(said.url) if said.verb == "GET" else self._post(said)
        self.history.append({"role": "user", "content": answer})
        if self._left == 0:
            self.status = LIMIT_REACHED
        return answer

    def end(self, status: str) -> None:
        """End it from outside: the agent's context is full, or something failed."""
        if self.running:
            self.status = status

    def _get(self, url: str) -> str:
        self.page = ""
        fetched = self._door.get(f"{url}&_format=json")
        if fetched.error:
            return NOT_GOT.format(error=fetched.error)
        self.asked.append(url)
        self.page = fetched.text
        self._remember(fetched.text)
        return GOT.format(data=fetched.text)

    def _post(self, said: AgentTurn) -> str:
        try:
            payload = json.loads(said.body)
        except (ValueError, RecursionError):
            return NOT_POSTED
        reasons = self._poster.post(said.url, said.body, self.evidence)
        if reasons:
            return f"{NOT_POSTED}: {' '.join(reasons)}"
        if isinstance(payload, dict):
            self.accepted.append(payload)
        return POST_ACCEPTED

    def _remember(self, text: str) -> None:
        for resource in parse_resources(text):
            self.read[f"{resource.get('resourceType')}/{resource.get('id')}"] = resource


def parse_resources(text: str) -> list[Resource]:
    """The resources of a searchset, or the one resource a text is; nothing where it is no JSON of FHIR."""
    try:
        content = json.loads(text)
    except (ValueError, RecursionError):
        return []
    if not isinstance(content, dict):
        return []
    if content.get("resourceType") != "Bundle":
        return [content] if "id" in content else []
    entries: list[Any] = content["entry"] if isinstance(content.get("entry"), list) else []
    found = [each.get("resource") for each in entries if isinstance(each, dict)]
    return [each for each in found if isinstance(each, dict)]
