"""Pipelines of ArchEHR-QA 2026 for subtasks 1 (what is asked) and 4 (what an answer rests on).

Subtasks 2 and 3 are done by the pipelines of 2025: every pipeline over notes selects evidence and
writes an answer.
"""

from collections import Counter
from typing import Any

from archqa.agents.agent import Agent, RunContext
from archqa.agents.alignment import AlignmentAgent, AlignmentTask
from archqa.agents.engine_backend import EngineBackend
from archqa.agents.question_interpretation import (
    QuestionInterpretationAgent,
    QuestionInterpretationTask,
)
from archqa.core.case import Case
from archqa.errors import ArchqaError, CaseFailed, Refused, ServerUnavailable, Unusable
from archqa.tasks.archehr_2026.result import AnswerLinks, ArchehrResult
from archqa.tasks.archehr_2026.settings import AlignmentSettings
from archqa.tasks.lost_votes import all_declined, error_without_votes
from archqa.tasks.pipeline import (
    Pipeline,
    PipelineFunction,
    PipelineResult,
    PipelineSettings,
    in_parallel,
)

Pairs = frozenset[tuple[str, str]]


async def interpret(case: Case, context: RunContext, _: PipelineSettings) -> PipelineResult:
    """Subtask 1: the clinician's question behind a patient's message, from the message alone."""
    if not case.patient_narrative.strip():
        raise Unusable("The case has no message to interpret.")
    task = QuestionInterpretationTask.from_case(case)
    try:
        output = await QuestionInterpretationAgent().run(task, context)
    except Refused as refusal:
        raise error_without_votes([refusal]) from None
    return PipelineResult(result=ArchehrResult(question=output.question))


async def align(case: Case, context: RunContext, settings: AlignmentSettings) -> PipelineResult:
    """Subtask 4: the links that at least half of the voters make.

    An answer sentence without any gets its most frequent links.
    """
    if not case.answer_sentences:
        raise Unusable(
            "The case has no answer to link.\nName a key that holds the answers with --key FILE."
        )
    if not case.sentences:
        raise Unusable("The note has no sentences, so nothing can be linked.")
    failures: list[tuple[str, ArchqaError]] = []
    labels = list(context.voters(AlignmentAgent.name))
    results = await in_parallel(*(_vote(case, context, label, failures) for label in labels))
    votes = [pairs for pairs in results if pairs is not None]
    remarks = []
    for label, failure in failures:
        remarks.append(f"the vote of {label} is lost ({type(failure).__name__})")
    if not votes:
        errors = [failure for _, failure in failures]
        is_server_down = any(isinstance(error, ServerUnavailable) for error in errors)
        if is_server_down or all_declined(errors) or not settings.fallback:
            raise error_without_votes(errors)
        votes = [await _engine_vote(case, context)]
        remarks.append("the embedded engine links the answer: no other voter could")
    links = _links(case, majority_links(votes))
    return PipelineResult(result=ArchehrResult(links=links), remarks=tuple(remarks))


def majority_links(votes: list[Pairs]) -> Pairs:
    """The links that half of the votes make; an answer sentence without any gets its most frequent."""
    counts: Counter[tuple[str, str]] = Counter()
    for pairs in votes:
        counts.update(pairs)
    max_counts: Counter[str] = Counter()
    for (answer_id, _), count in counts.items():
        max_counts[answer_id] = max(max_counts[answer_id], count)
    selected = {pair for pair, count in counts.items() if 2 * count >= len(votes)}
    linked = {answer_id for answer_id, _ in selected}
    for pair, count in counts.items():
        answer_id, _ = pair
        if answer_id not in linked and count == max_counts[answer_id]:
            selected.add(pair)
    return frozenset(selected)


async def _vote(
    case: Case, context: RunContext, label: str, failures: list[tuple[str, ArchqaError]]
) -> Pairs | None:
    backend = context.voters(AlignmentAgent.name)[label]
    try:
        output = await backend.run(AlignmentAgent(), AlignmentTask(case=case), context)
    except (CaseFailed, ServerUnavailable) as failure:
        failures.append((label, failure))
        return None
    return output.as_pairs()


async def _engine_vote(case: Case, context: RunContext) -> Pairs:
    output = await EngineBackend().run(AlignmentAgent(), AlignmentTask(case=case), context)
    return output.as_pairs()


def _links(case: Case, pairs: Pairs) -> tuple[AnswerLinks, ...]:
    links = []
    for answer in case.answer_sentences:
        evidence = {sentence_id for answer_id, sentence_id in pairs if answer_id == answer.id}
        links.append(AnswerLinks(answer_id=answer.id, evidence_id=case.in_note_order(evidence)))
    return tuple(links)


def _by_model_and_engine(
    agent: type[Agent[Any, Any]],
    run: PipelineFunction,
    settings_type: type[PipelineSettings],
    summary: str,
    multi_model_agents: tuple[str, ...] = (),
) -> tuple[Pipeline, Pipeline]:
    """The pipeline of one agent, by models and by the embedded engine."""
    by_model = Pipeline(
        name="panel",
        summary=f"{summary}, by a model",
        backend="model",
        run=run,
        prompts=(agent.prompt,),
        agents=(agent.name,),
        settings_type=settings_type,
        multi_model_agents=multi_model_agents,
    )
    by_engine = by_model._replace(
        name="embedded",
        backend="embedded",
        summary=f"{summary}, by the engine",
        multi_model_agents=(),
    )
    return by_model, by_engine


INTERPRETATION_PIPELINES = _by_model_and_engine(
    QuestionInterpretationAgent, interpret, PipelineSettings, "subtask 1: what is asked"
)

ALIGNMENT_PIPELINES = _by_model_and_engine(
    AlignmentAgent,
    align,
    AlignmentSettings,
    "subtask 4: what an answer rests on",
    multi_model_agents=(AlignmentAgent.name,),  # Links can be voted on, questions cannot.
)
