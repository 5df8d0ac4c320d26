"""The pipelines for questions about a FHIR record."""

import asyncio
from contextlib import suppress

from archqa.agents.agent import RunContext
from archqa.agents.planner import PlannerAgent
from archqa.core.question import RecordQuestion
from archqa.fhir import FhirError
from archqa.tasks.fhir_agentbench import published_agents
from archqa.tasks.fhir_agentbench.agents import (
    FhirMultiTurnAgent,
    FhirMultiTurnCodeAgent,
    FhirRequestAgent,
    FhirRetrieverAgent,
    FhirRetrieverCodeAgent,
    RecordCodeAgent,
)
from archqa.tasks.fhir_agentbench.settings import PIPELINE_SETTINGS, TypedQuerySettings
from archqa.tasks.fhir_agentbench.task import Ids, RecordResult
from archqa.tasks.fhir_agentbench.tools import RESOURCE_TYPES
from archqa.tasks.fhir_agentbench.typed_query import typed_query
from archqa.tasks.pipeline import (
    Pipeline,
    PipelineFunction,
    PipelineResult,
    PipelineSettings,
)

DECLINED = "no answer"


async def no_answer(
    _question: RecordQuestion, _context: RunContext, _settings: PipelineSettings
) -> PipelineResult:
    """Retrieve nothing and decline."""
    return PipelineResult(result=RecordResult(answer=DECLINED))


async def retrieve_all(
    question: RecordQuestion, context: RunContext, _settings: PipelineSettings
) -> PipelineResult:
    """The benchmark's `get_all_resources_by_patient_fhir_id`: its ten types, searched by patient.

    The benchmark's server ignores `patient` for types without such a parameter, so that it returns
    every Location and Medication, and all patients. It may not have a type.
    """

    def all_ids() -> Ids:
        ids: Ids = {}
        for resource_type in RESOURCE_TYPES:
            with suppress(FhirError):
                patient = {"patient": question.patient_fhir_id}
                resources = list(context.store.search_all(resource_type, patient))
                if resources:
                    ids[resource_type] = tuple(
                        str(each.get("id", "")) for each in resources
                    )
        return ids

    ids = await asyncio.to_thread(all_ids)
    return PipelineResult(result=RecordResult(answer=DECLINED, retrieved=ids))


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


PLANNER = Pipeline(
    name="planner",
    summary="a model writes a typed query, the executor computes the answer",
    backend="model",
    run=typed_query,
    prompts=(PlannerAgent.prompt, RecordCodeAgent.prompt),
    agents=(PlannerAgent.name, RecordCodeAgent.name),
    settings_type=TypedQuerySettings,
    reads_notes=False,
)
NO_ANSWER = Pipeline(
    name="no-answer",
    summary="a baseline: retrieves nothing, declines all",
    backend="embedded",
    run=no_answer,
    prompts=(),
    agents=(),
    settings_type=PipelineSettings,
    needs_record=False,
    reads_notes=False,
)

RECORD_PIPELINES = (
    PLANNER,
    PLANNER._replace(
        name="embedded",
        summary="the parser inside archqa writes the typed query",
        backend="embedded",
        prompts=(PlannerAgent.prompt,),
        agents=(PlannerAgent.name,),
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
    NO_ANSWER,
    NO_ANSWER._replace(
        name="retrieve-all",
        summary="a baseline: retrieves all ten types of the patient",
        run=retrieve_all,
        fhir_profile=GCP,
        needs_record=True,
    ),
)
"""The first pipeline with a model is the default with a model; likewise without."""
