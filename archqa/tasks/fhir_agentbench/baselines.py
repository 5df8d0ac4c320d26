"""What any agent must beat: declining every question, and retrieving everything a patient has."""

import asyncio

from archqa.agents.agent import RunContext
from archqa.core.question import RecordQuestion
from archqa.fhir import FhirError, Record
from archqa.tasks.fhir_agentbench.result import Ids, RecordResult
from archqa.tasks.fhir_agentbench.retrieval_tools import RESOURCE_TYPES
from archqa.tasks.pipeline import PipelineResult, PipelineSettings

DECLINED = "no answer"


async def no_answer(
    _question: RecordQuestion, _desk: RunContext, _settings: PipelineSettings
) -> PipelineResult:
    """Retrieves nothing and declines."""
    return PipelineResult(result=RecordResult(answer=DECLINED))


async def retrieve_all(
    question: RecordQuestion, desk: RunContext, _settings: PipelineSettings
) -> PipelineResult:
    """The benchmark's `get_all_resources_by_patient_fhir_id`: its ten types, searched by patient; no answer.

    On the benchmark's server, which ignores `patient` where a type has no such parameter, Patient, Location and
    Medication come whole.
    """
    ids = await asyncio.to_thread(_everything, desk.store, question.patient_fhir_id)
    return PipelineResult(result=RecordResult(answer=DECLINED, retrieved=ids))


def _everything(record: Record, patient: str) -> Ids:
    return {kind: ids for kind in RESOURCE_TYPES if (ids := _ids(record, kind, patient))}


def _ids(record: Record, kind: str, patient: str) -> tuple[str, ...]:
    """A type the server does not have gives nothing."""
    try:
        return tuple(
            str(each.get("id", "")) for each in record.search_all(kind, {"patient": patient})
        )
    except FhirError:
        return ()
