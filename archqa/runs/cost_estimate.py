"""Estimates the cost of a run: every prompt is rendered and counted, no request is sent.

Tokens are estimated at four characters each. Tokens of a prefix that the prompt shares with the
previous prompt are also counted on their own, since most servers charge less for them.
"""

import asyncio
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
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
    """The calls of one agent with one model, over all cases. Tokens are estimates."""

    agent: str
    model: str
    calls: int
    cached_calls: int
    prompt_tokens: int
    shared_tokens: int
    completion_tokens: int
    cost_usd: float | None


class CostEstimate(NamedTuple):
    """The cost of a run by agent. `sampled_cases` of `cases` cases were rendered.

    `incomplete_cases` of these could be followed only up to some call: the estimate is then a lower
    bound. A conversation is followed up to its first reply that is not cached.
    """

    rows: tuple[AgentCost, ...]
    cases: int
    sampled_cases: int
    incomplete_cases: int = 0

    @property
    def calls(self) -> int:
        """Calls the run will make."""
        return sum(row.calls for row in self.rows)

    @property
    def cached_calls(self) -> int:
        """Calls the cache answers."""
        return sum(row.cached_calls for row in self.rows)

    def as_json(self) -> dict[str, Any]:
        """The object that `archqa predict --dry-run --json` prints."""
        return {
            "cases": self.cases,
            "rehearsed": self.sampled_cases,
            "incomplete_cases": self.incomplete_cases,
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
        total = 0.0
        for row in self.rows:
            if row.cost_usd is None:
                return None
            total += row.cost_usd
        return total


def estimate_cost(
    cases: Sequence[Item], pipeline: Pipeline, settings: Settings, *, sample_size: int | None = None
) -> CostEstimate:
    """Dry-run the cases, or an evenly spaced sample of them, and scale the calls to all cases."""
    max_cases = sample_size or len(cases)
    step = max(1, -(-len(cases) // max_cases))
    sample = cases[::step]
    calls, incomplete_cases = asyncio.run(_dry_run(sample, pipeline, settings))
    rows = _costs_by_agent(calls, settings, len(cases) / len(sample))
    return CostEstimate(tuple(rows), len(cases), len(sample), incomplete_cases)


async def _dry_run(
    cases: Sequence[Item], pipeline: Pipeline, settings: Settings
) -> tuple[list[DryRunCall], int]:
    """Return the calls, and how many cases could not be followed to their end."""
    backends = Backends(settings, pipeline, ScriptedModel([]))  # A dry run needs no key.
    pipeline_settings = settings.for_pipeline(pipeline)
    calls: list[DryRunCall] = []
    incomplete_cases = 0
    try:
        for case in cases:
            context = backends.dry_run_context(calls, case)
            try:
                await pipeline.run(case, context, pipeline_settings)
            except CaseFailed:
                incomplete_cases += 1  # The calls before the failure count.
    finally:
        await backends.close()
    return calls, incomplete_cases


def _costs_by_agent(
    calls: Iterable[DryRunCall], settings: Settings, scale: float
) -> Iterator[AgentCost]:
    by_agent: dict[tuple[str, str], list[DryRunCall]] = defaultdict(list)
    for call in calls:
        by_agent[call.agent, call.request.model].append(call)
    for (agent, model), agent_calls in by_agent.items():
        yield _agent_cost(agent, model, agent_calls, settings.price_of(model), scale)


def _agent_cost(
    agent: str, model: str, calls: list[DryRunCall], price: Price | None, scale: float
) -> AgentCost:
    requests = []
    reply_characters = 0
    for call in calls:
        if not call.cached:
            requests.append(call.request)
            reply_characters += call.reply_characters
    prompt_tokens, shared_tokens = _prompt_tokens(requests)
    completion_tokens = reply_characters // CHARACTERS_PER_TOKEN
    cost: float | None = 0.0
    if requests:
        cost = _cost(price, prompt_tokens * scale, completion_tokens * scale)
    cached_calls = len(calls) - len(requests)
    return AgentCost(
        agent=agent,
        model=model,
        calls=round(len(requests) * scale),
        cached_calls=round(cached_calls * scale),
        prompt_tokens=round(prompt_tokens * scale),
        shared_tokens=round(shared_tokens * scale),
        completion_tokens=round(completion_tokens * scale),
        cost_usd=cost,
    )


def _prompt_tokens(requests: Sequence[Request]) -> tuple[int, int]:
    """Return the tokens of all prompts, and those that each shares with the previous prompt."""
    characters = 0
    shared_characters = 0
    previous_prompt = ""
    for request in requests:
        prompt = _prompt_text(request)
        characters += len(prompt)
        shared_characters += shared_prefix(previous_prompt, prompt)
        previous_prompt = prompt
    return characters // CHARACTERS_PER_TOKEN, shared_characters // CHARACTERS_PER_TOKEN


def _prompt_text(request: Request) -> str:
    return "\n".join(message.content for message in request.messages)


def shared_prefix(text_1: str, text_2: str) -> int:
    """Return the length in characters of the longest common prefix."""
    length = 0
    for character_1, character_2 in zip(text_1, text_2, strict=False):
        if character_1 != character_2:
            break
        length += 1
    return length


def _cost(price: Price | None, prompt_tokens: float, completion_tokens: float) -> float | None:
    if price is None:
        return None
    return price.cost(round(prompt_tokens), 0, round(completion_tokens))
