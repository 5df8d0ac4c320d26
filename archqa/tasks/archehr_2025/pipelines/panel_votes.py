"""Collects the panel's votes: every voter judges the whole note, all of them concurrently.

A voter that fails, or whose server is down, loses its vote and nothing else; a remark says so.
"""

from collections import defaultdict
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import NamedTuple

from archqa.agents.agent import PromptingBackend
from archqa.agents.answer_first import AnswerFirstAgent, AnswerFirstTask
from archqa.agents.engine_backend import EngineBackend
from archqa.agents.exemplars import Exemplar
from archqa.agents.general_expert import BatchLabellingTask, GeneralExpertBatchAgent
from archqa.agents.recruiting import RecruitingAgent, RecruitingTask
from archqa.agents.voting import GeneralVotingAgent, SpecialistVotingAgent, VotingAgent, VotingTask
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
    is_named_voter,
    voter_name,
)
from archqa.tasks.archehr_2025.pipelines.shared import CaseState, split_case
from archqa.tasks.archehr_2025.settings import NotePanelSettings
from archqa.tasks.lost_votes import error_without_votes
from archqa.tasks.pipeline import in_parallel

Judgements = tuple[Judgement, ...]

Voter = Callable[[int], Awaitable[Judgements]]
"""Takes one voter's vote for the n-th time."""


class PanelVotes(NamedTuple):
    """Judgements by the name of their voter, and the recruited specialties."""

    judgements: dict[str, Judgements]
    experts: tuple[str, ...] = ()


class _Ballot(NamedTuple):
    """What all voters of a case share. `failures` collects why votes are lost."""

    state: CaseState[NotePanelSettings]
    context: str
    exemplars: tuple[Exemplar, ...]
    failures: list[ArchqaError]

    def voters(self, agent: str, role: str) -> dict[str, PromptingBackend]:
        """The backends of an agent that the setting `voters` enables in this role, by label."""
        backends = self.state.run_context.voters(agent)
        settings = self.state.settings
        enabled = {}
        for label, backend in backends.items():
            if is_enabled_voter(voter_name(role, label), settings):
                enabled[label] = backend
        return enabled


async def collect_votes(state: CaseState[NotePanelSettings], context: str) -> PanelVotes:
    """The votes of all voters.

    Raises `CaseFailed` or `ServerUnavailable` if no voter but the embedded engine is left.
    """
    ballot = _Ballot(state, context, _exemplars(state), [])
    *model_votes, engine_votes = await in_parallel(
        _general_votes(ballot),
        _specialist_votes(ballot),
        _answer_first_votes(ballot),
        _engine_vote(ballot),
    )
    judgements: dict[str, Judgements] = {}
    experts: list[str] = []
    for votes in model_votes:
        judgements.update(_without_empty(votes.judgements))
        experts.extend(votes.experts)
    if not judgements and ballot.failures:
        raise error_without_votes(ballot.failures)
    judgements.update(engine_votes.judgements)
    if not judgements:
        raise Unusable("Nobody of the panel could judge the note; see the trace.")
    return PanelVotes(judgements, tuple(experts))


def _exemplars(state: CaseState[NotePanelSettings]) -> tuple[Exemplar, ...]:
    index = state.run_context.exemplars
    if not index:
        return ()
    return index.nearest(state.case, state.settings.shots)


async def _general_votes(ballot: _Ballot) -> PanelVotes:
    voters = {}
    for label, backend in ballot.voters("general_expert", GENERAL_EXPERT).items():
        name = voter_name(GENERAL_EXPERT, label)
        voters[name] = _judge(ballot, GeneralVotingAgent(), backend)
    return PanelVotes(await _repeat_votes(voters, ballot, ballot.state.settings.repetitions))


async def _specialist_votes(ballot: _Ballot) -> PanelVotes:
    backends = ballot.voters("specialist", SPECIALIST)
    experts: tuple[str, ...] = ()
    if backends and ballot.state.settings.experts:
        experts = await _recruit(ballot)
    voters = {}
    for specialty in experts:
        for label, backend in backends.items():
            voter = _judge(ballot, SpecialistVotingAgent(), backend, specialty)
            voters[voter_name(specialty, label)] = voter
    votes = await _repeat_votes(voters, ballot, ballot.state.settings.repetitions)
    return PanelVotes(votes, experts)


async def _recruit(ballot: _Ballot) -> tuple[str, ...]:
    state = ballot.state
    task = RecruitingTask(
        case=state.case,
        context=ballot.context,
        most=state.settings.most_experts,
    )
    try:
        panel = await RecruitingAgent().run(task, state.run_context)
    except (CaseFailed, ServerUnavailable) as failure:
        ballot.failures.append(failure)
        state.add_remark("no specialists: recruiting failed", failure)
        return ()
    return panel.experts


