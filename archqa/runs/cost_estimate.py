"""What a run will cost, told before anything is spent: every prompt is rendered and counted, nobody is asked.

Tokens are estimated at four characters each; what a server had read before (a shared prefix) is told apart, since most
servers charge less for it or reuse it.
"""

import asyncio
from collections import defaultdict
from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

from archqa.agents.dry_run_backend import DryRunCall
from archqa.core.question import Item
from archqa.errors import CaseFailed
from archqa.llm.model import CHARACTERS_PER_TOKEN, Request
from archqa.llm.prices import Price
from archqa.llm.scripted import ScriptedModel
from archqa.runs.backends import Backends
from archqa.settings import Settings
from archqa.tasks.pipeline import Pipeline


class AgentCost(NamedTuple):
    """Calls of one agent with one model, over all cases. Tokens are estimates."""

    agent: str
    model: str
    calls: int
    cached_calls: int
    prompt_tokens: int
    shared_tokens: int
    completion_tokens: int
    cost_usd: float | None


class CostEstimate(NamedTuple):
    """What a run will cost, agent by agent. `rehearsed` of `cases` cases were rendered."""

    rows: tuple[AgentCost, ...]
    cases: int
    sampled_cases: int

    @property
    def calls(self) -> int:
        """Calls that will be made."""
        return sum(row.calls for row in self.rows)

    @property
    def cached_calls(self) -> int:
        """Calls that the cache answers."""
        return sum(row.cached_calls for row in self.rows)

    def as_json(self) -> dict[str, Any]:
        """The object that `archqa predict --dry-run --json` prints."""
        return {
            "cases": self.cases,
            "rehearsed": self.sampled_cases,
            "calls": self.calls,
            "cached_calls": self.cached_calls,
            "prompt_tokens": sum(row.prompt_tokens for row in self.rows),
            "shared_prompt_tokens": sum(row.shared_tokens for row in self.rows),
            "completion_tokens": sum(row.completion_tokens for row in self.rows),
            "cost_usd": self.cost_usd,
            "by_agent": [row._asdict() for row in self.rows],
        }

    @property
    def cost_usd(self) -> float | None:
        """Dollars, without any discount for shared prefixes; None where a price is unknown."""
        costs = [row.cost_usd for row in self.rows]
        return None if None in costs else sum(cost for cost in costs if cost is not None)


def estimate_cost(
    cases: Sequence[Item], pipeline: Pipeline, settings: Settings, *, sample_size: int | None = None
) -> CostEstimate:
    """Rehearse the cases, or an even sample of them, and add up what all of them would ask."""
    sample = cases[:: max(1, -(-len(cases) // (sample_size or len(cases))))]
    calls = asyncio.run(_rehearse(sample, pipeline, settings))
    return CostEstimate(
        tuple(_rows(calls, settings, len(cases) / len(sample))), len(cases), len(sample)
    )


async def _rehearse(
    cases: Sequence[Item], pipeline: Pipeline, settings: Settings
) -> list[DryRunCall]:
    minds = Backends(settings, pipeline, ScriptedModel([]))  # A rehearsal needs no key.
    calls: list[DryRunCall] = []
    try:
        for case in cases:
            try:
                await pipeline.run(
                    case, minds.dry_run_context(calls, case), settings.for_pipeline(pipeline)
                )
            except CaseFailed:
                continue  # A case that cannot be answered costs what it asked until then.
    finally:
        await minds.close()
    return calls


def _rows(calls: Iterable[DryRunCall], settings: Settings, scale: float) -> Iterable[AgentCost]:
    by_agent: dict[tuple[str, str], list[DryRunCall]] = defaultdict(list)
    for call in calls:
        by_agent[call.agent, call.request.model].append(call)
    for (agent, model), group in by_agent.items():
        fresh = [call for call in group if not call.cached]
        prompt, shared = _prompt_tokens([call.request for call in fresh])
        completion = sum(call.reply_characters for call in fresh) // CHARACTERS_PER_TOKEN
        yield AgentCost(
            agent=agent,
            model=model,
            calls=round(len(fresh) * scale),
            cached_calls=round((len(group) - len(fresh)) * scale),
            prompt_tokens=round(prompt * scale),
            shared_tokens=round(shared * scale),
            completion_tokens=round(completion * scale),
            cost_usd=_cost(settings.price_of(model), prompt * scale, completion * scale)
            if fresh
            else 0.0,
        )


def _prompt_tokens(requests: Sequence[Request]) -> tuple[int, int]:
    """Estimated tokens of all prompts, and of the parts that equal the beginning of the prompt before."""
    texts = ["\n".join(message.content for message in request.messages) for request in requests]
    shared = sum(shared_prefix(one, two) for one, two in pairwise(texts))
    return sum(map(len, texts)) // CHARACTERS_PER_TOKEN, shared // CHARACTERS_PER_TOKEN


def shared_prefix(one: str, two: str) -> int:
    """Characters that two texts have in common at their beginning."""
    differing = (
        place for place, pair in enumerate(zip(one, two, strict=False)) if pair[0] != pair[1]
    )
    return next(differing, min(len(one), len(two)))


def _cost(price: Price | None, prompt: float, completion: float) -> float | None:
    return None if price is None else price.cost(round(prompt), 0, round(completion))
