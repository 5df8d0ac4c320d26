"""Every agent that the settings can configure (`agents.<name>`), by name; importing this module
imports none of them.

An agent of a benchmark lives in its task's package, so classes are named as text and imported on
request. Classes of one name share its settings: the name is a role, and a pipeline chooses the
class. The judges of scoring (of FHIR-AgentBench's replies, of cited lines) are not listed: they
have options of their own. Other distributions add agents by entry points of the group
`archqa.agents`: an `Agent`, or a tuple of them.
"""

import pkgutil
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from archqa import plug_ins

if TYPE_CHECKING:
    from archqa.agents.agent import Agent
    from archqa.llm.prompts import Prompts

AGENT_CLASSES = {
    "context": "archqa.agents.context:MedicalContextAgent",
    "general_expert": (
        "archqa.agents.labelling:GeneralExpertAgent "
        "archqa.agents.labelling:GeneralExpertBatchAgent"
    ),
    "recruiting": "archqa.agents.recruiting:RecruitingAgent",
    "specialist": "archqa.agents.labelling:SpecialistAgent",
    "decision": "archqa.agents.answer:DecisionAgent",
    "answer": (
        "archqa.agents.answer:CompressionAgent archqa.agents.answer:SummaryAgent"
    ),
    "question_interpretation": "archqa.agents.question_interpretation:QuestionInterpretationAgent",
    "alignment": "archqa.agents.alignment:AlignmentAgent",
    "note_answer": "archqa.agents.note_answer:NoteAnswerAgent",
    "note_answer_check": "archqa.agents.line_check:NoteAnswerCheckAgent",
    "chart_answer": "archqa.agents.chart_answer:ChartAnswerAgent",
    "chart_answer_check": "archqa.agents.line_check:ChartAnswerCheckAgent",
    "follow_up": "archqa.agents.follow_up:FollowUpAgent",
    "brief_writing": "archqa.agents.brief_writing:BriefWritingAgent",
    "brief_check": "archqa.agents.line_check:BriefCheckAgent",
    "reading_check": "archqa.agents.reading_check:ReadingCheckAgent",
    "planner": "archqa.agents.planner:PlannerAgent",
    "fhir_request": "archqa.tasks.fhir_agentbench.agents:FhirRequestAgent",
    "fhir_retriever": "archqa.tasks.fhir_agentbench.agents:FhirRetrieverAgent",
    "fhir_retriever_code": "archqa.tasks.fhir_agentbench.agents:FhirRetrieverCodeAgent",
    "fhir_multi_turn": "archqa.tasks.fhir_agentbench.agents:FhirMultiTurnAgent",
    "fhir_multi_turn_code": (
        "archqa.tasks.fhir_agentbench.agents:FhirMultiTurnCodeAgent "
        "archqa.tasks.fhir_agentbench.agents:RecordCodeAgent"
    ),
    "clinical_paper": "archqa.tasks.medagentbench.agents:MedAgentPaperAgent",
    "clinical_typed": "archqa.tasks.medagentbench.agents:MedAgentTypedAgent",
}
"""The classes of each name, as `pkgutil.resolve_name` takes them."""

AGENT_NAMES = tuple(AGENT_CLASSES)
"""The names of archqa's own agents."""


def agent_names() -> tuple[str, ...]:
    """The names of all agents, those of plug-ins last. No agent is imported."""
    further = plug_ins.installed("agents", AGENT_CLASSES)
    return (*AGENT_CLASSES, *(plug_in.name for plug_in in further))


def load_agents(name: str) -> tuple["type[Agent[Any, Any]]", ...]:
    """The classes of an agent's name.

    Raises `KeyError` for an unknown name, `PlugInError` for a plug-in that cannot be used.
    """
    if name in AGENT_CLASSES:
        return tuple(map(pkgutil.resolve_name, AGENT_CLASSES[name].split()))
    plug_in = plug_ins.find("agents", name)
    if plug_in is None:
        raise KeyError(name)
    loaded = plug_in.load()
    classes = loaded if isinstance(loaded, tuple) else (loaded,)
    for agent_class in classes:
        own_name = getattr(agent_class, "name", None)
        if own_name != plug_in.name:
            raise plug_in.problem(
                f"is no agent of that name (its name is {own_name!r})"
            )
    return classes


def plug_ins_of(names: Iterable[str]) -> tuple[plug_ins.PlugIn, ...]:
    """The plug-ins that agents of these names come from."""
    origins = []
    for name in names:
        plug_in = plug_ins.find("agents", name, AGENT_CLASSES)
        if plug_in is not None:
            origins.append(plug_in)
    return tuple(origins)


def prompts_of(prompt: str, agents: Iterable[str]) -> "Prompts":
    """The folder of an agent's prompt: that of the plug-in which has the agent, else archqa's own."""
    from archqa.llm.prompts import default_prompts, prompts_in

    agent, _, _ = prompt.partition(
        "/"
    )  # `urgency/v2` is a version of the prompt of `urgency`.
    for plug_in in plug_ins_of(agents):
        for agent_class in load_agents(plug_in.name):
            is_of_agent = agent_class.prompt.partition("/")[0] == agent
            if is_of_agent and agent_class.prompts_folder is not None:
                return prompts_in(agent_class.prompts_folder)
    return default_prompts()
