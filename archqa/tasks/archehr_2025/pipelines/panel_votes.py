"""The panel's votes: every judge that was set up, each with the whole note in view, side by side.

A voter that fails, or whose server is down, costs its vote and nothing else; what was lost is remarked.
"""

from collections import defaultdict
from collections.abc import Awaitable, Callable, Iterable
from typing import NamedTuple

from archqa.agents.agent import Backend
from archqa.agents.answer_first import AnswerFirstAgent, AnswerFirstTask
from archqa.agents.engine_backend import EngineBackend
from archqa.agents.exemplars import Exemplar
from archqa.agents.general_expert import BatchLabellingTask, GeneralExpertBatchAgent
from archqa.agents.recruiting import RecruitingAgent, RecruitingTask
from archqa.agents.voting import GeneralVotingAgent, SpecialistVotingAgent, VotingAgent, VotingTask
from archqa.core.case import Case
from archqa.core.judgement import Judgement
from archqa.core.probability import pool, stated_probability
from archqa.errors import (
    ArchqaError,
    CaseFailed,
    ContextTooLong,
    ServerUnavailable,
    Truncated,
    Unusable,
)
from archqa.panel.decision import (
    ANSWER_FIRST,
    ENGINE,
    GENERAL_EXPERT,
    SPECIALIST,
    is_enabled_voter,
    voter_name,
)
from archqa.tasks.archehr_2025.pipelines.shared import CaseState
from archqa.tasks.archehr_2025.settings import NotePanelSettings
from archqa.tasks.pipeline import in_parallel

Judgements = tuple[Judgement, ...]

_Ballot = Callable[[int], Awaitable[Judgements]]
"""One voter asked for the n-th time."""


class PanelVotes(NamedTuple):
    """Judgements by the name they are kept under, and the specialties called in."""

    judgements: dict[str, Judgements]
    experts: tuple[str, ...] = ()


class _Room(NamedTuple):
    """What every voter of a case sees, and what was lost on the way."""

    work: CaseState[NotePanelSettings]
    context: str
    exemplars: tuple[Exemplar, ...]
    lost: list[ArchqaError]

    def wants(self, role: str, mind: str) -> bool:
        """Whether the settings let this voter vote."""
        return is_enabled_voter(voter_name(role, mind), self.work.settings)


async def collect_votes(work: CaseState[NotePanelSettings], context: str) -> PanelVotes:
    """Everyone's votes. Raises what the last of them failed for when no voter but the embedded engine is left."""
    shown = (
        work.desk.exemplars.nearest(work.case, work.settings.shots) if work.desk.exemplars else ()
    )
    room = _Room(work, context, shown, [])
    *models, engine = await in_parallel(
        _general(room), _specialists(room), _answers_first(room), _engine(room)
    )
    judgements = {
        name: given for each in models for name, given in each.judgements.items() if given
    }
    if not judgements and room.lost:
        raise room.lost[-1]
    everyone = judgements | engine.judgements
    if not everyone:
        raise Unusable("Nobody of the panel could judge the note; see the trace.")
    return PanelVotes(everyone, tuple(name for each in models for name in each.experts))


async def _general(room: _Room) -> PanelVotes:
    minds = room.work.desk.voters("general_expert").items()
    voters = {
        voter_name(GENERAL_EXPERT, label): mind
        for label, mind in minds
        if room.wants(GENERAL_EXPERT, label)
    }
    return PanelVotes(
        await _each(
            {name: _judge(room, GeneralVotingAgent(), mind) for name, mind in voters.items()}, room
        )
    )


async def _specialists(room: _Room) -> PanelVotes:
    minds = {
        label: mind
        for label, mind in room.work.desk.voters("specialist").items()
        if room.wants(SPECIALIST, label)
    }
    experts = await _recruited(room) if minds and room.work.settings.experts else ()
    ballots = {
        voter_name(each, label): _judge(room, SpecialistVotingAgent(), mind, each)
        for each in experts
        for label, mind in minds.items()
    }
    return PanelVotes(await _each(ballots, room), experts)


async def _recruited(room: _Room) -> tuple[str, ...]:
    work = room.work
    task = RecruitingTask(case=work.case, context=room.context, most=work.settings.most_experts)
    try:
        return (await RecruitingAgent().run(task, work.desk)).experts
    except (CaseFailed, ServerUnavailable) as failure:
        work.add_remark("no specialists: recruiting failed", failure)
        return ()


