"""Estimates the cost of a run: every prompt is rendered and counted, no request is sent.

Tokens of a prefix that the prompt shares with the previous prompt are also counted on their own,
since most servers charge less for them. Requests of several runs over one cache are paid once.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

from archqa.agents.conversation import conversation_turns
from archqa.agents.dry_run_backend import DryRunCall
from archqa.core.id_lists import list_ids
from archqa.core.question import Item
from archqa.errors import CaseFailed
from archqa.llm.scripted import ScriptedModel
from archqa.runs.agent_cost import (
    AgentCost,
    AmountRange,
    CaseCalls,
    amounts_as_json,
    costs_by_agent,
    total,
)
from archqa.runs.backends import Backends
from archqa.runs.event_loop import run_sync
from archqa.runs.models import model_agents
from archqa.settings import Settings
from archqa.tasks.pipeline import Pipeline


class CostEstimate(NamedTuple):
    """The cost of a run by agent. `sampled_cases` of `cases` cases were rendered.

    `incomplete_cases` of these could be followed only up to some call after which others may come:
    the estimate is then a lower bound. Conversations are not among them: their later turns are
    estimated. `uncalled_agents` may be called in the run, but were not in the dry run. `variants`
    is the number of runs over these cases.
    """

    rows: tuple[AgentCost, ...]
    cases: int
    sampled_cases: int
    incomplete_cases: int = 0
    uncalled_agents: tuple[str, ...] = ()
    variants: int = 1

    @property
    def amounts(self) -> AmountRange:
        """Calls, tokens and cost of the whole run, without any discount for shared prefixes."""
        return AmountRange(
            low=total(row.amounts.low for row in self.rows),
            expected=total(row.amounts.expected for row in self.rows),
            high=total(row.amounts.high for row in self.rows),
        )

    @property
    def calls(self) -> int:
        """Calls the run is expected to make."""
        return self.amounts.expected.calls

    @property
    def cached_calls(self) -> int:
        """Calls the cache answers."""
        return sum(row.cached_calls for row in self.rows)

    @property
    def cost_usd(self) -> float | None:
        """The expected dollars; None where a price is unknown."""
        return self.amounts.expected.cost_usd

    @property
    def remarks(self) -> tuple[str, ...]:
        """What the numbers rest on: turns of conversations, prices, and what is not in them."""
        return tuple(dict.fromkeys(_remarks(self)))

    def as_json(self) -> dict[str, Any]:
        """The object that `archqa predict --dry-run --json` prints."""
        return {
            "cases": self.cases,
            "variants": self.variants,
            "rehearsed": self.sampled_cases,
            "incomplete_cases": self.incomplete_cases,
            "cached_calls": self.cached_calls,
            **amounts_as_json(self.amounts),
            "remarks": list(self.remarks),
            "by_agent": [row.as_json() for row in self.rows],
        }


class Variant(NamedTuple):
    """One of several runs over the same cases."""

    pipeline: Pipeline
    settings: Settings


def estimate_cost(
    cases: Sequence[Item], pipeline: Pipeline, settings: Settings, *, sample_size: int | None = None
) -> CostEstimate:
    """Dry-run the cases, or an evenly spaced sample of them, and scale the calls to all cases."""
    return estimate_variants(cases, [Variant(pipeline, settings)], sample_size=sample_size)


def estimate_variants(
    cases: Sequence[Item], variants: Sequence[Variant], *, sample_size: int | None = None
) -> CostEstimate:
    """The same for several runs together, one after the other.

    A request that an earlier one has made is answered from the cache, where there is one.
    """
    max_cases = sample_size or len(cases)
    step = max(1, -(-len(cases) // max_cases))
    sample = cases[::step]
    asked: set[tuple[str, str]] = set()
    met: list[CaseCalls] = []
    incomplete = 0
    uncalled: dict[str, None] = {}
    for variant in variants:
        followed = run_sync(_dry_run(sample, variant))
        case_calls = followed.cases
        if variant.settings.cache.enabled:
            case_calls = [_paid_once(case, asked) for case in case_calls]
        met += case_calls
        incomplete += followed.incomplete_cases
        uncalled |= dict.fromkeys(_uncalled_agents(variant, case_calls))
    rows = costs_by_agent(met, variants[0].settings, len(cases) / len(sample))
    return CostEstimate(
        tuple(rows), len(cases), len(sample), incomplete, tuple(uncalled), len(variants)
    )


class _Followed(NamedTuple):
    """The calls of each case, and how many cases could not be followed to their end."""

    cases: list[CaseCalls]
    incomplete_cases: int


async def _dry_run(cases: Sequence[Item], variant: Variant) -> _Followed:
    pipeline, settings = variant
    backends = Backends(settings, pipeline, ScriptedModel([]))  # A dry run needs no key.
    pipeline_settings = settings.for_pipeline(pipeline)
    followed: list[CaseCalls] = []
    incomplete_cases = 0
    try:
        for case in cases:
            calls: list[DryRunCall] = []
            context = backends.dry_run_context(calls, case)
            try:
                await pipeline.run(case, context, pipeline_settings)
            except CaseFailed:
                incomplete_cases += not _ends_in_conversation(calls)
            followed.append(CaseCalls(calls, pipeline_settings))  # Those before a failure count.
    finally:
        await backends.close()
    return _Followed(followed, incomplete_cases)


def _ends_in_conversation(calls: Sequence[DryRunCall]) -> bool:
    """Whether a case stopped in a conversation, whose further turns are estimated."""
    return bool(calls) and calls[-1].agent in conversation_turns()


def _paid_once(case: CaseCalls, asked: set[tuple[str, str]]) -> CaseCalls:
    """The calls, those that were made before as cached ones; `asked` receives the others."""
    calls = []
    for call in case.calls:
        request = (call.server, call.request.digest)
        calls.append(call._replace(cached=call.cached or request in asked))
        asked.add(request)
    return case._replace(calls=calls)


def _uncalled_agents(variant: Variant, cases: Iterable[CaseCalls]) -> Iterator[str]:
    called = {call.agent for case in cases for call in case.calls}
    for agent in model_agents(variant.settings, variant.pipeline):
        if agent not in called:
            yield agent


def _remarks(estimate: CostEstimate) -> Iterator[str]:
    for row in estimate.rows:
        if row.turns is not None and row.amounts.expected.calls:
            turns = row.turns.turns
            yield (
                f"{row.agent}: {turns.expected:g} turns a conversation ({row.turns.basis}; "
                f"{turns.low:g} to {turns.high:g}), each of which sends those before it again, and "
                f"{row.turns.result_tokens} tokens for a tool's result (assumed). "
                f"{row.turns.source}."
            )
    for row in estimate.rows:
        if row.amounts.expected.calls:
            origin = row.price.origin if row.price else "its price is unknown, and so is the cost"
            yield f"{row.model}: {origin}."
    called = {row.agent for row in estimate.rows}
    uncalled = [agent for agent in estimate.uncalled_agents if agent not in called]
    if uncalled:
        yield f"Not in the estimate, since a dry run does not call them: {list_ids(uncalled)}."
