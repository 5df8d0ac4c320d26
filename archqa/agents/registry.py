"""Every agent that the settings can configure (`agents.<name>`), by name; importing this module
imports none of them.

An agent of a benchmark lives in its task's package, so classes are named as text and imported on
request. Classes of one name share its settings: the name is a role, and a pipeline chooses the
class. The judges of scoring (of FHIR-AgentBench's replies, of cited lines) are not listed: they
have options of their own.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from archqa.agents.agent import Agent

_FHIR = "archqa.tasks.fhir_agentbench.agents"
_MEDAGENT = "archqa.tasks.medagentbench.agents"

AGENT_CLASSES: dict[str, tuple[str, ...]] = {
    "context": ("archqa.agents.context:MedicalContextAgent",),
    "general_expert": (
        "archqa.agents.general_expert:GeneralExpertAgent",
        "archqa.agents.general_expert:GeneralExpertBatchAgent",
        "archqa.agents.voting:GeneralVotingAgent",
    ),
    "recruiting": ("archqa.agents.recruiting:RecruitingAgent",),
    "specialist": (
        "archqa.agents.specialist:SpecialistAgent",
        "archqa.agents.voting:SpecialistVotingAgent",
    ),
    "decision": (
        "archqa.agents.decision:DecisionAgent",
        "archqa.agents.evidence_writing:EvidenceDecisionAgent",
    ),
    "answer": ("archqa.agents.answer:CompressionAgent", "archqa.agents.answer:SummaryAgent"),
    "answer_first": ("archqa.agents.answer_first:AnswerFirstAgent",),
    "verification": ("archqa.agents.verification:VerificationAgent",),
    "question_interpretation": (
        "archqa.agents.question_interpretation:QuestionInterpretationAgent",
    ),
    "alignment": ("archqa.agents.alignment:AlignmentAgent",),
    "note_answer": ("archqa.agents.note_answer:NoteAnswerAgent",),
    "note_answer_check": ("archqa.agents.note_answer_check:NoteAnswerCheckAgent",),
    "chart_answer": ("archqa.agents.chart_answer:ChartAnswerAgent",),
    "chart_answer_check": ("archqa.agents.chart_answer_check:ChartAnswerCheckAgent",),
    "follow_up": ("archqa.agents.follow_up:FollowUpAgent",),
    "brief_writing": ("archqa.agents.brief_writing:BriefWritingAgent",),
    "brief_check": ("archqa.agents.brief_check:BriefCheckAgent",),
    "planner": ("archqa.agents.planner:PlannerAgent",),
    "fhir_request": (f"{_FHIR}:FhirRequestAgent",),
    "fhir_retriever": (f"{_FHIR}:FhirRetrieverAgent",),
    "fhir_retriever_code": (f"{_FHIR}:FhirRetrieverCodeAgent",),
    "fhir_multi_turn": (f"{_FHIR}:FhirMultiTurnAgent",),
    "fhir_multi_turn_code": (
        f"{_FHIR}:FhirMultiTurnCodeAgent",
        f"{_FHIR}:RecordCodeAgent",
    ),
    "clinical_paper": (f"{_MEDAGENT}:MedAgentPaperAgent",),
    "clinical_typed": (f"{_MEDAGENT}:MedAgentTypedAgent",),
}

AGENT_NAMES = tuple(AGENT_CLASSES)


def load_agents(name: str) -> tuple["type[Agent[Any, Any]]", ...]:
    """The classes of an agent's name. Raises `KeyError` for an unknown name."""
    return tuple(_load(path) for path in AGENT_CLASSES[name])


def _load(path: str) -> Any:
    module, _, class_name = path.partition(":")
    return getattr(import_module(module), class_name)