async def _answers_first(room: _Room) -> PanelVotes:
    minds = room.work.desk.voters("answer_first").items()
    voters = {
        voter_name(ANSWER_FIRST, label): mind
        for label, mind in minds
        if room.wants(ANSWER_FIRST, label)
    }
    return PanelVotes(
        await _each({name: _drafts(room, mind) for name, mind in voters.items()}, room)
    )


async def _engine(room: _Room) -> PanelVotes:
    """The embedded engine's vote; it is no model's, so its loss is nobody's."""
    work = room.work
    if not (work.settings.engine_vote and is_enabled_voter(ENGINE, work.settings)):
        return PanelVotes({})
    task = BatchLabellingTask(
        case=work.case, labels=work.settings.labels, sentences=work.case.sentences
    )
    found = await EngineBackend().run(GeneralExpertBatchAgent(), task, work.desk)
    return PanelVotes({ENGINE: found.judgements()})


def _judge(room: _Room, agent: VotingAgent, mind: Backend, specialty: str = "") -> _Ballot:
    async def ballot(repetition: int) -> Judgements:
        settings = room.work.settings
        task = VotingTask(
            case=room.work.case,
            context=room.context,
            labels=settings.labels,
            specialty=specialty,
            exemplars=room.exemplars,
            repetition=repetition,
        )
        return await _voted(room, agent, mind, task)

    return ballot


async def _voted(room: _Room, agent: VotingAgent, mind: Backend, task: VotingTask) -> Judgements:
    """The votes on a note; one that is too long for one call is judged half by half."""
    try:
        return (await mind.run(agent, task, room.work.desk)).judgements()
    except (ContextTooLong, Truncated):
        if len(task.case.sentences) < 2:
            raise
        halves = (task.model_copy(update={"case": half}) for half in _halves(task.case))
        votes = [await _voted(room, agent, mind, half) for half in halves]
        return tuple(each for given in votes for each in given)


def _drafts(room: _Room, mind: Backend) -> _Ballot:
    async def ballot(repetition: int) -> Judgements:
        work = room.work
        task = AnswerFirstTask(
            case=work.case,
            context=room.context,
            answers=work.settings.answers,
            word_limit=work.settings.word_limit,
            exemplars=room.exemplars,
            repetition=repetition,
        )
        return (await mind.run(AnswerFirstAgent(), task, work.desk)).judgements(
            work.case.sentence_ids
        )

    return ballot


async def _each(ballots: dict[str, _Ballot], room: _Room) -> dict[str, Judgements]:
    """Every voter's vote, its repetitions pooled; empty where all of them failed."""
    times = range(room.work.settings.repetitions)
    asked = [(name, ballot, again) for name, ballot in ballots.items() for again in times]
    found = await in_parallel(*(_cast(name, ballot, again, room) for name, ballot, again in asked))
    looks: dict[str, list[Judgements]] = defaultdict(list)
    for (name, _, _), given in zip(asked, found, strict=True):
        looks[name].append(given)
    return {name: _together(given) for name, given in looks.items()}


async def _cast(name: str, ballot: _Ballot, repetition: int, room: _Room) -> Judgements:
    try:
        return await ballot(repetition)
    except (CaseFailed, ServerUnavailable) as failure:
        room.lost.append(failure)
        room.work.add_remark(f"the vote of {name} is lost", failure)
        return ()


def _together(looks: Iterable[Judgements]) -> Judgements:
    """The looks of one voter as one: label and reason of the first, the probabilities pooled."""
    by_id: dict[str, list[Judgement]] = defaultdict(list)
    for given in looks:
        for each in given:
            by_id[each.sentence_id].append(each)
    return tuple(
        some[0].model_copy(
            update={"probability": pool([stated_probability(each) for each in some])}
        )
        for some in by_id.values()
    )


def _halves(case: Case) -> tuple[Case, Case]:
    middle = len(case.sentences) // 2
    first, second = (
        case.model_copy(update={"sentences": part})
        for part in (case.sentences[:middle], case.sentences[middle:])
    )
    return first, second
