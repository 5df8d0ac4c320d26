"""Steps that the pipelines over notes share: the medical context and the final form of the answer."""

from typing import NamedTuple

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
from archqa.tasks.archehr_2025.settings import DmisSettings


class CaseState(NamedTuple):
    """One case in progress."""

    case: Case
    run_context: RunContext
    settings: DmisSettings
    remarks: list[str]

    def add_remark(self, remark: str, failure: ArchqaError) -> None:
        """Record a failure and its consequence for the run's report."""
        self.remarks.append(f"{remark} ({type(failure).__name__})")


async def medical_context(state: CaseState) -> str:
    """The context K; empty, with a remark, if the agent fails."""
    try:
        output = await MedicalContextAgent().run(CaseTask(case=state.case), state.run_context)
    except CaseFailed as failure:
        state.add_remark("no medical context: the agent failed", failure)
        return ""
    return output.context


async def format_answer(
    state: CaseState, context: str, draft: CitedAnswer, essential: tuple[str, ...]
) -> CitedAnswer:
    """The answer in the form that the setting `strategy` asks for."""
    limit = state.settings.word_limit
    if state.settings.strategy == "evidence":
        return concatenate_question_and_evidence(state.case, frozenset(essential))
    if state.settings.strategy == "summary":
        task = SummaryTask(case=state.case, context=context, essential=essential, word_limit=limit)
        summary = await SummaryAgent().run(task, state.run_context)
        return summary.as_answer()
    if draft.words <= limit:
        return draft
    return await _compress(state, context, draft)


async def _compress(state: CaseState, context: str, draft: CitedAnswer) -> CitedAnswer:
    """A shorter answer with the same citations; extracted from the note if the agent fails."""
    task = CompressionTask(
        case=state.case, context=context, draft=draft, word_limit=state.settings.word_limit
    )
    try:
        output = await CompressionAgent().run(task, state.run_context)
    except CaseFailed as failure:
        state.add_remark(
            "the answer is extracted from the note: the agent could not shorten its own", failure
        )
        output = await EngineBackend().run(CompressionAgent(), task, state.run_context)
    return output.as_answer()


def split_case(case: Case) -> tuple[Case, Case]:
    """The case with the first half of its sentences, and with the second."""
    middle = len(case.sentences) // 2
    first_half = case.model_copy(update={"sentences": case.sentences[:middle]})
    second_half = case.model_copy(update={"sentences": case.sentences[middle:]})
    return first_half, second_half