async def _answer_first_votes(ballot: _Ballot) -> PanelVotes:
    """The votes of cited answers, if any are asked for, by number or by name."""
    state = ballot.state
    answers = state.settings.answers or int(is_named_voter(ANSWER_FIRST, state.settings))
    if not answers:
        if len(state.run_context.voters("answer_first")) > 1:
            state.remarks.append("agents.answer_first.models had no effect: answers is 0")
        return PanelVotes({})
    voters = {}
    for label, backend in ballot.voters("answer_first", ANSWER_FIRST).items():
        voters[voter_name(ANSWER_FIRST, label)] = _write_and_cite(ballot, backend)
    return PanelVotes(await _repeat_votes(voters, ballot, answers))


async def _engine_vote(ballot: _Ballot) -> PanelVotes:
    """The embedded engine's vote; it needs no model, so it cannot be lost."""
    state = ballot.state
    is_asked_for = state.settings.engine_vote or is_named_voter(ENGINE, state.settings)
    if not (is_asked_for and is_enabled_voter(ENGINE, state.settings)):
        return PanelVotes({})
    task = BatchLabellingTask(
        case=state.case, labels=state.settings.labels, sentences=state.case.sentences
    )
    verdicts = await EngineBackend().run(GeneralExpertBatchAgent(), task, state.run_context)
    return PanelVotes({ENGINE: verdicts.judgements()})


def _judge(
    ballot: _Ballot, agent: VotingAgent, backend: PromptingBackend, specialty: str = ""
) -> Voter:
    async def vote(repetition: int) -> Judgements:
        task = VotingTask(
            case=ballot.state.case,
            context=ballot.context,
            labels=ballot.state.settings.labels,
            word_limit=ballot.state.settings.word_limit,
            specialty=specialty,
            exemplars=ballot.exemplars,
            repetition=repetition,
        )
        return await _judge_note(ballot, agent, backend, task)

    return vote


async def _judge_note(
    ballot: _Ballot, agent: VotingAgent, backend: PromptingBackend, task: VotingTask
) -> Judgements:
    """The votes on a note; one that is too long for one call is split in halves."""
    try:
        verdicts = await backend.run(agent, task, ballot.state.run_context)
    except (ContextTooLong, Truncated):
        if len(task.case.sentences) < 2:
            raise
    else:
        return verdicts.judgements()
    judgements: list[Judgement] = []
    for half in split_case(task.case):
        half_task = task.model_copy(update={"case": half})
        judgements.extend(await _judge_note(ballot, agent, backend, half_task))
    return tuple(judgements)


def _write_and_cite(ballot: _Ballot, backend: PromptingBackend) -> Voter:
    async def vote(repetition: int) -> Judgements:
        state = ballot.state
        task = AnswerFirstTask(
            case=state.case,
            context=ballot.context,
            answers=1,
            word_limit=state.settings.word_limit,
            exemplars=ballot.exemplars,
            repetition=repetition,
        )
        answers = await backend.run(AnswerFirstAgent(), task, state.run_context)
        return answers.judgements(state.case.sentence_ids)

    return vote


async def _repeat_votes(
    voters: Mapping[str, Voter], ballot: _Ballot, repetitions: int
) -> dict[str, Judgements]:
    """Every voter's vote, its repetitions pooled; empty where all of them failed."""
    names = []
    pending = []
    for name, voter in voters.items():
        for repetition in range(repetitions):
            names.append(name)
            pending.append(_cast(name, voter, repetition, ballot))
    votes_by_voter: dict[str, list[Judgements]] = defaultdict(list)
    for name, judgements in zip(names, await in_parallel(*pending), strict=True):
        votes_by_voter[name].append(judgements)
    return {name: _pool_repetitions(votes) for name, votes in votes_by_voter.items()}


async def _cast(name: str, voter: Voter, repetition: int, ballot: _Ballot) -> Judgements:
    try:
        return await voter(repetition)
    except (CaseFailed, ServerUnavailable) as failure:
        ballot.failures.append(failure)
        ballot.state.add_remark(f"the vote of {name} is lost", failure)
        return ()


def _pool_repetitions(votes: Iterable[Judgements]) -> Judgements:
    """One judgement a sentence: label and rationale of the first repetition, probabilities pooled."""
    by_id: dict[str, list[Judgement]] = defaultdict(list)
    for judgements in votes:
        for judgement in judgements:
            by_id[judgement.sentence_id].append(judgement)
    return tuple(_pool_judgements(judgements) for judgements in by_id.values())


def _pool_judgements(judgements: Sequence[Judgement]) -> Judgement:
    probability = pool([stated_probability(judgement) for judgement in judgements])
    return judgements[0].model_copy(update={"probability": probability})


def _without_empty(judgements: Mapping[str, Judgements]) -> dict[str, Judgements]:
    return {name: votes for name, votes in judgements.items() if votes}
