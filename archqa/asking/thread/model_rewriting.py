"""A model says what a follow-up refers to, where the rules do not."""

from typing import NamedTuple

from archqa.agents.follow_up import AskedTurn, FollowUpAgent, FollowUpTask
from archqa.asking.question import AskOptions, ModelBackends, StepLog
from archqa.asking.thread import Thread
from archqa.core.usage import Usage
from archqa.tasks.pipeline import agents_of_questions

_TURNS_SHOWN = 3
_LINES_SHOWN = 10


class Rewriting(NamedTuple):
    """The standalone question (None if it is unclear), and what the calls have used."""

    question: str | None
    usage: Usage


FOLLOW_UP_MODEL = agents_of_questions(
    "follow-up-model",
    "asking in a thread: a follow-up question rewritten by a model to stand by itself",
    FollowUpAgent,
)


async def rewrite_by_model(
    question: str, thread: Thread, options: AskOptions
) -> Rewriting:
    """Return the question as a model understands it. Raises `CaseFailed` and `ModelError`."""
    models = ModelBackends(options)
    backends = models.open(FOLLOW_UP_MODEL)
    steps = StepLog(options.on_step)
    turns = []
    for turn in thread.turns[-_TURNS_SHOWN:]:
        lines = tuple(line.text for line in turn.lines[:_LINES_SHOWN])
        turns.append(
            AskedTurn(question=turn.understood, status=turn.status.value, lines=lines)
        )
    task = FollowUpTask(question=question, turns=tuple(turns))
    try:
        output = await FollowUpAgent().run(task, backends.context(steps))
    finally:
        await models.close()
    known = {"rewritten": " ".join(output.question.split()), "new_subject": question}
    return Rewriting(known.get(output.kind), steps.usage)
