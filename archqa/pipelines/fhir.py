"""The pipelines for questions about a FHIR record (the task `fhir-agentbench`)."""

from typing import Literal

from archqa.agents.fhir_conversation import (
    FhirMultiTurn,
    FhirMultiTurnCode,
    FhirRequest,
    FhirRetriever,
    FhirRetrieverCode,
)
from archqa.agents.planner import Planner
from archqa.pipelines import fhir_agents, fhir_baselines
from archqa.pipelines.base import Pipeline, Run
from archqa.pipelines.fhir_query import typed_query

TASKS = ("fhir-agentbench",)

GCP = "gcp"
"""The ways of the benchmark's server, which its agents are compared on."""


def _agent(name: str, summary: str, run: Run, agent: type[FhirRequest]) -> Pipeline:
    return Pipeline(name, summary, "model", run, (agent.prompt,), (agent.name,), TASKS, GCP)


def _typed(name: str, summary: str, mind: Literal["model", "embedded"]) -> Pipeline:
    return Pipeline(name, summary, mind, typed_query, (Planner.prompt,), (Planner.name,), TASKS)


RECORD_PIPELINES = (
    _typed("planner", "a model writes a typed query, the executor computes the answer", "model"),
    _typed("embedded", "the parser inside archqa writes the typed query", "embedded"),
    _agent(
        "single-turn-request",
        "FHIR-AgentBench's single_turn_request: searches of its own making, once",
        fhir_agents.single_turn_request,
        FhirRequest,
    ),
    _agent(
        "single-turn-retriever",
        "FHIR-AgentBench's single_turn_resource: whole types, once",
        fhir_agents.single_turn_retriever,
        FhirRetriever,
    ),
    _agent(
        "single-turn-retriever-code",
        "FHIR-AgentBench's single_turn_code_resource: whole types, once, and code over them",
        fhir_agents.single_turn_retriever_code,
        FhirRetrieverCode,
    ),
    _agent(
        "multi-turn-retriever",
        "FHIR-AgentBench's multi_turn_resource: retrieves and reads in turns",
        fhir_agents.multi_turn_retriever,
        FhirMultiTurn,
    ),
    _agent(
        "multi-turn-retriever-code",
        "FHIR-AgentBench's multi_turn_code_resource: retrieves and computes in turns",
        fhir_agents.multi_turn_retriever_code,
        FhirMultiTurnCode,
    ),
    Pipeline(
        "no-answer",
        "a baseline: retrieves nothing, declines all",
        "embedded",
        fhir_baselines.no_answer,
        (),
        (),
        TASKS,
        needs_record=False,
    ),
    Pipeline(
        "retrieve-all",
        "a baseline: retrieves all ten types of the patient",
        "embedded",
        fhir_baselines.retrieve_all,
        (),
        (),
        TASKS,
        GCP,
    ),
)
"""Each task's first one with a model is what a model performs unless told otherwise; likewise without."""
