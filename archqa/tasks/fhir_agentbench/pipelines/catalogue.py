"""The pipelines for questions about a FHIR record."""

from typing import Any, Literal

from archqa.agents.agent import Agent
from archqa.agents.planner import PlannerAgent
from archqa.tasks.fhir_agentbench import baselines
from archqa.tasks.fhir_agentbench.agents import (
    FhirMultiTurnAgent,
    FhirMultiTurnCodeAgent,
    FhirRequestAgent,
    FhirRetrieverAgent,
    FhirRetrieverCodeAgent,
    RecordCodeAgent,
)
from archqa.tasks.fhir_agentbench.pipelines import published_agents
from archqa.tasks.fhir_agentbench.pipelines.typed_query import typed_query
from archqa.tasks.fhir_agentbench.settings import PIPELINE_SETTINGS, TypedQuerySettings
from archqa.tasks.pipeline import Pipeline, PipelineFunction, PipelineSettings

GCP = "gcp"
"""The FHIR profile of the benchmark's server (Google Cloud Healthcare)."""


def _agent(
    name: str, summary: str, run: PipelineFunction, agent: type[FhirRequestAgent]
) -> Pipeline:
    return Pipeline(
        name=name,
        summary=summary,
        backend="model",
        run=run,
        prompts=(agent.prompt,),
        agents=(agent.name,),
        settings_type=PIPELINE_SETTINGS[name],
        fhir_profile=GCP,
        reads_notes=False,
    )


def _typed(
    name: str,
    summary: str,
    backend: Literal["model", "embedded"],
    agents: tuple[type[Agent[Any, Any]], ...],
) -> Pipeline:
    return Pipeline(
        name=name,
        summary=summary,
        backend=backend,
        run=typed_query,
        prompts=tuple(agent.prompt for agent in agents),
        agents=tuple(agent.name for agent in agents),
        settings_type=TypedQuerySettings,
        reads_notes=False,
    )


RECORD_PIPELINES = (
    _typed(
        "planner",
        "a model writes a typed query, the executor computes the answer",
        "model",
        (PlannerAgent, RecordCodeAgent),
    ),
    _typed(
        "embedded",
        "the parser inside archqa writes the typed query",
        "embedded",
        (PlannerAgent,),
    ),
    _agent(
        "single-turn-request",
        "FHIR-AgentBench's single_turn_request: the model writes searches, once",
        published_agents.single_turn_request,
        FhirRequestAgent,
    ),
    _agent(
        "single-turn-retriever",
        "FHIR-AgentBench's single_turn_resource: whole types, once",
        published_agents.single_turn_retriever,
        FhirRetrieverAgent,
    ),
    _agent(
        "single-turn-retriever-code",
        "FHIR-AgentBench's single_turn_code_resource: whole types, once, and code over them",
        published_agents.single_turn_retriever_code,
        FhirRetrieverCodeAgent,
    ),
    _agent(
        "multi-turn-retriever",
        "FHIR-AgentBench's multi_turn_resource: retrieves and reads in turns",
        published_agents.multi_turn_retriever,
        FhirMultiTurnAgent,
    ),
    _agent(
        "multi-turn-retriever-code",
        "FHIR-AgentBench's multi_turn_code_resource: retrieves and computes in turns",
        published_agents.multi_turn_retriever_code,
        FhirMultiTurnCodeAgent,
    ),
    Pipeline(
        "no-answer",
        "a baseline: retrieves nothing, declines all",
        "embedded",
        baselines.no_answer,
        (),
        (),
        PipelineSettings,
        needs_record=False,
        reads_notes=False,
    ),
    Pipeline(
        "retrieve-all",
        "a baseline: retrieves all ten types of the patient",
        "embedded",
        baselines.retrieve_all,
        (),
        (),
        PipelineSettings,
        fhir_profile=GCP,
        reads_notes=False,
    ),
)
"""The first pipeline with a model is the default with a model; likewise without."""
