"""What pipelines over notes share: a case under way, its medical context, and the answer in the form asked for."""

from typing import Generic, NamedTuple, TypeVar

from archqa.agents.agent import CaseTask, RunContext
from archqa.agents.answer import (
    CompressionAgent,
    CompressionTask,
    SummaryAgent,
    SummaryTask,
    concatenate_question_and_evidence,
)
from archqa.agents.context import MedicalContextAgent
from archqa.agents.engine_backend import EngineBackend
from archqa.core.answer import CitedAnswer
from archqa.core.case import Case
from archqa.errors import ArchqaError, CaseFailed
from archqa.tasks.archehr_2025.settings import StageSettings

SettingsType_co = TypeVar("SettingsType_co", bound=StageSettings, covariant=True)


class CaseState(NamedTuple, Generic[SettingsType_co]):
    """One case under way."""

    case: Case
    desk: RunContext
    settings: SettingsType_co
    remarks: list[str]

    def add_remark(self, what: str, failure: ArchqaError) -> None:
        """Keep in mind what failed, and why in a word."""
        self.remarks.append(f"{what} ({type(failure).__name__})")


async def medical_context(work: CaseState[StageSettings]) -> str:
    """The context K; empty, and remarked, where the agent fails."""
    try:
        return (await MedicalContextAgent().run(CaseTask(case=work.case), work.desk)).context
    except CaseFailed as failure:
        work.add_remark("no medical context: the agent failed", failure)
        return ""


async def format_answer(
    work: CaseState[StageSettings], context: str, draft: CitedAnswer, essential: tuple[str, ...]
) -> CitedAnswer:
    """The answer in the form the settings ask for."""
    limit = work.settings.word_limit
    if work.settings.strategy == "evidence":
        return concatenate_question_and_evidence(work.case, frozenset(essential))
    if work.settings.strategy == "summary":
        task = SummaryTask(case=work.case, context=context, essential=essential, word_limit=limit)
        return (await SummaryAgent().run(task, work.desk)).as_answer()
    return draft if draft.words <= limit else await _compressed(work, context, draft)


async def _compressed(
    work: CaseState[StageSettings], context: str, draft: CitedAnswer
) -> CitedAnswer:
    """A shorter answer with the same citations; in the note's own words when the agent cannot do it."""
    task = CompressionTask(
        case=work.case, context=context, draft=draft, word_limit=work.settings.word_limit
    )
    try:
        return (await CompressionAgent().run(task, work.desk)).as_answer()
    except CaseFailed as failure:
        work.add_remark(
            "the answer is extracted from the note: the agent could not shorten its own", failure
        )
        return (await EngineBackend().run(CompressionAgent(), task, work.desk)).as_answer()
