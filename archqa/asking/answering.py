"""Answers a question from its note or from the chart of its patient."""

from archqa.asking.answer import AnsweredQuestion
from archqa.asking.question import ModelBackends, Question
from archqa.core.stopping import stopped_with_coroutine
from archqa.runs.event_loop import run_sync
from archqa.settings import Settings


def answer_question(question: Question) -> AnsweredQuestion:
    """Return the answer to a question that stands by itself. Raises as `archqa.ask`."""
    check_settings(question.settings, of_patient=question.patient is not None)

    async def answer_alone() -> AnsweredQuestion:
        models = ModelBackends(question.options)
        try:
            return await answer_with_models(question, models)
        finally:
            await models.close()

    return run_sync(answer_alone())


async def answer_with_models(
    question: Question, models: ModelBackends
) -> AnsweredQuestion:
    """Return the answer to a question, given the models that it shares with others.

    Cancelled, it also ends what it began in threads.
    """
    with stopped_with_coroutine():
        # What answers from a note and what answers from a chart import much that the other needs not.
        if question.patient is None:
            from archqa.asking.note import answer_from_note

            return await answer_from_note(question, models)
        from archqa.asking.chart import answer_from_chart

        return await answer_from_chart(question, models)


def check_settings(settings: Settings, *, of_patient: bool) -> None:
    """Raise `CallerError` for settings that have no effect on a question about a note, or a patient."""
    if not settings.typed_names:
        return
    if of_patient:
        from archqa.asking.chart import check_chart_settings

        check_chart_settings(settings)
    else:
        from archqa.asking.note import check_note_settings

        check_note_settings(settings)
