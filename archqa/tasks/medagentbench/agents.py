"""The agents that act on a record for MedAgentBench.

`MedAgentPaperAgent` is the benchmark's baseline (Jiang et al., NEJM AI 2025, §2.4.3): nine
functions in prose, one reply at a time; `load_functions` reads the benchmark's own descriptions of
them. `MedAgentTypedAgent` has tools with checked arguments, as in Chen et al. (PSB 2026).
"""

import json
import re
from pathlib import Path
from typing import Any, NamedTuple

from archqa.agents.agent import Agent, RunContext, Task
from archqa.agents.conversation import Conversation
from archqa.core.id_lists import list_ids
from archqa.core.value import FrozenModel
from archqa.errors import InputError
from archqa.llm.model import Reply, ToolSpec
from archqa.tasks.files.json_node import parse_json
from archqa.tasks.files.mistakes import FileErrors, are_texts
from archqa.tasks.files.source import read_source
from archqa.tasks.pipeline import PipelineInputs

OWN_WORDING = (
    "The function descriptions are archqa's own wording "
    "(prompts/medagent_paper/v2/functions.json), "
    "not the benchmark's; --functions FILE sends those of its funcs_v1.json."
)

_FIX = (
    "A function file is the benchmark's funcs_v1.json: "
    '[{"name": "GET {api_base}/Condition", "description": "…", "parameters": {…}}, …].'
)
_NAME = re.compile(r"(?:GET|POST) \S+")


class MedAgentPaperTask(FrozenModel):
    """What the baseline is told."""

    instruction: str
    context: str = ""
    api_base: str
    functions: str = ""


class MedAgentTypedTask(FrozenModel):
    """What the agent with tools is told."""

    instruction: str
    context: str = ""


class AssistantTurn(FrozenModel):
    """One reply of a model, whole."""

    text: str


class MedAgentPaperAgent(Agent[MedAgentPaperTask, AssistantTurn]):
    """The baseline: writes GET, POST and FINISH itself."""

    name = "clinical_paper"
    prompt = "medagent_paper/v2"
    task_type = MedAgentPaperTask
    output_type = AssistantTurn


class MedAgentTypedAgent(Agent[MedAgentTypedTask, AssistantTurn]):
    """Calls typed tools."""

    name = "clinical_typed"
    prompt = "medagent_typed/v3"
    task_type = MedAgentTypedTask
    output_type = AssistantTurn


class ClinicalConversation(Conversation[Task]):
    """A conversation about one task; messages that a prompt leaves empty are not sent."""

    def __init__(
        self, agent: Agent[Task, Any], task: Task, context: RunContext
    ) -> None:
        super().__init__(agent, task, context)
        self.messages = [message for message in self.messages if message.content]

    @property
    def first_user_message(self) -> str:
        """The text of the first message that is not the system's."""
        return next(
            message.content for message in self.messages if message.role == "user"
        )

    async def ask(self, tools: tuple[ToolSpec, ...] = ()) -> Reply:
        """The model's next turn. Raises `CaseFailed`, `ModelError`."""
        reply = await self.next_reply(tools)
        self.messages.append(reply.as_message)
        return reply


class FunctionFile(NamedTuple):
    """Function descriptions; `text` is the JSON that the benchmark puts in its prompt."""

    text: str
    sha256: str


def load_functions(path: Path) -> FunctionFile:
    """Read the benchmark's own descriptions of its nine functions, `funcs_v1.json`.

    Without it, the baseline sends archqa's own wording of the same functions. Raises `InputError`
    with every mistake of the file.
    """
    source = read_source(path.absolute())
    try:
        content = parse_json(source.text, source.path)
    except InputError as error:
        raise InputError(source.path, error.mistakes, _FIX) from None
    mistakes = FileErrors(source.path, _FIX)
    if content.value == []:
        mistakes.add("", "the list is empty; it should hold at least one function.")
        mistakes.raise_if_any()
    for function in content.entries(mistakes):
        name = function.required("name")
        if name and not _NAME.fullmatch(name):
            function.add_error("name", "should be GET or POST, a blank and an address.")
        function.required("description")
        field, problem = _mistake_in_parameters(function.value("parameters"))
        if problem:
            function.add_error(field, problem)
    mistakes.raise_if_any()
    return FunctionFile(json.dumps(content.value), source.sha256)


def function_inputs(path: Path | None) -> PipelineInputs:
    """What a run says of its function descriptions. Raises `InputError` for a malformed file."""
    if path is None:
        return PipelineInputs(remarks=(OWN_WORDING,))
    return PipelineInputs(sha256={"functions": load_functions(path).sha256})


def _mistake_in_parameters(parameters: Any) -> tuple[str, str]:
    """The field of the JSON schema that is wrong, and why; both empty if none is."""
    if not isinstance(parameters, dict):
        return "parameters", "is missing or no object; it should be a JSON schema."
    properties = parameters.get("properties")
    if not isinstance(properties, dict):
        return "parameters.properties", "is missing or no object."
    required = parameters.get("required", [])
    if not are_texts(required):
        return "parameters.required", "should be a list of parameter names."
    undescribed = [name for name in required if name not in properties]
    if undescribed:
        names = list_ids(undescribed)
        return (
            "parameters.required",
            f"lists names that are not in properties: {names}.",
        )
    return "", ""
