"""Questions that no typed query expresses: an agent answers them with code, citing what it read."""

import asyncio
import re
from datetime import datetime

from archqa.agents import sandbox
from archqa.agents.agent import RunContext
from archqa.core.question import RecordQuestion
from archqa.errors import CaseFailed, Unusable
from archqa.fhir import Record
from archqa.tasks.fhir_agentbench.agents import RecordCodeAgent, TypeCount
from archqa.tasks.fhir_agentbench.later_resources import (
    GetEarlierReferredResources,
    GetEarlierResourcesOfThisPatient,
    LaterResources,
)
from archqa.tasks.fhir_agentbench.pipelines.published_agents import (
    FINAL_PHRASE,
    NO_FINAL_ANSWER,
    answer_by_code,
)
from archqa.tasks.fhir_agentbench.result import Ids, RecordResult
from archqa.tasks.fhir_agentbench.settings import MultiTurnCodeSettings

SETTINGS = MultiTurnCodeSettings(official=False, iterations=12, context_limit=100_000)
"""Without the benchmark's quirks; 12 turns of at most 20,000 characters fit 100,000 tokens."""

_RESOURCES_LINE = re.compile(r"^\s*\**resources?\**\s*:", re.IGNORECASE | re.MULTILINE)
_MAX_CITED = 12


async def hand_over(
    question: RecordQuestion, context: RunContext, reason: str, *, end: datetime | None = None
) -> RecordResult:
    """The answer of the code agent to a question that no query expresses, for the planner's reason.

    What is dated at or after `end`, the time of the question, is left out with a warning.
    Its citations are resources that it read; no query verified them. Raises `Unusable` with the
    reason in its details where no agent can run code, or none comes to an answer; `ModelError`.
    """
    if RecordCodeAgent.name not in context.backends or not sandbox.is_installed():
        raise _not_expressible(reason)
    patient = question.patient_fhir_id
    counts = await asyncio.to_thread(_type_counts, context.store, patient)
    later = LaterResources(end)
    retrieval = (
        GetEarlierResourcesOfThisPatient(patient, later),
        GetEarlierReferredResources(patient, later),
    )
    try:
        outcome = await answer_by_code(
            RecordCodeAgent(),
            question,
            context,
            SETTINGS,
            retrieval,
            type_counts=counts,
            leaves_out_later_rows=end is not None,
        )
    except CaseFailed:
        raise _not_expressible(reason) from None
    assert isinstance(outcome.result, RecordResult)
    result = outcome.result
    text = final_text(result.answer or "")
    if not text:
        raise _not_expressible(reason)
    cited = _first(result.cited)
    changes = {"answer": text, "cited": cited, "handed_over": reason, "warnings": later.warnings}
    return result.model_copy(update=changes)


def final_text(message: str) -> str:
    """The sentences after the final phrase, without the line of resources; empty without any."""
    if message == NO_FINAL_ANSWER:
        return ""
    start = message.lower().rfind(FINAL_PHRASE)
    if start < 0:
        return ""
    answer = message[start + len(FINAL_PHRASE) :]
    return " ".join(_RESOURCES_LINE.split(answer)[0].split()).strip("* ")


def _first(cited: Ids) -> Ids:
    """The first citations: more of them no reader checks."""
    references = [(kind, each) for kind, ids in cited.items() for each in ids][:_MAX_CITED]
    first: Ids = {}
    for kind, resource_id in references:
        first[kind] = (*first.get(kind, ()), resource_id)
    return first


def _type_counts(record: Record, patient: str) -> tuple[TypeCount, ...]:
    counts = record.counts(patient)
    return tuple(TypeCount(type=name, count=count) for name, count in counts.items() if count)


def _not_expressible(reason: str) -> Unusable:
    message = "The question cannot be written as a query"
    return Unusable(f"{message}, and no agent answered it with code.", f"{message}: {reason}")
