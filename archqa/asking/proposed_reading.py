"""Answers from the resources of a record where a model is set up.

The grammar proposes a reading with its result. The model confirms it, has the planner write other
queries, declines a judgement, or says that no query expresses the question.
"""

import asyncio
from textwrap import shorten

from archqa.agents.reading_check import (
    ReadingCheckAgent,
    ReadingTask,
)
from archqa.asking.answer import Answer, AnsweredBy, Status
from archqa.asking.question import ModelBackends, Question, StepLog
from archqa.asking.record import (
    GrammarReading,
    PatientQueries,
    declined_with_facts,
    read_by_grammar,
    without_context,
)
from archqa.asking.record_model import answer_by_model, record_pipeline
from archqa.core.step import Step
from archqa.errors import CallerError, CaseFailed, ModelError
from archqa.settings import Settings
from archqa.tasks.fhir_agentbench.settings import ReadingCheckSettings
from archqa.tasks.pipeline import agents_of_questions

_MAX_READING = 420
_MAX_RESULT = 260
_MAX_REMARKS = 120
"""Characters of a prompt: with these it stays within 600 tokens beyond the question."""

_MAX_LINES = 4


READING_CHECK = agents_of_questions(
    "reading-check",
    "asking a record: a model confirms how the grammar read the question",
    ReadingCheckAgent,
    settings_type=ReadingCheckSettings,
)


def uses_proposals(settings: Settings) -> bool:
    """Whether a model can see what the grammar reads: it runs the pipeline of questions to a record."""
    is_by_model = record_pipeline(settings).backend == "model"
    return settings.prefers_model_pipeline and is_by_model


def grammar_use(settings: Settings) -> str:
    """What becomes of the grammar's reading: `first`, `propose` or `off`."""
    options = settings.for_pipeline(READING_CHECK)
    assert isinstance(options, ReadingCheckSettings)
    return options.grammar if uses_proposals(settings) else "first"


def check_grammar_setting(settings: Settings) -> None:
    """Raise `CallerError` for a typed `grammar` where no model reads, so that it has no effect."""
    typed = {"grammar", f"pipelines.{READING_CHECK.name}.grammar"}
    if not typed.isdisjoint(settings.typed_names) and not uses_proposals(settings):
        raise CallerError(
            "The setting grammar has no effect: no model reads the question.\n"
            "Name a model with --model or --base-url, or leave the setting out."
        )


async def answer_with_model(
    question: Question, queries: PatientQueries, models: ModelBackends
) -> Answer:
    """Return the grammar's answer as far as the settings let it answer, else that of a model.

    Raises as `answer_by_model`. A failure of the model that only confirms is a remark, unless
    `fallback` is off, or its server fails at one of many questions.
    """
    use = grammar_use(question.settings)
    steps = StepLog(question.options.on_step)
    if use == "off":
        return await answer_by_model(question, queries, models, steps)
    reading = await asyncio.to_thread(read_by_grammar, question.text, queries)
    answer = reading.answer
    parsed = {"status": answer.status.value, "query": answer.query}
    step = Step(agent="record_query", backend="embedded", parsed=parsed)
    question.options.on_step(step)
    if answer.status is Status.NOT_UNDERSTOOD or answer.ground == "language":
        return await answer_by_model(question, queries, models, steps)
    if use == "first":
        return without_context(answer, question.options.context)
    return await checked_answer(question, reading, queries, models, steps)


async def checked_answer(
    question: Question,
    reading: GrammarReading,
    queries: PatientQueries,
    models: ModelBackends,
    steps: StepLog,
) -> Answer:
    """Return the answer of a reading that a model confirms, or what the model has in its place."""
    backends = models.open(READING_CHECK)
    answer = reading.answer
    task = _task(question, reading, queries)
    try:
        verdict = await ReadingCheckAgent().run(task, backends.context(steps))
    except (CaseFailed, ModelError) as failure:
        options = question.settings.for_pipeline(record_pipeline(question.settings))
        # Of many questions, those that were not asked are asked again later.
        is_of_many = question.options.limits is not None
        if not getattr(options, "fallback", True) or (
            is_of_many and isinstance(failure, ModelError)
        ):
            raise
        remark = f"No model confirmed how the question was read: {str(failure).splitlines()[0]}"
        answer = without_context(answer, question.options.context)
        remarks = (*answer.remarks, remark, *backends.remarks)
        return answer.model_copy(update={"remarks": remarks, "usage": steps.usage})
    # That a judgement is declined, the model may confirm in two ways.
    agrees = answer.status is Status.DECLINED and verdict.verdict == "judgement"
    if agrees or verdict.verdict == "confirmed":
        answered_by = AnsweredBy(confirmed_by=backends.answered_by)
        answer = steps.answer_of(backends, answer)
        return answer.model_copy(update={"answered_by": answered_by})
    if verdict.verdict == "judgement":
        answer = await asyncio.to_thread(
            declined_with_facts,
            question.text,
            verdict.judgement,
            reading.queries,
            queries,
        )
        return steps.answer_of(backends, answer)
    reason = verdict.reason if verdict.verdict == "not_expressible" else ""
    return await answer_by_model(question, queries, models, steps, reason)


def _task(
    question: Question, reading: GrammarReading, queries: PatientQueries
) -> ReadingTask:
    answer = reading.answer
    words = answer.query or ""
    result = "\n".join(answer.text.splitlines()[:_MAX_LINES])
    if answer.status is Status.DECLINED:
        words = "none: the question was taken for a judgement"
        result = answer.reason
    return ReadingTask(
        question=question.text,
        context=question.options.context,
        now=f"{queries.now:%Y-%m-%d %H:%M}",
        reading=_shortened(words, _MAX_READING),
        status=answer.status.value,
        result=_shortened(result, _MAX_RESULT),
        remarks=_shortened(" ".join(reading.remarks), _MAX_REMARKS),
    )


def _shortened(text: str, characters: int) -> str:
    return shorten(text, characters, placeholder=" …")
