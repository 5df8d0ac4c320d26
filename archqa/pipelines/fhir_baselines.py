"""What any agent must beat: declining every question, and retrieving everything a patient has."""

import asyncio

from archqa.agents.base import Desk
from archqa.core.question import RecordQuestion
from archqa.fhir import FhirError, Record
from archqa.pipelines.base import Ending, PipelineSettings
from archqa.pipelines.fhir_results import Ids, RecordResult
from archqa.tools import TYPES

DECLINED = "no answer"


async def no_answer(_question: RecordQuestion, _desk: Desk, _settings: PipelineSettings) -> Ending:
    """Retrieves nothing and declines."""
    return Ending(result=RecordResult(answer=DECLINED).as_record())


async def retrieve_all(question: RecordQuestion, desk: Desk, _settings: PipelineSettings) -> Ending:
    """The benchmark's `get_all_resources_by_patient_fhir_id`: its ten types, searched by patient; no answer.

    On the benchmark's server, which ignores `patient` where a type has no such parameter, Patient, Location and
    Medication come whole.
    """
    ids = await asyncio.to_thread(_everything, desk.store, question.patient_fhir_id)
    return Ending(result=RecordResult(answer=DECLINED, retrieved=ids).as_record())


def _everything(record: Record, patient: str) -> Ids:
    return {kind: ids for kind in TYPES if (ids := _ids(record, kind, patient))}


def _ids(record: Record, kind: str, patient: str) -> tuple[str, ...]:
    """A type the server does not have gives nothing."""
    try:
        return tuple(str(each.get("id", "")) for each in record.search_all(kind, {"patient": patient}))
    except FhirError:
        return ()
