"""Baselines for any agent: declining every question, and retrieving everything a patient has."""

import asyncio

from archqa.agents.agent import RunContext
from archqa.core.question import RecordQuestion
from archqa.fhir import FhirError, Record
from archqa.tasks.fhir_agentbench.result import Ids, RecordResult
from archqa.tasks.fhir_agentbench.retrieval_tools import RESOURCE_TYPES
from archqa.tasks.pipeline import PipelineResult, PipelineSettings

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
    every Location and Medication, and all patients.
    """
    ids = await asyncio.to_thread(_all_ids, context.store, question.patient_fhir_id)
    return PipelineResult(result=RecordResult(answer=DECLINED, retrieved=ids))


def _all_ids(record: Record, patient: str) -> Ids:
    ids_by_type: Ids = {}
    for resource_type in RESOURCE_TYPES:
        ids = _search_ids(record, resource_type, patient)
        if ids:
            ids_by_type[resource_type] = ids
    return ids_by_type


def _search_ids(record: Record, resource_type: str, patient: str) -> tuple[str, ...]:
    """The ids of one type; none for a type that the server does not have."""
    try:
        resources = record.search_all(resource_type, {"patient": patient})
        return tuple(str(resource.get("id", "")) for resource in resources)
    except FhirError:
        return ()
